//! The trait of data planes: everything that differs between nftables, iptables, IPVS and eBPF.
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
mod denials;
mod families;
mod flows;
pub mod kube_proxy;
mod leftovers;
pub mod live;
mod options;
mod part;
mod proxy;
mod rendered;
mod rule_counts;
pub mod rules;
mod scene;
pub mod slots;
#[cfg(feature = "testing")]
pub mod testing;
mod unserved;
mod witness;

use sluice_plan::explain::Explanation;
use sluice_plan::{Plan, PortKey, PortPlan};
use sluice_reconcile::Backend;

pub use counters::{
    ConnectionCount, Counter, Counters, Drops, FailureMetrics, Load, PacketCounters, PacketError,
    Reading, RuleCount, RuleMetrics, TableFill, TableFills,
};
pub use denials::{DenialCounters, DenialReason, Denied, Fate};
pub use families::Families;
pub use flows::{FlowTable, NetfilterFlows};
pub use leftovers::{Keep, LeftoverError, Leftovers, Looks, Purpose, Removal, Request, Trace};
pub use live::Live;
pub use options::{EbpfOptions, FLOWS, MAGLEV_SIZES, Options, Sockets, Sysctl};
pub use proxy::{Proxy, Superseded, Synced};
pub use rendered::RenderedObject;
pub use rule_counts::{RuleCounts, RuleKey};
pub use scene::{Scale, Scene};
pub use sluice_nft::Exchange;
pub use sluice_reconcile::BackendError;
pub use sluice_xtables::programs::{end_all as end_programs, running as running_program};
pub use unserved::Unserved;
pub use witness::{Act, Sighting, Watched, Witness};

/// Takes the report of a foreign change of our rules, in one line: what changed, and which program did it
/// if that is known. Called from any thread.
pub type ForeignChange = Box<dyn Fn(String) + Send>;

/// Called after each exchange with the kernel, from any thread.
pub type ExchangeObserver = Box<dyn Fn(Exchange) + Send + Sync>;

/// A data plane as servers and metrics know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The mode's name, as in a configuration.
    pub name: &'static str,
    /// Which of kube-proxy's metrics it has.
    pub metrics: RuleMetrics,
    /// The answer to a request for connections where they are not counted.
    pub uncounted: &'static str,
}

/// A backend that carries out the plans of service ports.
pub trait ServiceBackend: Backend<Owner = PortKey, Plan = PortPlan, Scene = Scene> {
    /// From how many endpoints (counted once per frontend) on a plan is [`Scale::Large`].
    const LARGE: usize;

    /// The [`cost`](Self::cost) of the changes that are written together, at most. Fewer are when these take long:
    /// see [`Proxy::took`].
    const PART: usize;

    /// How much there is to write for a service port, in the time that one element or rule takes.
    fn cost(port: &PortPlan) -> usize;
}

/// One way to make the kernel carry out plans.
///
/// A value is an open data plane of one network namespace, used by one thread. Before it is opened,
/// [`prepare`](Self::prepare) says what the machine needs; after the first sync
/// [`started`](Self::started) begins what our rules are needed for.
pub trait DataPlane: ServiceBackend + Sized + 'static {
    /// The mode's name, as in a configuration.
    const NAME: &'static str;

    /// Whether it runs the programs of iptables, which take privileges of their own.
    const RUNS_PROGRAMS: bool;

    /// How many times as long as a sync took it pauses after it, where the operator names no shortest time between two
    /// syncs: 0 where a change costs as much as changes.
    const PAUSE: u32 = 0;

    /// Whether it loads eBPF programs and writes their maps, which takes privileges of their own.
    const LOADS_BPF: bool = false;

    /// Whether it acts in the network namespaces of pods, which takes privileges of their own.
    fn enters_namespaces(_: &Options<'_>) -> bool {
        false
    }

    /// Which of kube-proxy's metrics it has.
    const METRICS: RuleMetrics;

    /// The answer to a request for connections where [`counters`](Self::counters) has none.
    const UNCOUNTED: &'static str =
        "connections are not counted: start it with --count-connections";

    /// Its description for servers and metrics.
    const DESCRIPTION: Description = Description {
        name: Self::NAME,
        metrics: Self::METRICS,
        uncounted: Self::UNCOUNTED,
    };

    /// The objects that a kube-proxy in this mode leaves, and Sluice in it.
    const LEFTOVERS: &'static dyn Leftovers;

    /// Loads kernel modules, and returns the sysctls that have to be set. Called before
    /// [`open`](Self::open), with all privileges.
    ///
    /// # Errors
    ///
    /// The machine lacks a requirement, which the error names.
    fn prepare(options: &Options<'_>) -> Result<Vec<Sysctl>, BackendError> {
        let _ = options;
        Ok(Vec::new())
    }

    /// Does the work of `--init-only`, for an agent without the privileges. Called after the sysctls of
    /// [`prepare`](Self::prepare) were set. Returns the sysctls to set after that.
    ///
    /// # Errors
    ///
    /// The machine lacks a requirement, or the kernel refuses.
    fn initialize(options: &Options<'_>) -> Result<Vec<Sysctl>, BackendError> {
        let _ = options;
        Ok(Vec::new())
    }

    /// Connects to the kernel in the network namespace of the calling thread, and probes the machine. Writes
    /// no rules. Called with all privileges.
    ///
    /// # Errors
    ///
    /// The machine lacks a requirement, which the error names in one line.
    fn open(options: &Options<'_>) -> Result<Self, BackendError>;

    /// The objects that stay when those of an earlier proxy are removed.
    fn keep(&self) -> Box<Keep>;

    /// Called after the first successful sync: starts the watch for foreign changes. Returns the sysctls
    /// that are safe only with our rules.
    fn started(&mut self, report: ForeignChange) -> Vec<Sysctl> {
        let _ = report;
        Vec::new()
    }

    /// Sets the observer of exchanges with the kernel, in data planes that have such exchanges.
    fn on_exchange(&mut self, observer: ExchangeObserver) {
        let _ = observer;
    }

    /// The family that cannot be served for the moment; `None` when all families of the machine are served.
    /// [`render`](Backend::render) leaves it out, and [`upkeep`](Backend::upkeep) asks for a resync as soon
    /// as it can be served.
    fn unserved(&self) -> Option<Unserved> {
        None
    }

    /// How many rules there are in each table, in data planes that have rules. Cheap.
    fn rule_counts(&self) -> Vec<RuleCount> {
        Vec::new()
    }

    /// How full its tables in the kernel are; `None` where they have no size.
    fn table_fills(&self) -> Option<TableFills> {
        None
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

    /// A reader of the packets that its rules drop and reject; `None` where they are not counted by
    /// reason.
    ///
    /// # Errors
    ///
    /// The kernel could not be reached.
    fn denial_counters(&self) -> Result<Option<Box<dyn DenialCounters>>, BackendError> {
        Ok(None)
    }

    /// The connections that it translates: stale ones are deleted after each sync.
    fn flow_table(&self) -> Box<dyn FlowTable> {
        Box::new(NetfilterFlows::default())
    }

    /// What the kernel does with the packet of an explanation, and where that differs. Opens its own
    /// connections, reads only, and needs no agent. The rules may be those of a kube-proxy in this mode.
    ///
    /// # Errors
    ///
    /// The kernel cannot be read.
    fn live(explanation: &Explanation) -> Result<Live, BackendError>;

    /// Watches what programs in the kernel do with packets; `None` in data planes without programs, or when they
    /// are not loaded.
    ///
    /// # Errors
    ///
    /// The programs cannot be told, or somebody else watches.
    fn witness(watched: Watched) -> Result<Option<Box<dyn Witness>>, BackendError> {
        let _ = watched;
        Ok(None)
    }

    /// Every object of a plan, as a first sync writes it, as text that `nft`, `iptables-restore` and so on
    /// load. Pure.
    fn text(plan: &Plan, options: &Options<'_>) -> String;

    /// The same, object by object.
    fn objects(plan: &Plan, options: &Options<'_>) -> Vec<RenderedObject>;
}
