//! How much one Service may ask for.
//!
//! The API server bounds the size of an object, not what follows from it: 1,000 ports with 1,000
//! external IPs are a million frontends, each with all endpoints. One Service must not exhaust the
//! memory of every node.

use crate::issue::Issue;
use crate::model::{ClusterIps, Service};
use crate::state::ServiceEntry;

/// Frontends of one Service: ports times addresses.
pub(crate) const FRONTENDS: usize = 100_000;

/// Endpoints of one Service, once per frontend that leads to them. A hundred times what
/// Kubernetes is tested with per Service would be 25,000 per frontend.
pub(crate) const ENDPOINTS: usize = 1_000_000;

/// How many frontends a Service asks for, at most.
fn frontends(service: &Service) -> usize {
    let cluster_ips = match &service.cluster_ips {
        ClusterIps::Assigned(ips) => ips.len(),
        ClusterIps::Headless | ClusterIps::Unassigned => 0,
    };
    let node_ports = 2;
    let addresses =
        cluster_ips + service.external_ips.len() + service.load_balancer.len() + node_ports;
    addresses.saturating_mul(service.ports.len())
}

/// Whether the frontends of a Service are too many to be claimed.
pub(crate) fn too_many_frontends(service: &Service) -> Option<Issue> {
    let asked = frontends(service);
    (asked > FRONTENDS).then(|| Issue::TooLarge {
        service: service.name.clone(),
        what: "frontends (ports times addresses)",
        asked,
        limit: FRONTENDS,
    })
}

/// Whether the endpoints of a Service are too many to be planned.
pub(crate) fn too_many_endpoints(service: &Service, entry: &ServiceEntry) -> Option<Issue> {
    let per_port = frontends(service) / service.ports.len().max(1);
    let of_slice = |it: &crate::model::EndpointSlice| it.endpoints.len() * it.ports.len();
    let slices = entry.slices.values();
    let endpoints: usize = slices.map(|it| of_slice(it)).sum();
    let asked = endpoints.saturating_mul(per_port);
    (asked > ENDPOINTS).then(|| Issue::TooLarge {
        service: service.name.clone(),
        what: "endpoints (each once per frontend)",
        asked,
        limit: ENDPOINTS,
    })
}
