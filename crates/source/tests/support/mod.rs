//! Manifests for tests, and the state of a source's consumer.

mod objects;
mod wanted;

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) use objects::{Event, Object};
pub(crate) use wanted::{Kinds, Loaded, Pods, Wanted, load, parse, watch};

/// Long enough for a loaded machine, short enough for a person.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The node of the tests.
pub(crate) const NODE: &str = "n1";

/// Every kind of object that can be read.
pub(crate) fn all_kinds() -> Kinds {
    Kinds {
        namespaces: true,
        pods: Pods::All,
    }
}

/// A Service of one port on one line each for name and port.
pub(crate) fn service(name: &str, port: u32) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec: {{clusterIP: 10.96.0.1, ports: [{{port: {port}}}]}}\n"
    )
}

/// The same as an object, `namespace/name` or a name in `default`.
pub(crate) fn service_object(name: &str, port: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(name),
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": port}]},
    })
}

/// An EndpointSlice of a Service with one endpoint.
pub(crate) fn slice_object(name: &str, service: &str, address: &str) -> Value {
    let mut metadata = metadata(name);
    metadata["labels"] = json!({"kubernetes.io/service-name": service});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": "IPv4", "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "", "port": 8080}],
    })
}

/// A Node with an address, or none while that is empty.
pub(crate) fn node_object(name: &str, address: &str) -> Value {
    let addresses = match address {
        "" => json!([]),
        _ => json!([{"type": "InternalIP", "address": address}]),
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"addresses": addresses},
    })
}

/// A ServiceCIDR.
pub(crate) fn cidr_object(name: &str, cidr: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"cidrs": [cidr]},
    })
}

/// A Namespace.
pub(crate) fn namespace_object(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"phase": "Active"},
    })
}

/// A Pod on a node, with an address or none while that is empty.
pub(crate) fn pod_object(name: &str, node: &str, address: &str) -> Value {
    let addresses = match address {
        "" => json!([]),
        _ => json!([{"ip": address}]),
    };
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata(name),
        "spec": {
            "nodeName": node, "dnsPolicy": "ClusterFirst",
            "containers": [{"name": "web", "image": "web"}],
        },
        "status": {"phase": "Running", "podIP": address, "podIPs": addresses},
    })
}

fn metadata(name: &str) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    json!({
        "name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z",
    })
}

/// The events of a source so far.
pub(crate) struct View {
    batches: Receiver<Vec<Event>>,
    pub(crate) objects: BTreeMap<String, Object>,
    pub(crate) problems: BTreeMap<String, Vec<String>>,
    /// Every Delete event, in order.
    pub(crate) deleted: Vec<String>,
    pub(crate) sets: usize,
    pub(crate) largest_batch: usize,
    pub(crate) synced: usize,
}

impl View {
    pub(crate) fn new(batches: Receiver<Vec<Event>>) -> Self {
        Self {
            batches,
            objects: BTreeMap::new(),
            problems: BTreeMap::new(),
            deleted: Vec::new(),
            sets: 0,
            largest_batch: 0,
            synced: 0,
        }
    }

    fn take(&mut self, batch: Vec<Event>) {
        self.largest_batch = self.largest_batch.max(batch.len());
        for event in batch {
            match event {
                Event::Set(object) => {
                    self.sets += 1;
                    self.objects.insert(object.key().to_string(), object);
                }
                Event::Delete(key) => {
                    self.objects.remove(&key.to_string());
                    self.deleted.push(key.to_string());
                }
                Event::Problems { origin, problems } if problems.is_empty() => {
                    self.problems.remove(&*origin);
                }
                Event::Problems { origin, problems } => {
                    self.problems.insert(origin.to_string(), problems);
                }
                Event::Synced => self.synced += 1,
            }
        }
    }

    /// Receives batches until `wanted` holds.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !wanted(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.batches.recv_timeout(left) {
                Ok(batch) => self.take(batch),
                Err(error) => panic!("{what}: {error}: {}; {:?}", self.brief(), self.problems),
            }
        }
    }

    /// Receives batches until the objects are these; see [`View::brief`].
    #[track_caller]
    pub(crate) fn expect(&mut self, objects: &str) {
        self.until(objects, |it| it.brief() == objects);
    }

    /// The objects: `Service default/web:80`, `EndpointSlice default/web-1 10.0.0.1`, ...
    pub(crate) fn brief(&self) -> String {
        let one = |(key, object): (&String, &Object)| match object {
            Object::Service(it) => format!("{key}:{}", it.ports[0].port),
            Object::EndpointSlice(it) => {
                let addresses = it.endpoints.iter().map(|it| it.address.to_string());
                format!("{key} {}", addresses.collect::<Vec<_>>().join(","))
            }
            Object::Node(_) | Object::ServiceCidr(_) | Object::Namespace(_) | Object::Pod(_) => {
                key.clone()
            }
        };
        self.objects.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    /// Whether the source has ended.
    pub(crate) fn is_over(&mut self) -> bool {
        loop {
            match self.batches.recv_timeout(DEADLINE) {
                Ok(batch) => self.take(batch),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return true,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}
