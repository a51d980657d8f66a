//! The answer to a load balancer that asks the node about one Service.

use std::num::NonZeroU16;

use sluice_model::IpFamily;

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
}
