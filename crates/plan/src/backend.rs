//! What a data plane has to offer: one kernel technology as a map of keyed objects.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::delta::Delta;
use crate::{Frontend, NodePlan, PortPlan};
use sluice_model::{IpFamily, Protocol};

/// Keyed objects in the order they were rendered, no key twice.
pub type Objects<B> = Vec<(<B as Backend>::Key, <B as Backend>::Object)>;

/// A data plane. Renders plans into objects, reads objects from the kernel, writes differences.
///
/// Rendering is pure and total, and per service port, so that a change costs what changed.
/// Objects of different service ports have different keys, except for *shared* ones: those must
/// be equal wherever they are rendered, and live as long as anyone renders them.
pub trait Backend {
    /// Identity of an object in the kernel. Displays as a person would name it.
    type Key: Ord + Clone + fmt::Display + fmt::Debug;
    /// Everything we want to be true of it.
    type Object: Clone + Eq + fmt::Debug;
    /// What rendering must remember of a service port so that its next change is small: slot
    /// numbers, ids.
    type Placement: Clone + fmt::Debug;

    /// From how many endpoints (counted once per frontend) on a plan is [`Scale::Large`].
    const LARGE: usize;

    /// Whether what is rendered for a service port depends on the [`Scene`]: when that changes, all
    /// of them are rendered again.
    const SCENE_SHAPES_PORTS: bool;

    /// Whether objects of this key may be rendered by several service ports.
    fn is_shared(key: &Self::Key) -> bool;

    /// The objects that do not depend on any Service.
    fn standing(&self, scene: &Scene) -> Objects<Self>;

    /// Chooses the places of a service port's endpoints, near to where they were before. What no
    /// other service port may have is remembered as given away.
    fn place(
        &mut self,
        port: &PortPlan,
        previous: Option<(&PortPlan, &Self::Placement)>,
    ) -> Self::Placement;

    /// Finds the places that the kernel's objects show, so that a restart moves nothing. Need not
    /// be exact: [`place`](Self::place) goes on from here and the delta repairs the rest.
    fn recover(
        &self,
        port: &PortPlan,
        observed: &BTreeMap<Self::Key, Self::Object>,
    ) -> Self::Placement;

    /// The objects that carry out the plan of one service port.
    fn render(&self, scene: &Scene, port: &PortPlan, placement: &Self::Placement) -> Objects<Self>;

    /// Whether what was refused can be tried again without [`observe`](Self::observe), which reads
    /// the whole kernel.
    fn retries_alone(&self) -> bool {
        false
    }

    /// Whether it is certain that nobody else changed anything since the last
    /// [`observe`](Self::observe), so that a periodic look can be saved.
    fn is_undisturbed(&mut self) -> bool {
        false
    }

    /// The objects of ours that the kernel holds.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked, or something that is not ours is in the way.
    fn observe(&mut self) -> Result<BTreeMap<Self::Key, Self::Object>, BackendError>;

    /// Does what had to wait: real servers that have to lose their last connection, a look at a
    /// kernel that cannot tell of changes, another try of what could not be served. Called after
    /// each sync and whenever the time that it returned has passed.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked or told, or holds something else than was written: the next
    /// sync observes.
    fn upkeep(&mut self) -> Result<Upkeep, BackendError> {
        Ok(Upkeep::Nothing)
    }

    /// What is served of no Service for the moment; `None` when there is no such thing.
    /// [`render`](Self::render) leaves it out, and [`upkeep`](Self::upkeep) asks for a
    /// resync as soon as it can be served.
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

    /// Writes a delta: all of it or nothing where the kernel has transactions, else in an order
    /// that never breaks what works. What cannot be written and is [`unserved`](Self::unserved) from
    /// now on is no error.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Refused`] when nothing was changed and the guilty objects are known,
    /// [`ApplyError::Partly`] when all others were written, [`ApplyError::Failed`] when it is
    /// unknown what the kernel holds now.
    fn apply(
        &mut self,
        delta: &Delta<Self::Key, Self::Object>,
    ) -> Result<(), ApplyError<Self::Key>>;
}

/// What is left to do after [`Backend::upkeep`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Nothing waits.
    Nothing,
    /// Something waits: to be called again after this time.
    After(Duration),
    /// The next sync has to observe, for this reason, though nobody else changed anything.
    Resync(String),
}

impl Upkeep {
    /// Both: a resync comes before every wait, a short wait before a long one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Resync(reason), _) | (_, Self::Resync(reason)) => Self::Resync(reason),
            (Self::After(one), Self::After(another)) => Self::After(one.min(another)),
            (Self::Nothing, it) | (it, Self::Nothing) => it,
        }
    }
}

impl From<Option<Duration>> for Upkeep {
    fn from(wait: Option<Duration>) -> Self {
        wait.map_or(Self::Nothing, Self::After)
    }
}

/// A family that the machine has and that cannot be served yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// Which.
    pub family: IpFamily,
    /// What is in the way, for a person.
    pub reason: String,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, reason } = self;
        write!(f, "{family} is not served until this works: {reason}")
    }
}

/// The rules of ours in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCount {
    /// The family.
    pub family: IpFamily,
    /// The table: `nat`.
    pub table: &'static str,
    /// How many there are.
    pub total: usize,
    /// How many of them the last [`apply`](Backend::apply) wrote.
    pub last: usize,
}

/// Reads what a data plane has counted. Has a connection to the kernel of its own and may be used
/// from any thread, so that no sync waits for it.
pub trait Counters: Send {
    /// What every counter shows now. Expensive: reads everything that counts.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked.
    fn read(&mut self) -> Result<Reading, BackendError>;
}

/// What all counters showed at some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The counters; one may be there twice, the later value last.
    pub counts: Vec<ConnectionCount>,
    /// No counter is missing. The kernel may skip some when rules change while it lists them.
    pub is_complete: bool,
}

/// Connections that an endpoint got by way of a frontend, as one counter shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCount {
    /// What the clients dialled.
    pub frontend: Frontend,
    /// Where the kernel counts them.
    pub counter: Counter,
    /// Who answered.
    pub endpoint: SocketAddr,
    /// How many, since the counter began.
    pub connections: u64,
    /// How the endpoint is doing now; `None` in data planes that do not know.
    pub load: Option<Load>,
}

/// Which of the kernel's counters. One that is made anew begins at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Of a map, what a frontend has in one slot: the endpoint may be replaced by another.
    Slot(&'static str, Frontend, u32),
    /// A real server of the virtual server that clients dial by this protocol, address and port.
    RealServer(Protocol, SocketAddr, SocketAddr),
    /// A real server of the virtual server of a firewall mark.
    MarkedRealServer(u32, SocketAddr),
}

/// How a real server of IPVS is doing, by way of one frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Its share of new connections; 0 gets none.
    pub weight: u32,
    /// Established connections.
    pub active: u64,
    /// Other connections: begun, ending, or without a state, as all of UDP.
    pub inactive: u64,
}

impl Load {
    /// This and another one of the same endpoint, by way of another frontend.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            weight: self.weight.max(other.weight),
            active: self.active.saturating_add(other.active),
            inactive: self.inactive.saturating_add(other.inactive),
        }
    }
}

/// What the objects of every service port may depend on beside its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The node's part of the plan.
    pub node: NodePlan,
    /// How large the plan is.
    pub scale: Scale,
}

/// How large the plan has ever been in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Few endpoints: prefer a ruleset that is pleasant to read.
    Small,
    /// Many: prepare what would be expensive to add later.
    Large,
}

/// The kernel could not be asked or told.
#[derive(Debug, thiserror::Error)]
#[error("{operation}: {reason}")]
pub struct BackendError {
    /// What was tried, with its object: `list table ip sluice`.
    pub operation: String,
    /// Why it failed, in the kernel's words where it has any.
    pub reason: String,
    /// What lies beneath.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// One object that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedObject<K> {
    /// Which.
    pub key: K,
    /// The kernel's explanation.
    pub reason: String,
}

/// A delta was not applied, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError<K: fmt::Debug + fmt::Display> {
    /// Nothing was changed, because of these objects.
    #[error("{}", describe(.0))]
    Refused(Vec<RefusedObject<K>>),
    /// All of the delta was written but these objects, which are what they were before. Such a
    /// data plane takes it as well when it shall add what is there already.
    #[error("{}", describe(.0))]
    Partly(Vec<RefusedObject<K>>),
    /// What the kernel holds now is unknown.
    #[error(transparent)]
    Failed(#[from] BackendError),
}

impl<K: fmt::Display> fmt::Display for RefusedObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: kernel said: {}", self.key, self.reason)
    }
}

/// The first refusals in one line; a person needs no thousand of them.
pub(crate) fn describe<K: fmt::Display>(refused: &[RefusedObject<K>]) -> String {
    const SHOWN: usize = 3;
    let shown = refused.iter().take(SHOWN);
    let mut lines: Vec<String> = shown.map(ToString::to_string).collect();
    if refused.len() > SHOWN {
        lines.push(format!("and {} more", refused.len() - SHOWN));
    }
    lines.join("; ")
}
