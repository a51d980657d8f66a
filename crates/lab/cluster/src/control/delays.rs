//! How long what failed waits before the next attempt, by key.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use sluice_reconcile::Waits;

/// Longest time until the next attempt.
const LONGEST: Duration = Duration::from_secs(15);

/// For each key that has failed, the time of the next attempt: later after each failure in a row. No key waits for another.
#[derive(Debug)]
pub(super) struct Delays {
    first: Duration,
    all: BTreeMap<String, (Waits, Timestamp)>,
}

impl Delays {
    /// `first`: the time between the first failure and the next attempt.
    pub(super) fn new(first: Duration) -> Self {
        Self {
            first,
            all: BTreeMap::new(),
        }
    }

    /// Records a failure at `now`. Returns when the next attempt is due.
    pub(super) fn add(&mut self, key: String, now: Timestamp) -> Timestamp {
        let begin = (Waits::new(self.first, LONGEST), now);
        let (waits, due) = self.all.entry(key).or_insert(begin);
        *due = now.checked_add(waits.take()).unwrap_or(now);
        *due
    }

    /// Forgets the failures of a key.
    pub(super) fn forget(&mut self, key: &str) {
        self.all.remove(key);
    }

    /// Forgets the failures of all keys that were due by then.
    pub(super) fn forget_due(&mut self, by: Timestamp) {
        self.all.retain(|_, (_, due)| *due > by);
    }

    /// When the next attempt of a key is due; `None` for one that has not failed.
    pub(super) fn due(&self, key: &str) -> Option<Timestamp> {
        self.all.get(key).map(|(_, due)| *due)
    }

    /// When the first attempt of all is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.all.values().map(|(_, due)| *due).min()
    }
}
