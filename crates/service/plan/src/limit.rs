//! Limits of one Service.
//!
//! The API server bounds the size of an object, not what follows from it: 1,000 ports with 1,000
//! external IPs are a million frontends, each with all endpoints. One Service must not exhaust the
//! memory of every node.
//!
//! A Service over a limit is served up to it: its ports in their order, the frontends of a port in
//! theirs, the ClusterIP first. Each family has the limits for itself.

use crate::Role;
use crate::issue::{self, Issue};
use crate::settings::Costs;
use sluice_model::{IpFamily, Service, SessionAffinity};

/// Frontends of one Service: ports times addresses, and NodePorts. Claiming, planning and writing
/// them takes a third of a second.
pub(crate) const FRONTENDS: usize = 50_000;

/// What the data plane writes for one Service: an object for each frontend and for each endpoint of
/// a frontend, and what [`Costs`] says. Kubernetes is tested with 250 endpoints per Service; ten
/// ports with 5,000 endpoints each, on ClusterIP, load balancer and NodePort, are 150,000. All of it
/// may be one port's, which is written in one transaction: nftables takes half a second for it.
pub(crate) const OBJECTS: usize = 300_000;

/// Objects that the data plane writes for the frontends of a service port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Price {
    /// Objects of the port itself: its endpoints, with session affinity.
    pub(crate) once: usize,
    frontend: usize,
    load_balancer: usize,
}

impl Price {
    /// The price of a port with this many endpoints.
    pub(crate) fn new(service: &Service, family: IpFamily, endpoints: usize, costs: Costs) -> Self {
        let (once, each) = match service.affinity {
            SessionAffinity::ClientIp { .. } if costs.affinity > 0 => {
                (endpoints * costs.affinity, 0)
            }
            SessionAffinity::ClientIp { .. } | SessionAffinity::None => (0, 1),
        };
        let ranges = service.source_ranges.iter();
        let ranges = ranges.filter(|it| IpFamily::of_net(it) == family).count();
        let frontend = 1 + endpoints * each;
        Self {
            once,
            frontend,
            load_balancer: frontend + ranges * costs.source_range,
        }
    }

    /// Objects of a frontend with this role.
    pub(crate) fn of(&self, role: Role) -> usize {
        match role {
            Role::LoadBalancer => self.load_balancer,
            Role::NodeDns | Role::ClusterIp | Role::ExternalIp | Role::NodePort => self.frontend,
        }
    }
}

/// The issue of a Service that asks for more frontends than it may have.
pub(crate) fn too_many_frontends(
    service: &Service,
    family: IpFamily,
    asked: usize,
) -> Option<Issue> {
    let what = "frontends (ports times addresses)";
    too_large(service, family, what, asked, FRONTENDS)
}

/// The issue of a Service for which the data plane would have to write too much.
pub(crate) fn too_many_objects(service: &Service, family: IpFamily, asked: usize) -> Option<Issue> {
    let what = "objects (endpoints and source ranges, each once per frontend)";
    too_large(service, family, what, asked, OBJECTS)
}

fn too_large(
    service: &Service,
    family: IpFamily,
    what: &'static str,
    asked: usize,
    limit: usize,
) -> Option<Issue> {
    (asked > limit).then(|| issue::too_large(&service.name, family, what, asked, limit))
}
