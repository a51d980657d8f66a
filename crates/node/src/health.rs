//! The health of this node for load balancers and the kubelet: whether its rules are up to date.
//!
//! The rules are kube-proxy's (`pkg/proxy/healthcheck/proxy_health.go`) with two differences. A
//! process that never gets its first complete list becomes unhealthy: the first sync is pending
//! from the start of the process, in kube-proxy from the first event. And a family that this process
//! never served does not count, since a machine may lack it for good; one that it served, and cannot
//! write any more, makes the process unhealthy as in kube-proxy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sluice_model::IpFamily;

use crate::per_family::PerFamily;

/// The path of a request, which tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Load balancers ask whether to send connections to this node: not when it is leaving.
    Healthz,
    /// The kubelet asks whether this process needs a restart: not because the node is leaving.
    Livez,
    /// Rolling updates and units that start later ask whether the rules are written: not before the first sync.
    /// kube-proxy has no such path.
    Readyz,
}

/// The state of this node's Node object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The Node exists, or the source has not delivered its first list.
    Present,
    /// The Node is being deleted, or the cluster autoscaler marked it for deletion.
    Leaving,
    /// The source has no Node of this name.
    Unknown,
}

/// Whether the source must have the Node object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeObject {
    /// An API server: without its Node, this node is not part of the cluster.
    Required,
    /// A folder may have Services and no Node.
    Optional,
}

/// The answer to a [`Probe`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// When the rules were last up to date, RFC 3339: now while the node is healthy; the start of
    /// the process before the first sync.
    pub last_updated: String,
    /// The time of this answer, RFC 3339.
    pub current_time: String,
    /// Whether the node may get connections; only for [`Probe::Healthz`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_eligible: Option<bool>,
    /// No sync is overdue, nor that of one family which was served; for [`Probe::Readyz`] there was also a first one. A
    /// family that was never served does not count: the other one works, and a restart would help neither.
    pub healthy: bool,
    /// The kinds of objects that the API server tells nothing new about, and since when; only for [`Probe::Readyz`].
    /// They do not change the answer's status: the rules are as last known, and an API server that is away must not
    /// make every node unready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<String>,
    /// By family: `IPv4`, `IPv6`.
    pub status: BTreeMap<String, FamilyHealth>,
}

/// The health of one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyHealth {
    /// When everything of this family was last written, RFC 3339.
    pub last_updated: String,
    /// No sync is overdue, and the last successful one wrote this family.
    pub healthy: bool,
}

impl HealthReport {
    /// Whether the HTTP status is 200.
    pub fn is_ok(&self) -> bool {
        self.healthy && self.node_eligible != Some(false)
    }
}

/// The health of the process, shared between consumers and servers: healthy while no consumer is overdue.
#[derive(Debug)]
pub struct Health {
    node: NodeObject,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    clocks: Vec<Clock>,
    /// The end of the last sync that a consumer reported, or the start.
    updated: Timestamp,
    /// The end of the last sync after which nothing of a family was left to write.
    families: PerFamily<Timestamp>,
    node: NodeState,
    /// One line for each kind that is not up to date.
    stale: Vec<String>,
}

/// The state of a [`StepClock`].
#[derive(Clone, Debug)]
struct Clock {
    /// Timeout of a pending sync.
    timeout: Duration,
    /// A sync has succeeded.
    synced: bool,
    /// Since when a sync is pending.
    pending: Option<Instant>,
    /// Since when one family's rules cannot be written.
    failing: PerFamily<Option<Instant>>,
}

impl Clock {
    fn is_in_time(&self, since: Option<Instant>, now: Instant) -> bool {
        since.is_none_or(|since| now.saturating_duration_since(since) < self.timeout)
    }
}

/// Tells whether one consumer is overdue. A consumer that is pending for too long makes the process unhealthy, and
/// the process is not ready before the first success of each consumer.
#[derive(Clone, Debug)]
pub struct StepClock {
    health: Arc<Health>,
    index: usize,
}

impl StepClock {
    /// Sets the timeout of a pending sync.
    pub fn set_timeout(&self, timeout: Duration) {
        self.change(|it| it.timeout = timeout);
    }

    /// A sync is pending, since `now` at the latest.
    pub fn wanted(&self, now: Instant) {
        self.change(|it| it.pending = it.pending.or(Some(now)));
    }

    /// A sync succeeded.
    pub fn done(&self) {
        self.change(|it| {
            it.synced = true;
            it.pending = None;
        });
    }

    /// A family that was served before cannot be written now, or can again.
    pub fn family(&self, family: IpFamily, is_failing: bool, now: Instant) {
        self.change(|it| {
            let failing = it.failing.of_mut(family);
            *failing = is_failing.then(|| failing.unwrap_or(now));
        });
    }

    fn change(&self, change: impl FnOnce(&mut Clock)) {
        let mut state = self.health.lock();
        let clock = state.clocks.get_mut(self.index);
        change(clock.expect("no clock is ever removed"));
    }
}

impl Health {
    /// A healthy process: no consumer has a clock yet.
    pub fn new(node: NodeObject, time: Timestamp) -> Self {
        let state = State {
            clocks: Vec::new(),
            updated: time,
            families: PerFamily::new(|_| time),
            node: NodeState::Present,
            stale: Vec::new(),
        };
        Self {
            node,
            state: Mutex::new(state),
        }
    }

    /// The clock of a consumer, with its first sync pending since `now`. A sync that is pending for
    /// `timeout` makes the process unhealthy.
    pub fn clock(self: &Arc<Self>, timeout: Duration, now: Instant) -> StepClock {
        let mut state = self.lock();
        state.clocks.push(Clock {
            timeout,
            synced: false,
            pending: Some(now),
            failing: PerFamily::default(),
        });
        StepClock {
            health: self.clone(),
            index: state.clocks.len() - 1,
        }
    }

    /// Records a successful sync, after which nothing of the `complete` families is left to write.
    pub fn updated(&self, at: Timestamp, complete: &[IpFamily]) {
        let mut state = self.lock();
        state.updated = at;
        for family in complete {
            *state.families.of_mut(*family) = at;
        }
    }

    /// Sets the state of the Node object.
    pub fn set_node(&self, node: NodeState) {
        self.lock().node = node;
    }

    /// Sets the kinds that are not up to date, one line each.
    pub fn set_stale(&self, stale: &[String]) {
        self.lock().stale = stale.to_vec();
    }

    /// Whether no sync is overdue.
    pub fn is_healthy(&self, now: Instant) -> bool {
        self.lock().is_in_time(now)
    }

    /// The answer at `now`, which the wall clock calls `time`.
    pub fn report(&self, probe: Probe, now: Instant, time: Timestamp) -> HealthReport {
        let state = self.lock().clone();
        let is_ready =
            state.is_synced_in_time(now) && (probe != Probe::Readyz || state.is_synced());
        let healthy = is_ready && state.is_in_time(now);
        let eligible = match (state.node, self.node) {
            (NodeState::Present, _) | (NodeState::Unknown, NodeObject::Optional) => true,
            (NodeState::Leaving, _) | (NodeState::Unknown, NodeObject::Required) => false,
        };
        let family = |family: IpFamily| {
            let updated = *state.families.of(family);
            let health = FamilyHealth {
                last_updated: updated.to_string(),
                healthy: is_ready && state.serves(family, now) && updated == state.updated,
            };
            (family.to_string(), health)
        };
        let mut report = HealthReport {
            last_updated: state.updated.to_string(),
            current_time: time.to_string(),
            node_eligible: (probe == Probe::Healthz).then_some(eligible),
            healthy,
            stale: match probe {
                Probe::Readyz => state.stale.clone(),
                Probe::Healthz | Probe::Livez => Vec::new(),
            },
            status: IpFamily::ALL.into_iter().map(family).collect(),
        };
        if report.is_ok() {
            report.last_updated.clone_from(&report.current_time);
        }
        report
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every write is an assignment of values, so a panic elsewhere cannot leave half a state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_in_time(&self, now: Instant) -> bool {
        let mut families = IpFamily::ALL.into_iter();
        self.is_synced_in_time(now) && families.all(|it| self.serves(it, now))
    }

    /// Whether no sync of all families is overdue.
    fn is_synced_in_time(&self, now: Instant) -> bool {
        self.clocks.iter().all(|it| it.is_in_time(it.pending, now))
    }

    /// Whether a family that was served is, or was until a moment ago.
    fn serves(&self, family: IpFamily, now: Instant) -> bool {
        let mut clocks = self.clocks.iter();
        clocks.all(|it| it.is_in_time(*it.failing.of(family), now))
    }

    fn is_synced(&self) -> bool {
        self.clocks.iter().all(|it| it.synced)
    }
}

#[cfg(test)]
mod tests;
