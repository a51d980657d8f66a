//! When to try again what failed: a pure function of what happened and when.

use std::time::{Duration, Instant};

/// A wait that doubles from one failure to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
    due: Option<Instant>,
}

impl Backoff {
    /// The first wait after a failure.
    pub const FIRST: Duration = Duration::from_secs(1);
    /// The longest wait after failures.
    pub const LONGEST: Duration = Duration::from_secs(30);

    /// Records a failure.
    pub fn fail(&mut self, now: Instant) {
        self.due = Some(now + self.next_wait());
    }

    fn next_wait(&mut self) -> Duration {
        let wait = Self::FIRST.saturating_mul(1 << self.failures.min(5));
        self.failures = self.failures.saturating_add(1);
        wait.min(Self::LONGEST)
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
        let waits: Vec<u64> = (0..7).map(|_| backoff.next_wait().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        backoff.succeed();
        assert_eq!(backoff.next_wait(), Backoff::FIRST);
    }
}
