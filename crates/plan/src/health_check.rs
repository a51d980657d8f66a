//! The answer to a load balancer that asks the node about one Service.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroU16;

use crate::endpoints::candidates;
use crate::port::{cluster_ip, health_check_node_port};
use crate::state::ServiceEntry;
use sluice_model::{IpFamily, Service};

/// The health check of a Service of type LoadBalancer with the external policy Local
/// (`spec.healthCheckNodePort`; kube-proxy, `pkg/proxy/healthcheck/service_health.go`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Port of the node that answers.
    pub port: NonZeroU16,
    /// See [`HealthCheck::local_endpoints`]; IPv4 first.
    pub local: [Option<usize>; 2],
}

impl HealthCheck {
    /// How many addresses of this node have a ready endpoint, over all ports; an endpoint that
    /// terminates does not count, though it may still get traffic. `None` when the Service has no
    /// ClusterIP of the family, and nobody answers there.
    pub fn local_endpoints(&self, family: IpFamily) -> Option<usize> {
        self.local[family as usize]
    }

    pub(super) fn of(entry: &ServiceEntry, service: &Service, node_name: &str) -> Option<Self> {
        let port = health_check_node_port(service)?;
        let count = |family| {
            cluster_ip(service, family)?;
            let mut ready: BTreeSet<IpAddr> = BTreeSet::new();
            for port in &service.ports {
                let all = candidates(entry, &service.port_name(port), family, node_name);
                let here = all.iter().filter(|it| it.local && it.is_ready());
                ready.extend(here.map(|it| it.addr.ip()));
            }
            Some(ready.len())
        };
        Some(Self {
            port,
            local: IpFamily::ALL.map(count),
        })
    }
}
