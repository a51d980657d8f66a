//! What is true of an object in a manifest alone: the API server's defaults are not in it yet, and
//! nothing allocates or fills in what a cluster would.

use serde::de::DeserializeOwned;

use super::fields::{self, Table};
use crate::api;
use crate::convert::{Fault, Step};
use sluice_yaml::quoted;

use Step::{Field, Index};

/// A kind of object as people write it.
pub(super) trait Written: DeserializeOwned {
    /// The fields that the API has.
    fn fields() -> &'static Table;

    /// Sets what the API server sets in an object that lacks it (`SetDefaults_*` of Kubernetes'
    /// `pkg/apis/*/v1/defaults.go`), apart from the defaults that the conversion knows.
    fn set_defaults(&mut self) {}

    /// What the object lacks to be of use here, and what to write instead. It is served all the
    /// same.
    fn advice(&self) -> Vec<Fault> {
        Vec::new()
    }
}

impl Written for api::Service {
    fn fields() -> &'static Table {
        &fields::SERVICE
    }

    fn advice(&self) -> Vec<Fault> {
        let spec = &self.spec;
        let kind = spec.kind.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        if self.metadata.labels.proxy_name.is_some() || kind == "ExternalName" {
            return found;
        }
        let is_empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
        if spec.cluster_ips.is_empty() && is_empty(&spec.cluster_ip) {
            let why = "is not set and nothing here allocates one, so the Service is not served: \
                       write an address, or None for a headless Service";
            found.push(fault([Field("spec"), Field("clusterIP")], why));
        } else if let Some(family) = spec.ip_families.get(spec.cluster_ips.len().max(1))
            && !is_headless(spec)
        {
            let why = format!(
                "{} has no address and nothing here allocates one: write it in clusterIPs",
                quoted(family)
            );
            found.push(fault([Field("spec"), Field("ipFamilies")], why));
        }
        for (i, port) in spec.ports.iter().enumerate() {
            if kind == "NodePort" && matches!(port.node_port, None | Some(0)) {
                let why = "is not set and nothing here allocates one: write a port that is free on \
                           every node, such as one of 30000-32767";
                let path = [Field("spec"), Field("ports"), Index(i), Field("nodePort")];
                found.push(fault(path, why));
            }
        }
        let has_address = !self.status.load_balancer.ingress.is_empty();
        if !is_empty(&spec.load_balancer_ip) && !has_address {
            let why = "asks a load balancer for an address, and there is none here: write the \
                       address as ip in status.loadBalancer.ingress";
            found.push(fault([Field("spec"), Field("loadBalancerIP")], why));
        }
        found
    }
}

impl Written for api::EndpointSlice {
    fn fields() -> &'static Table {
        &fields::ENDPOINT_SLICE
    }

    /// `pkg/apis/discovery/v1/defaults.go`: a name, and a protocol that the conversion knows.
    fn set_defaults(&mut self) {
        name_ports(&mut self.ports);
    }

    fn advice(&self) -> Vec<Fault> {
        let mut found = ports_without_number(&[Field("ports")], &self.ports);
        let service = self.metadata.labels.service_name.as_deref();
        if service.unwrap_or_default().is_empty() {
            let why = "the label kubernetes.io/service-name is missing, so no Service has these \
                       endpoints: write the name of the Service";
            found.push(fault([Field("metadata"), Field("labels")], why));
        }
        found
    }
}

impl Written for api::Endpoints {
    fn fields() -> &'static Table {
        &fields::ENDPOINTS
    }

    /// As those of the slices that are made from it.
    fn set_defaults(&mut self) {
        self.subsets
            .iter_mut()
            .for_each(|it| name_ports(&mut it.ports));
    }

    fn advice(&self) -> Vec<Fault> {
        let each = self.subsets.iter().enumerate();
        let of_subset = |(i, it): (usize, &api::EndpointSubset)| {
            ports_without_number(&[Field("subsets"), Index(i), Field("ports")], &it.ports)
        };
        each.flat_map(of_subset).collect()
    }
}

impl Written for api::Node {
    fn fields() -> &'static Table {
        &fields::NODE
    }
}

impl Written for api::ServiceCidr {
    fn fields() -> &'static Table {
        &fields::SERVICE_CIDR
    }
}

impl Written for api::Namespace {
    fn fields() -> &'static Table {
        &fields::NAMESPACE
    }
}

impl Written for api::Pod {
    fn fields() -> &'static Table {
        &fields::POD
    }
}

fn is_headless(spec: &api::ServiceSpec) -> bool {
    let first = spec.cluster_ips.first().or(spec.cluster_ip.as_ref());
    first.is_some_and(|it| it == "None")
}

fn fault(path: impl Into<Vec<Step>>, message: impl Into<String>) -> Fault {
    Fault {
        path: path.into(),
        message: message.into(),
    }
}

fn name_ports(ports: &mut [api::EndpointPort]) {
    for it in ports {
        it.name.get_or_insert_default();
    }
}

fn ports_without_number(path: &[Step], ports: &[api::EndpointPort]) -> Vec<Fault> {
    let ports = ports.iter().enumerate();
    let without = ports.filter(|(_, it)| it.port.is_none());
    let found = without.map(|(i, _)| {
        let path = [path, &[Index(i), Field("port")]].concat();
        fault(
            path,
            "is missing, and a proxy ignores such a port: write its number",
        )
    });
    found.collect()
}
