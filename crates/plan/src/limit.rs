//! Limits of one Service.
//!
//! The API server bounds the size of an object, not what follows from it: 1,000 ports with 1,000
//! external IPs are a million frontends, each with all endpoints. One Service must not exhaust the
//! memory of every node.

use crate::issue::Issue;
use crate::port::addresses;
use crate::state::ServiceEntry;
use sluice_model::{IpFamily, Service};

/// Frontends of one Service: ports times addresses, and NodePorts.
pub(crate) const FRONTENDS: usize = 100_000;

/// Endpoints of one Service, once per frontend that leads to them. Kubernetes is tested with 250
/// endpoints per Service; this is 4,000 times that.
pub(crate) const ENDPOINTS: usize = 1_000_000;

/// Frontends of each port in a family, at most: the addresses, and one more if any port has a
/// NodePort.
fn per_port(service: &Service, family: IpFamily) -> usize {
    let node_port = service.ports.iter().any(|it| it.node_port.is_some());
    match addresses(service, family).count() {
        0 => 0,
        addresses => addresses + usize::from(node_port),
    }
}

/// Whether the frontends of a Service are too many to be claimed.
pub(crate) fn too_many_frontends(service: &Service) -> Option<Issue> {
    let [v4, v6] = IpFamily::ALL.map(|it| per_port(service, it));
    let asked = (v4 + v6).saturating_mul(service.ports.len());
    too_large(
        service,
        "frontends (ports times addresses)",
        asked,
        FRONTENDS,
    )
}

/// Whether the endpoints of a Service are too many to be planned.
pub(crate) fn too_many_endpoints(service: &Service, entry: &ServiceEntry) -> Option<Issue> {
    let of_family = |family| {
        let slices = entry.slices_of(family);
        let endpoints: usize = slices.map(|it| it.endpoints.len() * it.ports.len()).sum();
        endpoints.saturating_mul(per_port(service, family))
    };
    let [v4, v6] = IpFamily::ALL.map(of_family);
    let asked = v4.saturating_add(v6);
    too_large(
        service,
        "endpoints (each once per frontend)",
        asked,
        ENDPOINTS,
    )
}

fn too_large(service: &Service, what: &'static str, asked: usize, limit: usize) -> Option<Issue> {
    let service = service.name.clone();
    (asked > limit).then_some(Issue::TooLarge {
        service,
        what,
        asked,
        limit,
    })
}
