//! What a data plane is: everything that differs between nftables, iptables and IPVS, as one trait.
//!
//! ```text
//! Events ─▶ Planner ─▶ Plan ─▶ Reconciler<P: DataPlane> ─▶ kernel
//!           └─────────────── Proxy<P> ────────────────┘
//! ```

mod counters;
pub mod kube_proxy;
mod proxy;
mod scene;
mod unserved;

use sluice_plan::{PortKey, PortPlan};
use sluice_reconcile::{Backend, BackendError};

pub use counters::{ConnectionCount, Counter, Counters, Load, Reading, RuleCount};
pub use proxy::{Proxy, Superseded, Synced};
pub use scene::{Scale, Scene};
pub use unserved::Unserved;

/// One way to make the kernel carry out plans.
pub trait DataPlane: Backend<Owner = PortKey, Plan = PortPlan, Scene = Scene> {
    /// From how many endpoints (counted once per frontend) on a plan is [`Scale::Large`].
    const LARGE: usize;

    /// The family that the machine has and that is served to no Service for the moment; `None` when
    /// there is no such family. [`render`](Backend::render) leaves it out, and
    /// [`upkeep`](Backend::upkeep) asks for a resync as soon as it can be served.
    fn unserved(&self) -> Option<Unserved> {
        None
    }

    /// How many rules there are in each table, in data planes that have rules. Cheap.
    fn rule_counts(&self) -> Vec<RuleCount> {
        Vec::new()
    }

    /// A reader of what this data plane counts; `None` when it counts nothing.
    ///
    /// # Errors
    ///
    /// The kernel could not be reached.
    fn counters(&self) -> Result<Option<Box<dyn Counters>>, BackendError> {
        Ok(None)
    }
}
