//! Whether this node's rules are up to date, as load balancers and the kubelet ask.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A wanted sync that is pending for this long makes the agent unhealthy: twice kube-proxy's
/// sync period (kube-proxy, `pkg/proxy/healthcheck/proxy_health.go`).
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the health server says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    /// When the rules were last known to be up to date: now, while healthy. Empty before the
    /// first sync.
    pub last_updated: String,
    /// When this was said.
    pub current_time: String,
    /// The rules are up to date, or will be soon.
    pub healthy: bool,
}

/// The state behind `/healthz`, shared between the agent and the server.
#[derive(Debug, Default)]
pub struct Health(Mutex<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// End of the last successful sync.
    updated: Option<Timestamp>,
    /// Since when a sync has been wanted.
    pending: Option<Instant>,
}

impl Health {
    /// A sync is wanted from now on. The oldest wish counts.
    pub fn wanted(&self, now: Instant) {
        let mut state = self.lock();
        state.pending = state.pending.or(Some(now));
    }

    /// A sync succeeded.
    pub fn updated(&self, at: Timestamp) {
        *self.lock() = State {
            updated: Some(at),
            pending: None,
        };
    }

    /// The answer at this moment.
    pub fn report(&self, now: Instant, time: Timestamp) -> HealthReport {
        let state = *self.lock();
        let overdue = state.pending.is_some_and(|it| now - it >= TIMEOUT);
        let healthy = state.updated.is_some() && !overdue;
        let updated = if healthy { Some(time) } else { state.updated };
        HealthReport {
            last_updated: updated.map(|it| it.to_string()).unwrap_or_default(),
            current_time: time.to_string(),
            healthy,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Every write is one assignment, so a panic elsewhere cannot leave half a state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn unhealthy_until_the_first_sync() {
        let health = Health::default();
        let now = Instant::now();
        let report = health.report(now, T0);
        assert!(!report.healthy);
        assert_eq!(report.last_updated, "");
        health.updated(T0);
        assert!(health.report(now, T0).healthy);
    }

    #[test]
    fn a_wish_that_is_pending_for_a_minute_makes_it_unhealthy() {
        let health = Health::default();
        let now = Instant::now();
        health.updated(T0);
        health.wanted(now);
        health.wanted(now + Duration::from_secs(30));
        let later = Timestamp::from_second(59).expect("in range");
        let report = health.report(now + Duration::from_secs(59), later);
        assert!(report.healthy);
        assert_eq!(report.last_updated, "1970-01-01T00:00:59Z");
        let report = health.report(now + Duration::from_secs(60), later);
        assert!(!report.healthy, "the oldest wish counts");
        assert_eq!(report.last_updated, "1970-01-01T00:00:00Z");
        health.updated(later);
        assert!(health.report(now + Duration::from_secs(90), later).healthy);
    }

    #[test]
    fn idle_is_healthy() {
        let health = Health::default();
        let now = Instant::now();
        health.updated(T0);
        assert!(health.report(now + Duration::from_secs(7200), T0).healthy);
    }
}
