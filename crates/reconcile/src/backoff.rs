//! When to try again what failed: a pure function of what happened and when.

use std::time::{Duration, Instant};

/// Waits of which each is twice the one before, up to a longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Waits {
    /// `first` is not longer than `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The wait that is due now. The next one is longer.
    pub fn take(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.longest);
        wait
    }

    /// The next wait is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// When to try again what failed; the wait doubles from one failure to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    waits: Waits,
    due: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            waits: Waits::new(Self::FIRST, Self::LONGEST),
            due: None,
        }
    }
}

impl Backoff {
    /// The first wait after a failure.
    pub const FIRST: Duration = Duration::from_secs(1);
    /// The longest wait after failures.
    pub const LONGEST: Duration = Duration::from_secs(30);

    /// Records a failure.
    pub fn fail(&mut self, now: Instant) {
        self.due = Some(now + self.waits.take());
    }

    /// The next attempt is not made before.
    pub fn postpone(&mut self, until: Instant) {
        self.due = self.due.max(Some(until));
    }

    /// The next attempt is due at once, without a failure.
    pub fn hasten(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// The next attempt is made.
    pub fn begin(&mut self) {
        self.due = None;
    }

    /// Records a success, which resets the back-off.
    pub fn succeed(&mut self) {
        *self = Self::default();
    }

    /// How long until the next attempt is due; `None` when nothing failed.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(now))
    }

    /// When to try again; `None` when nothing failed.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_thirty_seconds() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..7).map(|_| backoff.waits.take().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        backoff.succeed();
        assert_eq!(backoff.waits.take(), Backoff::FIRST);
    }
}
