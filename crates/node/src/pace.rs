//! When the next sync is due: a pure function of what happened and when.

use std::time::{Duration, Instant};

use sluice_reconcile::Backoff;

/// Foreign changes are looked at and repaired at once this many times in a row, then at
/// [`FIGHT_PERIOD`].
const PROMPT: u32 = 3;
/// At most one look in this time while another program keeps changing things.
const FIGHT_PERIOD: Duration = Duration::from_secs(1);
/// What is further apart than this does not follow closely.
const PEACE: Duration = Duration::from_secs(10);

/// Between two probes of what the machine lacks, while a Service needs it: an operator may load a
/// module.
const PROBE_PERIOD: Duration = Duration::from_secs(60);

/// How often the agent syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Between the end of one sync and the start of the next.
    pub min_sync: Duration,
    /// Between two comparisons of the whole kernel state.
    pub resync: Duration,
}

impl Periods {
    /// How long a sync may be wanted before the node is no good: kube-proxy's two sync periods,
    /// and never so little that syncs that are merely spaced out look late.
    #[must_use]
    pub fn patience(&self, sync: Duration) -> Duration {
        sync.max(self.min_sync).saturating_mul(2)
    }
}

impl Default for Periods {
    /// At once, and once an hour.
    fn default() -> Self {
        Self {
            min_sync: Duration::ZERO,
            resync: Duration::from_secs(3600),
        }
    }
}

/// Why a difference to what was written last will not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resync {
    /// Another program changed our rules.
    Drift,
    /// It was long ago.
    Periodic,
    /// A Service needs what the machine lacked: is it there by now?
    Probe,
}

/// What happened again and again, each time closely after the last.
#[derive(Debug, Default)]
struct Streak {
    count: u32,
    last: Option<Instant>,
}

impl Streak {
    fn add(&mut self, now: Instant) {
        let is_close = self.last.is_some_and(|it| now - it < PEACE);
        self.count = if is_close { self.count + 1 } else { 1 };
        self.last = Some(now);
    }
}

/// Everything that decides when to sync.
#[derive(Debug)]
pub(crate) struct Pace {
    periods: Periods,
    dirty: bool,
    drift: bool,
    /// Looks at foreign changes, each of which costs time whatever it finds.
    looks: Streak,
    /// Those that found rules of ours changed.
    repairs: Streak,
    last_end: Option<Instant>,
    failure: Backoff,
    resync: Option<Instant>,
    probe: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(periods: Periods) -> Self {
        Self {
            periods,
            dirty: false,
            drift: false,
            looks: Streak::default(),
            repairs: Streak::default(),
            last_end: None,
            failure: Backoff::default(),
            resync: None,
            probe: None,
        }
    }

    /// Other periods from now on. A look that is due already stays due.
    pub(crate) fn configure(&mut self, periods: Periods) {
        let earlier = |due: Instant| match self.periods.resync.checked_sub(periods.resync) {
            Some(less) => due - less,
            None => due,
        };
        self.resync = self.resync.map(earlier);
        self.periods = periods;
    }

    /// There is something to write.
    pub(crate) fn wish(&mut self) {
        self.dirty = true;
    }

    /// Another program changed our rules.
    pub(crate) fn drifted(&mut self) {
        self.drift = true;
    }

    /// Somebody waits for a sync.
    pub(crate) fn is_wanted(&self) -> bool {
        self.dirty || self.drift || self.failure.due().is_some()
    }

    /// When to sync next; `None` before the first wish.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let rested = self
            .last_end
            .map_or(now, |end| now.max(end + self.periods.min_sync));
        if let Some(retry) = self.failure.due() {
            // News may be the cure, so it is not made to wait for the whole backoff.
            let news = self.last_end.filter(|_| self.dirty);
            let soon = Backoff::FIRST.max(self.periods.min_sync);
            return Some(news.map_or(retry, |end| retry.min(end + soon)));
        }
        let news = self.dirty.then_some(rested);
        let candidates = [news, self.repair_due(rested), self.resync, self.probe];
        candidates.into_iter().flatten().min()
    }

    /// Why the sync at `now` has to do more than write a difference; `None` when that will do.
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

    /// A sync begins: what is wished for from here on is for the next one. A repair that is not
    /// due yet stays wanted.
    pub(crate) fn begin(&mut self, reason: Option<Resync>, now: Instant) {
        self.dirty = false;
        // Whether or not the look is taken: one that is spared must not be due for ever. After a
        // failure the backoff decides.
        if self.resync.is_some_and(|due| due <= now) {
            self.resync = Some(now + self.periods.resync);
        }
        if reason == Some(Resync::Probe) {
            self.probe = None;
        }
        if reason == Some(Resync::Drift) {
            self.looks.add(now);
            self.drift = false;
        }
    }

    /// A look at a foreign change found rules of ours changed.
    pub(crate) fn repaired(&mut self, now: Instant) {
        self.repairs.add(now);
    }

    /// Whether another program changes our rules again and again.
    pub(crate) fn is_fight(&self) -> bool {
        self.repairs.count > PROMPT
    }

    /// A sync succeeded. While the machine lacks something that Services need, it is probed.
    pub(crate) fn succeed(&mut self, now: Instant, full: bool, any_refused: bool) {
        self.last_end = Some(now);
        self.failure.succeed();
        if full || self.resync.is_none() {
            self.resync = Some(now + self.periods.resync);
        }
        let probe = || self.probe.unwrap_or(now + PROBE_PERIOD);
        self.probe = any_refused.then(probe);
    }

    /// A sync failed. The first one after a difference that did not go through is not made to
    /// wait: it compares everything, and what was in the way may have been that difference alone.
    pub(crate) fn fail(&mut self, now: Instant, full: bool) {
        self.last_end = Some(now);
        match full || self.failure.due().is_some() {
            true => self.failure.fail(now),
            false => self.failure.hasten(now),
        }
    }

    fn repair_due(&self, rested: Instant) -> Option<Instant> {
        let is_streak = self.looks.count >= PROMPT;
        let truce = self.looks.last.filter(|_| is_streak);
        let due = truce.map_or(rested, |it| rested.max(it + FIGHT_PERIOD));
        self.drift.then_some(due)
    }
}

#[cfg(test)]
mod tests;
