//! The budget of connections that all servers of the process share.
//!
//! ```text
//! accepted ─▶ admit ─▶ Idle ──head complete──▶ Computing ──answer──▶ Sending ──written──▶ Idle
//!              │        │                                               │
//!              │        └──── pushed out while a limit is reached ──────┘ only after 10 s
//!              └─▶ refused when no connection may be pushed out
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tracing::warn;

/// Most connections from other machines and pods. More descriptors do not raise it: an idle
/// connection takes about 15 KB of memory (256 of them with half a head: 3.7 MB).
const MOST_REMOTE: usize = 512;
/// After this time an answer that its client does not read counts as idle.
const STALLED: Duration = Duration::from_secs(10);
/// At most one line is logged in this time.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The addresses of this machine. Its clones are equal at all times.
#[derive(Clone, Debug, Default)]
pub struct Own(Arc<RwLock<BTreeSet<IpAddr>>>);

impl Own {
    /// Whether the machine has this address.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        let addresses = self.0.read().unwrap_or_else(PoisonError::into_inner);
        addresses.contains(&ip)
    }

    /// Replaces all addresses.
    pub fn set(&self, all: &BTreeSet<IpAddr>) {
        let mut addresses = self.0.write().unwrap_or_else(PoisonError::into_inner);
        addresses.clone_from(all);
    }
}

/// Counts connections, as metrics do.
pub trait Report: Send + Sync {
    /// So many connections are open now.
    fn open(&self, connections: usize);
    /// A connection was pushed out or refused.
    fn limit_reached(&self, limit: Limit);
}

/// Counts nothing.
impl Report for () {
    fn open(&self, _: usize) {}
    fn limit_reached(&self, _: Limit) {}
}

/// The origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This machine: the kubelet's probes, and clients of the status socket.
    Local,
    /// An IPv4 address, or the first address of an IPv6 /64: one machine may use all of a /64 (RFC
    /// 4291, section 2.5.4).
    Remote(IpAddr),
}

impl Source {
    /// The source of a connection from `peer` to our address `to`. Both are equal in most
    /// connections of this machine to itself. They differ when the destination is a secondary IPv4
    /// address: the source is the primary one then (`fib_add_ifaddr` in `net/ipv4/fib_frontend.c`).
    fn between(peer: IpAddr, to: IpAddr, own: &Own) -> Self {
        let (peer, to) = (peer.to_canonical(), to.to_canonical());
        match peer {
            _ if peer.is_loopback() || peer == to || own.contains(peer) => Self::Local,
            IpAddr::V4(_) => Self::Remote(peer),
            IpAddr::V6(ip) => {
                let prefix = u128::from(ip) & !u128::from(u64::MAX);
                Self::Remote(Ipv6Addr::from(prefix).into())
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("this machine"),
            Self::Remote(ip @ IpAddr::V4(_)) => write!(f, "{ip}"),
            Self::Remote(ip @ IpAddr::V6(_)) => write!(f, "{ip}/64"),
        }
    }
}

/// A stream whose source is known.
pub trait Peer {
    /// `None` when the client has disconnected.
    fn source(&self, own: &Own) -> Option<Source>;
}

impl Peer for TcpStream {
    fn source(&self, own: &Own) -> Option<Source> {
        let (peer, to) = (self.peer_addr().ok()?, self.local_addr().ok()?);
        Some(Source::between(peer.ip(), to.ip(), own))
    }
}

impl Peer for UnixStream {
    fn source(&self, _: &Own) -> Option<Source> {
        Some(Source::Local)
    }
}

/// The limits, derived from the descriptors that the process may open. Together they take at most
/// five eighths: netlink, files and the API server need descriptors too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    /// Connections from other machines and pods.
    remote: usize,
    /// Connections of one remote source.
    per_source: usize,
    /// Connections of this machine.
    local: usize,
    /// Listeners of health check node ports.
    listeners: usize,
}

impl Shares {
    fn of_descriptors(descriptors: usize) -> Self {
        let remote = MOST_REMOTE.min(descriptors / 4);
        Self {
            remote,
            per_source: (remote / 8).max(1),
            local: (remote / 2).max(1),
            listeners: descriptors / 4,
        }
    }
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Connections from other machines and pods.
    Remote,
    /// Connections of one remote source.
    Source,
    /// Connections of this machine.
    Local,
}

impl Limit {
    /// In the order in which metrics keep their counters.
    pub const ALL: [Self; 3] = [Self::Remote, Self::Source, Self::Local];

    /// The word for metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Remote => "remote",
            Self::Source => "source",
            Self::Local => "local",
        }
    }
}

/// The part of an exchange that a connection is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The head of a request is not complete.
    Idle,
    /// The answer is being computed.
    Computing,
    /// The answer is being written.
    Sending,
}

#[derive(Debug)]
struct Connection {
    source: Source,
    stage: Stage,
    /// Begin of the stage.
    since: Instant,
    /// Dropping it ends the connection's task.
    _open: oneshot::Sender<Infallible>,
}

impl Connection {
    fn may_be_pushed_out(&self, now: Instant) -> bool {
        match self.stage {
            Stage::Idle => true,
            Stage::Computing => false,
            Stage::Sending => now.saturating_duration_since(self.since) >= STALLED,
        }
    }
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: BTreeMap<u64, Connection>,
    /// The last log line, and the limits reached since then.
    logged: Option<Instant>,
    reached: usize,
}

impl Connections {
    fn count(&self, of: impl Fn(Source) -> bool) -> usize {
        self.open.values().filter(|it| of(it.source)).count()
    }

    /// Makes room for one connection. Returns the limit that was reached, and whether there is room.
    ///
    /// Remote connections never push out local ones.
    fn make_room(&mut self, source: Source, limits: Shares, now: Instant) -> (Option<Limit>, bool) {
        let is_same = |it: Source| it == source;
        let is_remote = |it: Source| it != Source::Local;
        let (same, remote) = (self.count(is_same), self.count(is_remote));
        let (limit, pushed) = match source {
            Source::Local if same >= limits.local => (Limit::Local, self.push_out(is_same, now)),
            Source::Remote(_) if same >= limits.per_source => {
                (Limit::Source, self.push_out(is_same, now))
            }
            Source::Remote(_) if remote >= limits.remote => {
                (Limit::Remote, self.push_out(is_remote, now))
            }
            _ => return (None, true),
        };
        (Some(limit), pushed)
    }

    /// Closes the connection that is idle for longest. Returns `false` when each has an answer in
    /// progress.
    fn push_out(&mut self, of: impl Fn(Source) -> bool, now: Instant) -> bool {
        let all = self.open.iter();
        let idle = all.filter(|(_, it)| of(it.source) && it.may_be_pushed_out(now));
        let longest = idle.min_by_key(|(_, it)| it.since).map(|(id, _)| *id);
        longest.is_some_and(|it| self.open.remove(&it).is_some())
    }

    /// Logs a reached limit, at most once a minute.
    fn log(&mut self, limit: Limit, source: Source, now: Instant) {
        self.reached += 1;
        let is_due = |it: Instant| now.saturating_duration_since(it) >= LOG_PERIOD;
        if !self.logged.is_none_or(is_due) {
            return;
        }
        let connections = self.reached;
        warn!(
            limit = limit.as_str(),
            %source,
            connections,
            "too many connections to the servers of this node: those idle for longest are closed"
        );
        self.logged = Some(now);
        self.reached = 0;
    }
}

/// The budget of all servers of the process.
pub struct Budget {
    limits: Shares,
    own: Own,
    report: Arc<dyn Report>,
    connections: Mutex<Connections>,
}

impl Budget {
    /// The budget of a process that may open so many descriptors, on the machine with these addresses.
    #[must_use]
    pub fn new(descriptors: usize, own: Own, report: Arc<dyn Report>) -> Arc<Self> {
        Self::of(Shares::of_descriptors(descriptors), own, report)
    }

    /// The budget of a server for many clients: at most `connections`, and never more than half of the descriptors that
    /// this process may open. One remote source has at most an eighth of them, this machine half.
    #[must_use]
    pub fn shared(connections: usize) -> Arc<Self> {
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, _)| soft);
        let half = descriptors.map_or(connections, |it| {
            usize::try_from(it / 2).unwrap_or(connections)
        });
        let remote = connections.min(half);
        let shares = Shares {
            remote,
            per_source: (remote / 8).max(1),
            local: (remote / 2).max(1),
            listeners: 0,
        };
        Self::of(shares, Own::default(), Arc::new(()))
    }

    fn of(limits: Shares, own: Own, report: Arc<dyn Report>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            own,
            report,
            connections: Mutex::default(),
        })
    }

    /// Most listeners of health check node ports.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.limits.listeners
    }

    /// Admits a connection, if necessary in the place of another one. `None`: it is refused.
    pub(crate) fn admit(self: &Arc<Self>, stream: &impl Peer) -> Option<(Place, Closed)> {
        self.admit_at(stream.source(&self.own)?, Instant::now())
    }

    fn admit_at(self: &Arc<Self>, source: Source, now: Instant) -> Option<(Place, Closed)> {
        let mut connections = self.lock();
        let (limit, has_room) = connections.make_room(source, self.limits, now);
        if let Some(limit) = limit {
            self.report.limit_reached(limit);
            connections.log(limit, source, now);
        }
        if !has_room {
            return None;
        }
        let (open, closed) = oneshot::channel();
        let id = connections.next;
        connections.next += 1;
        let connection = Connection {
            source,
            stage: Stage::Idle,
            since: now,
            _open: open,
        };
        connections.open.insert(id, connection);
        self.show(&connections);
        let budget = self.clone();
        Some((Place { id, budget }, closed))
    }

    fn show(&self, connections: &Connections) {
        self.report.open(connections.open.len());
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        let connections = self.connections.lock();
        connections.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Becomes ready when the connection is pushed out.
pub(crate) type Closed = oneshot::Receiver<Infallible>;

/// The place of a connection in the budget, free again when dropped.
pub(crate) struct Place {
    id: u64,
    budget: Arc<Budget>,
}

impl Place {
    /// The connection enters a stage.
    pub(crate) fn enter(&self, stage: Stage) {
        self.enter_at(stage, Instant::now());
    }

    fn enter_at(&self, stage: Stage, now: Instant) {
        if let Some(connection) = self.budget.lock().open.get_mut(&self.id) {
            connection.stage = stage;
            connection.since = now;
        }
    }

    /// The answer is written as far as it exists: [`Stage::Sending`] becomes [`Stage::Idle`].
    pub(crate) fn written(&self) {
        if let Some(connection) = self.budget.lock().open.get_mut(&self.id)
            && connection.stage == Stage::Sending
        {
            connection.stage = Stage::Idle;
            connection.since = Instant::now();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = self.budget.lock();
        connections.open.remove(&self.id);
        self.budget.show(&connections);
    }
}

#[cfg(test)]
mod tests;
