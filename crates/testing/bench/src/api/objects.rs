//! Objects as an API server stores them, with the fields that a proxy does not need.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::super::synthetic::{ENDPOINT_PORT, cluster_ip};

/// Endpoints of one slice: the default of the EndpointSlice controller.
const PER_SLICE: u32 = 100;

/// First endpoint address, in 100.64.0.0/10.
const FIRST_ENDPOINT: u32 = 0x6440_0001;

/// The size of a cluster: Services, and endpoints of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) services: u32,
    pub(crate) endpoints: u32,
}

impl Shape {
    /// Every object.
    pub(super) fn objects(self) -> Vec<Value> {
        let services = (0..self.services).map(service);
        let slices = (0..self.services).flat_map(|index| {
            let firsts = (0..self.endpoints).step_by(PER_SLICE as usize);
            firsts.map(move |first| self.slice(index, first, None))
        });
        services.chain(slices).chain([node()]).collect()
    }

    /// The slice of a Service that begins with endpoint `first`. With `replaced` the first endpoint
    /// has another address, a different one for each number.
    pub(super) fn slice(self, index: u32, first: u32, replaced: Option<u32>) -> Value {
        let count = (self.endpoints - first).min(PER_SLICE);
        let all = (first..first + count).map(|number| match replaced {
            Some(round) if number == first => self.services * self.endpoints + round,
            _ => index * self.endpoints + number,
        });
        slice(index, first / PER_SLICE, all)
    }

    /// The slice of a Service without its last endpoint.
    pub(super) fn shorter(self, index: u32) -> Value {
        let first = index * self.endpoints;
        slice(index, 0, first..first + self.endpoints - 1)
    }
}

fn name(index: u32) -> String {
    format!("svc-{index}")
}

/// The metadata that Kubernetes adds to each object.
fn metadata(name: &str, manager: &str) -> Value {
    json!({
        "name": name,
        "namespace": "default",
        "managedFields": [{
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-11-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:annotations": {".": {}}},
                "f:spec": {"f:ports": {}, "f:selector": {}, "f:sessionAffinity": {}, "f:type": {}}},
        }],
    })
}

/// Service `index`: one TCP port 80.
pub(crate) fn service(index: u32) -> Value {
    let name = name(index);
    let ip = cluster_ip(index);
    let mut metadata = metadata(&name, "kubectl-client-side-apply");
    metadata["labels"] = json!({"app": name, "team": "payments"});
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {
            "clusterIP": ip, "clusterIPs": [ip], "type": "ClusterIP",
            "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": ENDPOINT_PORT}],
            "selector": {"app": name},
        },
        "status": {"loadBalancer": {}},
    })
}

fn slice(index: u32, number: u32, endpoints: impl Iterator<Item = u32>) -> Value {
    let service = name(index);
    let mut metadata = metadata(&format!("{service}-{number}"), "kube-controller-manager");
    metadata["labels"] = json!({
        "app": service,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": service,
    });
    metadata["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Service", "name": service, "controller": true,
        "blockOwnerDeletion": true, "uid": "3ad7cdb5-6f5e-4c0e-9d3f-5a2e0fb1d2c1",
    }]);
    let endpoint = |it: u32| {
        let address = Ipv4Addr::from(FIRST_ENDPOINT + it);
        json!({
            "addresses": [address],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{}", it % 100),
            "targetRef": {"kind": "Pod", "namespace": "default",
                "name": format!("{service}-6d4cf56db6-{it:05}"),
                "uid": "b21d3f0c-65a2-4b7f-8c53-0f3c1d9b4a77"},
            "zone": "zone-a",
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": "IPv4",
        "ports": [{"name": "http", "protocol": "TCP", "port": ENDPOINT_PORT}],
        "endpoints": endpoints.map(endpoint).collect::<Vec<_>>(),
    })
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.1"}]},
    })
}
