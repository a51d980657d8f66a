//! Which service port owns a frontend when several ask for it.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::{Frontend, PortKey};

/// A resource that only one service port can own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// A frontend.
    Frontend(Frontend),
    /// The undefined ports of a ClusterIP.
    ClusterIp(IpAddr),
}

/// A service port that asks for a claim. The order is that of ownership: the older Service first,
/// a Service without a creation time last, then by name. Events do not influence it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Claimant {
    undated: bool,
    created: Option<i64>,
    pub(crate) key: PortKey,
}

impl Claimant {
    pub(crate) fn new(created: Option<i64>, key: PortKey) -> Self {
        Self {
            undated: created.is_none(),
            created,
            key,
        }
    }
}

/// Every claim with its claimants in order; the first one owns the claim.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    claimants: HashMap<Claim, Vec<Claimant>>,
}

impl Claims {
    /// The service port that owns a frontend.
    pub fn owner(&self, frontend: &Frontend) -> Option<&PortKey> {
        self.holder(Claim::Frontend(*frontend))
    }

    /// The service port that owns a ClusterIP and rejects its undefined ports; `None` when the
    /// address belongs to no Service.
    pub fn cluster_ip_owner(&self, addr: IpAddr) -> Option<&PortKey> {
        self.holder(Claim::ClusterIp(addr))
    }

    pub(crate) fn holder(&self, claim: Claim) -> Option<&PortKey> {
        let claimants = self.claimants.get(&claim)?;
        claimants.first().map(|it| &it.key)
    }

    /// Adds a claim. Returns the other claimants if this changes the owner.
    pub(crate) fn add(&mut self, claim: Claim, claimant: Claimant) -> Vec<PortKey> {
        let claimants = self.claimants.entry(claim).or_default();
        let Err(position) = claimants.binary_search(&claimant) else {
            return Vec::new();
        };
        // Nearly every claim has one claimant.
        claimants.reserve_exact(1);
        claimants.insert(position, claimant);
        let others = claimants.iter().skip(1).filter(|_| position == 0);
        others.map(|it| it.key.clone()).collect()
    }

    /// Removes a claim. Returns the other claimants if this changes the owner.
    pub(crate) fn remove(&mut self, claim: Claim, claimant: &Claimant) -> Vec<PortKey> {
        let Some(claimants) = self.claimants.get_mut(&claim) else {
            return Vec::new();
        };
        let Ok(position) = claimants.binary_search(claimant) else {
            return Vec::new();
        };
        claimants.remove(position);
        let others = claimants.iter().filter(|_| position == 0);
        let others = others.map(|it| it.key.clone()).collect();
        if claimants.is_empty() {
            self.claimants.remove(&claim);
        }
        others
    }
}
