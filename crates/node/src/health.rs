//! Whether this node's rules are up to date, as load balancers and the kubelet ask.
//!
//! kube-proxy's rules (`pkg/proxy/healthcheck/proxy_health.go`), with one difference: a process
//! that never gets its first complete list is found out. Both are well when they start; ours
//! counts the first sync as wanted from then on, kube-proxy's only from the first event.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sluice_model::IpFamily;

use crate::metrics::PerFamily;

/// kube-proxy's default: twice its sync period.
#[cfg(test)]
pub(crate) const HEALTH_TIMEOUT: Duration = Duration::from_secs(60);

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Load balancers: should connections come to this node? No, if it is about to go.
    Healthz,
    /// The kubelet: does this process need a restart? A node that goes is no reason.
    Livez,
}

/// What is known of this node's Node object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// There is one, and it stays. Also while nothing is known yet.
    Present,
    /// It is being deleted, or marked for it by the cluster autoscaler.
    Leaving,
    /// There is none.
    Unknown,
}

/// Whether a source must know the Node.
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
    /// When the rules were last known to be up to date, RFC 3339: now, when all is well; when the
    /// process started, before the first sync.
    pub last_updated: String,
    /// When this was said.
    pub current_time: String,
    /// The node is to get connections; only for [`Probe::Healthz`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_eligible: Option<bool>,
    /// The rules are up to date, or will be soon; those of a family that cannot be served do not
    /// count: the other one works, and a restart would help neither.
    pub healthy: bool,
    /// The same by family: `IPv4`, `IPv6`. Both are written in one sync, if they are served; one that
    /// no Service has needs no rules.
    pub status: BTreeMap<String, FamilyHealth>,
}

/// The health of one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyHealth {
    /// When its rules were last as the Services want them.
    pub last_updated: String,
    /// Its rules are up to date, or will be soon: the last sync that succeeded had it.
    pub healthy: bool,
}

impl HealthReport {
    /// Whether the answer is yes.
    pub fn is_ok(&self) -> bool {
        self.healthy && self.node_eligible != Some(false)
    }
}

/// The state behind `/healthz`, shared between the agent and the servers.
#[derive(Debug)]
pub struct Health {
    node: NodeObject,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    /// How long a sync may be wanted.
    timeout: Duration,
    /// End of the last successful sync, or the start.
    updated: Timestamp,
    /// The same of the last one after which a family had all that its Services ask for.
    families: PerFamily<Timestamp>,
    /// Since when a sync has been wanted.
    pending: Option<Instant>,
    node: NodeState,
}

impl Health {
    /// Well, and waiting for the first sync since `now`. A sync that is pending for `timeout`
    /// makes it unhealthy.
    pub fn new(timeout: Duration, node: NodeObject, now: Instant, time: Timestamp) -> Self {
        let state = State {
            timeout,
            updated: time,
            families: PerFamily::new(|_| time),
            pending: Some(now),
            node: NodeState::Present,
        };
        Self {
            node,
            state: Mutex::new(state),
        }
    }

    /// From now on a sync may be wanted for so long.
    pub fn patience(&self, timeout: Duration) {
        self.lock().timeout = timeout;
    }

    /// A sync is wanted from now on. The oldest wish counts.
    pub fn wanted(&self, now: Instant) {
        let mut state = self.lock();
        state.pending = state.pending.or(Some(now));
    }

    /// A sync succeeded, after which these families have all that their Services ask for.
    pub fn updated(&self, at: Timestamp, complete: &[IpFamily]) {
        let mut state = self.lock();
        state.updated = at;
        for family in complete {
            *state.families.of_mut(*family) = at;
        }
        state.pending = None;
    }

    /// What the source says of the Node.
    pub fn node(&self, node: NodeState) {
        self.lock().node = node;
    }

    /// Whether the rules are up to date, or will be soon.
    pub fn is_healthy(&self, now: Instant) -> bool {
        in_time(&self.lock(), now)
    }

    /// The answer at this moment.
    pub fn report(&self, probe: Probe, now: Instant, time: Timestamp) -> HealthReport {
        let state = self.lock().clone();
        let healthy = in_time(&state, now);
        let eligible = match (state.node, self.node) {
            (NodeState::Present, _) | (NodeState::Unknown, NodeObject::Optional) => true,
            (NodeState::Leaving, _) | (NodeState::Unknown, NodeObject::Required) => false,
        };
        let family = |family: IpFamily| {
            let updated = *state.families.of(family);
            let health = FamilyHealth {
                last_updated: updated.to_string(),
                healthy: healthy && updated == state.updated,
            };
            (family.to_string(), health)
        };
        let mut report = HealthReport {
            last_updated: state.updated.to_string(),
            current_time: time.to_string(),
            node_eligible: (probe == Probe::Healthz).then_some(eligible),
            healthy,
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

fn in_time(state: &State, now: Instant) -> bool {
    let waits = |since: Instant| now.saturating_duration_since(since);
    state.pending.is_none_or(|it| waits(it) < state.timeout)
}

#[cfg(test)]
mod tests;
