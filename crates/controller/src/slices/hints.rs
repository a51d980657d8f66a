//! Hints for a Service's `trafficDistribution` (KEP-4444, KEP-3015).

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForNode, ForZone};

/// Sets the hints of all endpoints. Whether one has others than before.
///
/// Only ready endpoints get new hints; others keep what they had while there is a distribution, because readiness
/// alone changes nothing for anybody (`trafficdist.go`).
pub(crate) fn set(slice: &mut EndpointSlice, service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let distribution = spec.and_then(|it| it.traffic_distribution.as_deref());
    let nodes = match distribution {
        Some("PreferSameNode") => Some(true),
        Some("PreferClose" | "PreferSameZone") => Some(false),
        _ => None,
    };
    let mut is_changed = false;
    for endpoint in slice.endpoints.iter_mut().flatten() {
        let wanted = match nodes {
            None => None,
            Some(nodes) if is_ready(endpoint) => hints(endpoint, nodes),
            Some(_) => continue,
        };
        is_changed |= endpoint.hints != wanted;
        endpoint.hints = wanted;
    }
    is_changed
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
