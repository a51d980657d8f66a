//! Who owns which frontend when several Services ask for one.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::{Frontend, PortKey};

/// Something that only one service port can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// A frontend.
    Frontend(Frontend),
    /// The undefined ports of a ClusterIP.
    ClusterIp(IpAddr),
}

/// A service port that asks, by seniority: the older Service first, one without a creation time
/// last, then by name. A pure order, so that no order of events can matter.
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

/// Every claim with its claimants, the senior first.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    claimants: HashMap<Claim, Vec<Claimant>>,
}

impl Claims {
    /// The service port that owns a frontend.
    pub fn owner(&self, frontend: &Frontend) -> Option<&PortKey> {
        self.holder(Claim::Frontend(*frontend))
    }

    /// The service port that refuses the undefined ports of a ClusterIP; `None` when the address
    /// belongs to no Service.
    pub fn cluster_ip_owner(&self, addr: IpAddr) -> Option<&PortKey> {
        self.holder(Claim::ClusterIp(addr))
    }

    pub(crate) fn holder(&self, claim: Claim) -> Option<&PortKey> {
        let claimants = self.claimants.get(&claim)?;
        claimants.first().map(|it| &it.key)
    }

    /// Adds a claim; returns the other claimants when the claim thereby changes hands.
    pub(crate) fn add(&mut self, claim: Claim, claimant: Claimant) -> Vec<PortKey> {
        let claimants = self.claimants.entry(claim).or_default();
        let Err(position) = claimants.binary_search(&claimant) else {
            return Vec::new();
        };
        // Nearly always the only one.
        claimants.reserve_exact(1);
        claimants.insert(position, claimant);
        let others = claimants.iter().skip(1).filter(|_| position == 0);
        others.map(|it| it.key.clone()).collect()
    }

    /// Takes a claim back; returns the other claimants when the claim thereby changes hands.
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
