//! Counters of a data plane: connections, rules, packets.

use std::sync::Arc;

use std::net::SocketAddr;

use sluice_model::{IpFamily, Protocol};
use sluice_netlink::nfacct::{self, Accounts};
use sluice_plan::Frontend;
use sluice_reconcile::BackendError;

/// Reads what a data plane has counted. Has a connection to the kernel of its own and may be used
/// from any thread, so that no sync waits for it.
pub trait Counters: Send {
    /// Reads every counter. Expensive.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked.
    fn read(&mut self) -> Result<Reading, BackendError>;
}

/// The values of all counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The counters; one may be listed twice, the later value last.
    pub counts: Vec<ConnectionCount>,
    /// No counter is missing. The kernel may skip some when rules change while it lists them.
    pub is_complete: bool,
}

/// Connections that an endpoint got by way of a frontend, as one counter shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCount {
    /// The frontend that clients dial.
    pub frontend: Frontend,
    /// The kernel's counter.
    pub counter: Counter,
    pub endpoint: SocketAddr,
    /// Number of connections since the counter was created.
    pub connections: u64,
    /// The present load of the endpoint; `None` in data planes without one.
    pub load: Option<Load>,
}

/// Identity of a counter in the kernel. A counter that is created again begins at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// The element of a map for one slot of a frontend; its endpoint may change.
    Slot(&'static str, Frontend, u32),
    /// A real server of the virtual server that clients dial by this protocol, address and port.
    RealServer(Protocol, SocketAddr, SocketAddr),
    /// A real server of the virtual server of a firewall mark.
    MarkedRealServer(u32, SocketAddr),
}

/// The load of a real server of IPVS by way of one frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Its share of new connections; 0 gets none.
    pub weight: u32,
    /// Number of established connections.
    pub active: u64,
    /// Number of other connections: opening, closing, or without a state, as all of UDP.
    pub inactive: u64,
}

impl Load {
    /// The sum with the load of the same endpoint by way of another frontend.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            weight: self.weight.max(other.weight),
            active: self.active.saturating_add(other.active),
            inactive: self.inactive.saturating_add(other.inactive),
        }
    }
}

/// The rules of ours in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCount {
    /// `iptables` for IPv4, `ip6tables` for IPv6.
    pub family: IpFamily,
    /// The table: `nat`.
    pub table: &'static str,
    /// How many there are.
    pub total: usize,
    /// How many of them the last write wrote.
    pub last: usize,
}

/// How full a table of the kernel is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFill {
    /// Its name: `FLOWS`.
    pub table: &'static str,
    /// Entries in it, as of the last look.
    pub entries: u64,
    /// Entries that it holds at most.
    pub capacity: u64,
    /// What an operator can do before the table is full, and what happens then, in one line; `None` for a table that
    /// grows in time.
    pub when_full: Option<&'static str>,
    /// Why the kernel gave no larger one when that was wanted.
    pub refused: Option<String>,
    /// Packets of new connections that found no room; `None` for a table in which packets enter nothing.
    pub drops: Option<Drops>,
    /// Whose new connections are dropped now, and why, in one line.
    pub dropping: Option<String>,
}

/// Packets of new connections that were dropped for want of an entry in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// The table was full.
    pub full: u64,
    /// The table filled up, and their clients had a large part of it.
    pub share: u64,
}

impl TableFill {
    /// Whether the operator should do something now.
    #[must_use]
    pub fn needs_room(&self) -> bool {
        self.when_full.is_some() && self.entries > self.capacity / 5 * 4
    }
}

/// Tells how full the tables of a data plane are, at any time and on any thread. Cheap.
pub type TableFills = Arc<dyn Fn() -> Vec<TableFill> + Send + Sync>;

/// The metrics of kube-proxy that a data plane has: their names depend on the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleMetrics {
    /// Syncs that read the kernel are told from those that write differences.
    pub tells_full_syncs: bool,
    /// How failures of syncs are counted.
    pub failures: FailureMetrics,
    /// Rules are counted by table, and packets by some rules.
    pub counts_rules: bool,
    /// Packets that rules drop and reject are counted by reason.
    pub counts_denials: bool,
    /// Its tables in the kernel have a size.
    pub has_tables: bool,
}

/// How kube-proxy counts failures of syncs in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureMetrics {
    /// `nftables_sync_failures_total`.
    Nftables,
    /// `iptables_restore_failures_total` for all syncs.
    Restore,
    /// `iptables_restore_failures_total` for full syncs, and `iptables_partial_restore_failures_total` for the others.
    RestoreAndPartial,
}

/// Reads packets that rules count, under the names of kube-proxy's objects of nfacct. May be used
/// from any thread.
pub trait PacketCounters: Send {
    /// The packets in the object of this name; `None` when it does not exist.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked. [`PacketError::is_final`] when it never can be.
    fn packets(&mut self, name: &str) -> Result<Option<u64>, PacketError>;
}

/// Packets could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct PacketError {
    /// The kernel's reason.
    pub reason: String,
    /// The kernel will never answer, so no retry helps.
    pub is_final: bool,
}

impl PacketCounters for Accounts {
    fn packets(&mut self, name: &str) -> Result<Option<u64>, PacketError> {
        Accounts::packets(self, name).map_err(|error| PacketError {
            is_final: nfacct::is_final(&error),
            reason: error.to_string(),
        })
    }
}
