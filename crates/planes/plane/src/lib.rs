//! What a data plane is: everything that differs between nftables, iptables and IPVS, as one trait.
//!
//! ```text
//! Events ─▶ Planner ─▶ Plan ─▶ Reconciler<B> ─▶ kernel
//!           └────────── Proxy<B> ──────────┘
//! ```
//!
//! A data plane is a crate that implements [`DataPlane`] and a line in the table of the program that
//! runs it. Nothing else knows data planes by name.

pub mod chains;
mod counters;
mod families;
mod flows;
pub mod kube_proxy;
mod leftovers;
mod options;
mod proxy;
mod rendered;
mod rule_counts;
mod scene;
mod unserved;

use sluice_plan::{Plan, PortKey, PortPlan};
use sluice_reconcile::{Backend, BackendError};

pub use counters::{
    ConnectionCount, Counter, Counters, FailureMetrics, Load, PacketCounters, PacketError, Reading,
    RuleCount, RuleMetrics,
};
pub use families::Families;
pub use flows::{FlowTable, NetfilterFlows};
pub use leftovers::{Keep, LeftoverError, Leftovers, Purpose, Removal, Request, Trace};
pub use options::{Options, Sysctl};
pub use proxy::{Proxy, Superseded, Synced};
pub use rendered::RenderedObject;
pub use rule_counts::{RuleCounts, RuleKey};
pub use scene::{Scale, Scene};
pub use sluice_netlink::nftables::Exchange;
pub use unserved::Unserved;

/// Reports a foreign change of our rules: what changed, and who changed it if that is known, in one
/// line for the log. To be called from any thread.
pub type ForeignChange = Box<dyn Fn(String) + Send>;

/// Told of each exchange with the kernel. To be called from any thread.
pub type ExchangeObserver = Box<dyn Fn(Exchange) + Send + Sync>;

/// A data plane as servers and metrics know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The mode's name, as in a configuration.
    pub name: &'static str,
    /// Which of kube-proxy's metrics it has.
    pub metrics: RuleMetrics,
    /// What to say to who asks for connections that nobody counts.
    pub uncounted: &'static str,
}

/// A backend that carries out the plans of service ports.
pub trait ServiceBackend: Backend<Owner = PortKey, Plan = PortPlan, Scene = Scene> {
    /// From how many endpoints (counted once per frontend) on a plan is [`Scale::Large`].
    const LARGE: usize;
}

/// One way to make the kernel carry out plans.
///
/// A value is an open data plane of one network namespace, used by one thread. Before it is opened,
/// [`prepare`](Self::prepare) says what the machine needs; after the first sync
/// [`started`](Self::started) begins what our rules are needed for.
pub trait DataPlane: ServiceBackend + Sized {
    /// The mode's name, as in a configuration.
    const NAME: &'static str;

    /// Whether it runs the programs of iptables, which take privileges of their own.
    const RUNS_PROGRAMS: bool;

    /// Which of kube-proxy's metrics it has.
    const METRICS: RuleMetrics;

    /// What to say to who asks for connections where [`counters`](Self::counters) has none.
    const UNCOUNTED: &'static str =
        "connections are not counted: start it with --count-connections";

    /// What others have to know of it.
    const DESCRIPTION: Description = Description {
        name: Self::NAME,
        metrics: Self::METRICS,
        uncounted: Self::UNCOUNTED,
    };

    /// What a kube-proxy in this mode leaves, and Sluice in it.
    const LEFTOVERS: &'static dyn Leftovers;

    /// Finds out what the machine must have before it is opened, loads kernel modules, and says which
    /// sysctls have to be set. Called while all privileges are there.
    ///
    /// # Errors
    ///
    /// What the machine lacks.
    fn prepare(options: &Options<'_>) -> Result<Vec<Sysctl>, BackendError> {
        let _ = options;
        Ok(Vec::new())
    }

    /// Does what an agent cannot that has lost its privileges, for `--init-only`. Called after the
    /// sysctls of [`prepare`](Self::prepare) were set.
    ///
    /// # Errors
    ///
    /// The machine lacks something, or refuses.
    fn initialize(options: &Options<'_>) -> Result<(), BackendError> {
        let _ = options;
        Ok(())
    }

    /// Connects to the kernel in the network namespace of the calling thread, and probes what the
    /// machine has. Rules are not written. Called while all privileges are there.
    ///
    /// # Errors
    ///
    /// What the machine lacks, in one line.
    fn open(options: &Options<'_>) -> Result<Self, BackendError>;

    /// What must stay when what an earlier proxy left is removed.
    fn keep(&self) -> Box<Keep>;

    /// Begins what our rules are needed for, after the first successful sync: the watch for foreign
    /// changes, settings that are safe only behind our rules.
    fn started(&mut self, report: ForeignChange) {
        let _ = report;
    }

    /// Has exchanges with the kernel observed from now on, where the data plane has some of its own.
    fn on_exchange(&mut self, observer: ExchangeObserver) {
        let _ = observer;
    }

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

    /// A reader of the connections that it counts; `None` when it counts none.
    ///
    /// # Errors
    ///
    /// The kernel could not be reached.
    fn counters(&self) -> Result<Option<Box<dyn Counters>>, BackendError> {
        Ok(None)
    }

    /// A reader of the packets that its rules count for kube-proxy's metrics; `None` when they count
    /// none.
    fn packet_counters(&self) -> Option<Box<dyn PacketCounters>> {
        None
    }

    /// The connections that it translates: stale ones are deleted after each sync.
    fn flow_table(&self) -> Box<dyn FlowTable> {
        Box::new(NetfilterFlows::default())
    }

    /// Every object of a plan as a first sync would write it, as text that the usual programs load.
    /// Pure.
    fn text(plan: &Plan, options: &Options<'_>) -> String;

    /// The same, object by object.
    fn objects(plan: &Plan, options: &Options<'_>) -> Vec<RenderedObject>;
}
