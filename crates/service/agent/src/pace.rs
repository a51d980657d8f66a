//! When the next sync is due: a pure function of events and their times.

use std::time::{Duration, Instant};

use sluice_reconcile::Backoff;

/// Repairs of foreign changes that follow each other without a pause; further ones wait for
/// [`REPAIR_PERIOD`].
const PROMPT_REPAIRS: u32 = 3;
/// Shortest time between two repairs while another program keeps changing our rules.
const REPAIR_PERIOD: Duration = Duration::from_secs(1);
/// Longest time between two foreign changes of one streak.
const STREAK_GAP: Duration = Duration::from_secs(10);

/// Pause between two probes for missing features, while a Service needs one: an operator may load a kernel module.
const PROBE_PERIOD: Duration = Duration::from_secs(60);

/// The longest pause that a data plane makes by itself: kube-proxy's default.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often the agent syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Pause between the end of one sync and the start of the next; 0 leaves it to the data plane.
    pub min_sync: Duration,
    /// Time between two comparisons of the whole kernel state.
    pub resync: Duration,
}

impl Periods {
    /// How long a sync may be pending before the node is unhealthy: two sync periods, as in
    /// kube-proxy, and at least two `min_sync` periods, the pause that we make ourselves.
    #[must_use]
    pub fn health_timeout(&self, sync: Duration) -> Duration {
        sync.max(self.min_sync).saturating_mul(2)
    }
}

/// The reason why a sync does more than write the difference to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resync {
    /// Another program changed our rules.
    Drift,
    /// The last comparison with the kernel is a resync period ago.
    Periodic,
    /// A Service needs a feature that the machine lacked at the last probe.
    Probe,
}

/// Events of one kind, each within [`STREAK_GAP`] of the one before.
#[derive(Debug, Default)]
struct Streak {
    count: u32,
    last: Option<Instant>,
}

impl Streak {
    fn add(&mut self, now: Instant) {
        let is_close = self.last.is_some_and(|it| now - it < STREAK_GAP);
        self.count = if is_close { self.count + 1 } else { 1 };
        self.last = Some(now);
    }
}

/// The clock of the agent.
#[derive(Debug)]
pub(crate) struct Pace {
    periods: Periods,
    /// As of [`DataPlane::PAUSE`](sluice_plane::DataPlane::PAUSE).
    pause: u32,
    dirty: bool,
    /// The last sync wrote a part of the changes, and the next one goes on without a pause.
    unfinished: bool,
    drift: bool,
    /// Full syncs after a foreign change. Each costs time, whether or not our rules had changed.
    checks: Streak,
    /// Full syncs that found our rules changed.
    repairs: Streak,
    last_begin: Option<Instant>,
    last_end: Option<Instant>,
    failure: Backoff,
    resync: Option<Instant>,
    probe: Option<Instant>,
}

impl Pace {
    /// `pause` is how many times as long as the last sync to wait where `periods` names no pause.
    pub(crate) fn new(periods: Periods, pause: u32) -> Self {
        Self {
            periods,
            pause,
            dirty: false,
            unfinished: false,
            drift: false,
            checks: Streak::default(),
            repairs: Streak::default(),
            last_begin: None,
            last_end: None,
            failure: Backoff::default(),
            resync: None,
            probe: None,
        }
    }

    /// Sets the periods. A resync that is due stays due.
    pub(crate) fn configure(&mut self, periods: Periods) {
        let earlier = |due: Instant| match self.periods.resync.checked_sub(periods.resync) {
            Some(less) => due - less,
            None => due,
        };
        self.resync = self.resync.map(earlier);
        self.periods = periods;
    }

    /// Requests a sync.
    pub(crate) fn request(&mut self) {
        self.dirty = true;
    }

    /// Requests the next part of a sync that wrote only some of the changes.
    pub(crate) fn go_on(&mut self) {
        self.unfinished = true;
    }

    /// Requests a repair: another program changed our rules.
    pub(crate) fn drifted(&mut self) {
        self.drift = true;
    }

    /// Whether a sync is pending: requested, or to be retried.
    pub(crate) fn is_wanted(&self) -> bool {
        self.dirty || self.unfinished || self.drift || self.failure.due().is_some()
    }

    /// When to sync next; `None` before the first request.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let rested = self.last_end.map_or(now, |end| now.max(end + self.rest()));
        if let Some(retry) = self.failure.due() {
            // A change may remove the cause of the failure, so it does not wait for the backoff.
            let changed = self.last_end.filter(|_| self.dirty);
            let soon = Backoff::FIRST.max(self.rest());
            return Some(changed.map_or(retry, |end| retry.min(end + soon)));
        }
        let requested = self.dirty.then_some(rested);
        let unfinished = self.unfinished.then_some(now);
        let candidates = [
            requested,
            unfinished,
            self.repair_due(rested),
            self.resync,
            self.probe,
        ];
        candidates.into_iter().flatten().min()
    }

    /// The reason why the sync at `now` must do more than write a difference; `None` when it need not.
    pub(crate) fn resync_reason(&self, now: Instant) -> Option<Resync> {
        let is_due = |due: Option<Instant>| due.is_some_and(|it| it <= now);
        if is_due(self.repair_due(now)) {
            return Some(Resync::Drift);
        }
        if is_due(self.resync) {
            return Some(Resync::Periodic);
        }
        is_due(self.probe).then_some(Resync::Probe)
    }

    /// The pause after the last sync.
    fn rest(&self) -> Duration {
        if !self.periods.min_sync.is_zero() {
            return self.periods.min_sync;
        }
        let last = self.last_end.zip(self.last_begin);
        let took = last.map_or(Duration::ZERO, |(end, begin)| {
            end.saturating_duration_since(begin)
        });
        took.saturating_mul(self.pause).min(LONGEST_PAUSE)
    }

    /// A sync begins: later requests are for the next one. A repair that is not due yet stays
    /// pending.
    pub(crate) fn begin(&mut self, reason: Option<Resync>, now: Instant) {
        self.last_begin = Some(now);
        self.dirty = false;
        self.unfinished = false;
        // Also when the reconciler skips the comparison, which would else be due for ever. After a
        // failure the backoff decides.
        if self.resync.is_some_and(|due| due <= now) {
            self.resync = Some(now + self.periods.resync);
        }
        if reason == Some(Resync::Probe) {
            self.probe = None;
        }
        if reason == Some(Resync::Drift) {
            self.checks.add(now);
            self.drift = false;
        }
    }

    /// A full sync after a foreign change found our rules changed.
    pub(crate) fn repaired(&mut self, now: Instant) {
        self.repairs.add(now);
    }

    /// Whether another program changes our rules again and again.
    pub(crate) fn is_conflict(&self) -> bool {
        self.repairs.count > PROMPT_REPAIRS
    }

    /// A sync succeeded. While service ports are refused, the machine is probed.
    pub(crate) fn succeed(&mut self, now: Instant, full: bool, any_refused: bool) {
        self.last_end = Some(now);
        self.failure.succeed();
        if full || self.resync.is_none() {
            self.resync = Some(now + self.periods.resync);
        }
        let probe = || self.probe.unwrap_or(now + PROBE_PERIOD);
        self.probe = any_refused.then(probe);
    }

    /// A sync failed. The first retry after a failed difference does not wait: it compares
    /// everything, which may succeed where the difference alone failed.
    pub(crate) fn fail(&mut self, now: Instant, full: bool) {
        self.last_end = Some(now);
        if full || self.failure.due().is_some() {
            self.failure.fail(now)
        } else {
            self.failure.hasten(now)
        }
    }

    fn repair_due(&self, rested: Instant) -> Option<Instant> {
        let is_streak = self.checks.count >= PROMPT_REPAIRS;
        let last = self.checks.last.filter(|_| is_streak);
        let due = last.map_or(rested, |it| rested.max(it + REPAIR_PERIOD));
        self.drift.then_some(due)
    }
}

#[cfg(test)]
mod tests;
