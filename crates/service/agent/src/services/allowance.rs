//! How many lines about one thing there may be in the log.

use std::time::Instant;

/// The lines about one thing until a time.
#[derive(Debug)]
pub(super) struct Allowance {
    /// The time. What comes later has another allowance.
    pub(super) end: Instant,
    most: usize,
    shown: usize,
    /// How many were not logged.
    pub(super) more: usize,
}

impl Allowance {
    /// `most` lines until `end`.
    pub(super) const fn new(most: usize, end: Instant) -> Self {
        Self {
            end,
            most,
            shown: 0,
            more: 0,
        }
    }

    /// Whether there may be one more line.
    pub(super) const fn admits(&mut self) -> bool {
        let admits = self.shown < self.most;
        if admits {
            self.shown += 1;
        } else {
            self.more += 1;
        }
        admits
    }
}
