//! Which service port owns a frontend when several ask for it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::{Frontend, PortKey, Role};

/// A resource that only one service port can own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    Frontend(Frontend),
    /// Every port of an address. Only a ClusterIP owns it; a Service with the address as an
    /// external IP looks it up to find the owner.
    Address(IpAddr),
}

/// What a service port claims a frontend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Traffic to the endpoints.
    Traffic,
    /// `spec.healthCheckNodePort`: this process answers there itself.
    HealthCheck,
}

/// A service port that asks for a claim. The order is that of ownership: by role, then the older
/// Service, a Service without a creation time last, then by name. Events do not influence it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Claimant {
    role: Role,
    /// One for all claims of a port, which may be 50,000.
    port: Arc<Seniority>,
    purpose: Purpose,
}

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Seniority {
    undated: bool,
    created: Option<i64>,
    key: PortKey,
}

impl Claimant {
    /// A service port of a Service with this creation time, as one that asks for a ClusterIP.
    pub(crate) fn new(created: Option<i64>, key: PortKey) -> Self {
        Self {
            role: Role::ClusterIp,
            port: Arc::new(Seniority {
                undated: created.is_none(),
                created,
                key,
            }),
            purpose: Purpose::Traffic,
        }
    }

    /// The claimant with another role.
    pub(crate) fn asking_as(&self, role: Role) -> Self {
        Self {
            role,
            ..self.clone()
        }
    }

    /// The claimant of a health check NodePort.
    pub(crate) fn for_health_check(&self) -> Self {
        Self {
            role: Role::NodePort,
            purpose: Purpose::HealthCheck,
            ..self.clone()
        }
    }

    pub(crate) fn key(&self) -> &PortKey {
        &self.port.key
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }
}

/// Every claim with its claimants in order; the first one owns the claim.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    claimants: HashMap<Claim, Vec<Claimant>>,
}

impl Claims {
    /// The service port that gets the traffic of a frontend. Nobody gets that of an external address
    /// that is the ClusterIP of a Service, nor that of a health check node port.
    pub fn owner(&self, frontend: &Frontend) -> Option<&PortKey> {
        let holder = self.holder(Claim::Frontend(*frontend))?;
        let is_barred = holder.purpose == Purpose::HealthCheck || self.bars(frontend, holder.role);
        (!is_barred).then(|| holder.key())
    }

    /// Whether a frontend of this role has an address that is the ClusterIP of another Service.
    pub(crate) fn bars(&self, frontend: &Frontend, role: Role) -> bool {
        match frontend {
            Frontend::Address { addr, .. } if role != Role::ClusterIp => {
                self.cluster_ip_owner(*addr).is_some()
            }
            Frontend::Address { .. } | Frontend::NodePort { .. } => false,
        }
    }

    /// The service port that owns a ClusterIP and rejects its undefined ports; `None` when the
    /// address is no Service's ClusterIP.
    pub fn cluster_ip_owner(&self, addr: IpAddr) -> Option<&PortKey> {
        self.holder(Claim::Address(addr)).map(Claimant::key)
    }

    /// The claimant that owns a claim.
    pub(crate) fn holder(&self, claim: Claim) -> Option<&Claimant> {
        let first = self.claimants.get(&claim)?.first();
        first.filter(|it| matches!(claim, Claim::Frontend(_)) || it.role == Role::ClusterIp)
    }

    /// Every claimant, the senior one first.
    pub(crate) fn claimants(&self, claim: Claim) -> &[Claimant] {
        self.claimants.get(&claim).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn add(&mut self, claim: Claim, claimant: Claimant) {
        let claimants = self.claimants.entry(claim).or_default();
        if let Err(position) = claimants.binary_search(&claimant) {
            // Nearly every claim has one claimant.
            claimants.reserve_exact(1);
            claimants.insert(position, claimant);
        }
    }

    pub(crate) fn remove(&mut self, claim: Claim, claimant: &Claimant) {
        let Some(claimants) = self.claimants.get_mut(&claim) else {
            return;
        };
        if let Ok(position) = claimants.binary_search(claimant) {
            claimants.remove(position);
        }
        if claimants.is_empty() {
            self.claimants.remove(&claim);
        }
    }
}
