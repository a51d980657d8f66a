//! Objects of manifests → what a controller acts on.

use serde_json::Value;
use sluice_controller::{Manifests, Typed};
use sluice_source::{Problem, Written};

/// The objects by kind. An object that its kind's type cannot hold is a problem; other kinds are ignored.
pub(super) fn manifests(written: &[Written]) -> (Manifests, Vec<Problem>) {
    let (mut manifests, mut problems) = (Manifests::default(), Vec::new());
    for it in written {
        let text = |field: &str| it.value[field].as_str().unwrap_or_default();
        let problem = match (text("apiVersion"), text("kind")) {
            ("v1", "Service") => push(&mut manifests.services, it),
            ("v1", "Pod") => push(&mut manifests.pods, it),
            ("v1", "Node") => push(&mut manifests.nodes, it),
            ("v1", "Endpoints") => push(&mut manifests.endpoints, it),
            ("discovery.k8s.io/v1", "EndpointSlice") => push(&mut manifests.slices, it),
            ("networking.k8s.io/v1", "ServiceCIDR") => push(&mut manifests.service_cidrs, it),
            ("networking.k8s.io/v1", "IPAddress") => push(&mut manifests.ip_addresses, it),
            _ => None,
        };
        problems.extend(problem);
    }
    (manifests, problems)
}

fn push<T: Typed>(list: &mut Vec<T>, written: &Written) -> Option<Problem> {
    if !matches!(&written.value["metadata"]["name"], Value::String(it) if !it.is_empty()) {
        return Some(written.problem("metadata.name", "is required"));
    }
    match T::read(&written.value) {
        Ok(it) => list.push(it),
        Err(error) => return Some(written.problem("", error.why)),
    }
    None
}
