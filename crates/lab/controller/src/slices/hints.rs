//! Hints for a Service's `trafficDistribution` (KEP-4444, KEP-3015).

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForNode, ForZone};

/// Sets the hints of all endpoints.
pub(crate) fn set(slice: &mut EndpointSlice, service: &Service) {
    for endpoint in slice.endpoints.iter_mut().flatten() {
        endpoint.hints = wanted(endpoint, service);
    }
}

/// Whether all endpoints have the right hints.
pub(crate) fn are_set(slice: &EndpointSlice, service: &Service) -> bool {
    let mut endpoints = slice.endpoints.iter().flatten();
    endpoints.all(|it| it.hints == wanted(it, service))
}

/// The hints of an endpoint. An unready endpoint keeps the hints that it has while `trafficDistribution` is set: a
/// change of readiness alone rewrites no hints (`trafficdist.go`).
fn wanted(endpoint: &Endpoint, service: &Service) -> Option<EndpointHints> {
    let spec = service.spec.as_ref();
    let nodes = match spec.and_then(|it| it.traffic_distribution.as_deref()) {
        Some("PreferSameNode") => true,
        Some("PreferClose" | "PreferSameZone") => false,
        _ => return None,
    };
    if is_ready(endpoint) {
        hints(endpoint, nodes)
    } else {
        endpoint.hints.clone()
    }
}

fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|it| it.ready) == Some(true)
}

fn hints(endpoint: &Endpoint, nodes: bool) -> Option<EndpointHints> {
    let zone = endpoint.zone.clone().map(|name| vec![ForZone { name }]);
    let node = endpoint.node_name.clone().filter(|_| nodes);
    let node = node.map(|name| vec![ForNode { name }]);
    (zone.is_some() || node.is_some()).then_some(EndpointHints {
        for_nodes: node,
        for_zones: zone,
    })
}
