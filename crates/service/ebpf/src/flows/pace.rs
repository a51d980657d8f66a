//! When the table of connections is listed again. Pure.
//!
//! A listing costs as much as the table has entries, whether or not one of them ended. So it may take a hundredth of a CPU,
//! and less while it finds nothing; more only where it removes much, where new connections may have filled the table, or
//! where it dropped some.

use std::time::Duration;

/// Time between two looks at the count of connections, and between two listings of a table that fills up.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// Usual time between two listings.
const PERIOD: Duration = Duration::from_secs(10);
/// Longest time between two listings.
pub(super) const LONGEST: Duration = Duration::from_secs(60);
/// A listing rests for this many times the CPU time that it took.
const REST: u32 = 100;
/// [`REST`] while new connections are dropped.
const URGENT_REST: u32 = 10;
/// A listing pays when it removes this part of the entries; new entries are many when they are this part of the table.
const PART: u64 = 16;

/// What the last listing found, for the time of the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Time until the next listing if no connection begins. Zero before the first.
    idle: Duration,
    /// The wait while connections begin.
    busy: Duration,
    /// The wait while new connections are dropped.
    urgent: Duration,
}

/// The table since the last listing.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// Entries of connections that began, at most.
    pub(super) added: u64,
    /// Entries that it has room for.
    pub(super) capacity: u64,
    /// Whether half of the table may be in use.
    pub(super) is_pressed: bool,
    /// New connections found no room, or clients may not open any.
    pub(super) is_urgent: bool,
}

impl Pace {
    /// Whether the table is listed now, `elapsed` after the last listing.
    pub(super) fn is_due(&self, elapsed: Duration, state: State) -> bool {
        let is_flooded = state.is_pressed && state.added >= state.capacity / PART;
        let wait = match state.added {
            _ if is_flooded => LOOK.min(self.busy),
            0 => self.idle,
            _ => self.busy,
        };
        elapsed
            >= if state.is_urgent {
                wait.min(self.urgent)
            } else {
                wait
            }
    }

    /// A listing took this much CPU time, and removed and left so many entries.
    pub(super) fn listed(&mut self, cost: Duration, removed: u64, left: u64, state: State) {
        let pays = removed > 0 && removed >= left / PART;
        self.busy = if pays && state.is_pressed {
            LOOK
        } else if pays {
            PERIOD
        } else {
            (cost * REST).clamp(PERIOD, LONGEST)
        };
        self.urgent = (cost * URGENT_REST).clamp(LOOK, PERIOD);
        self.idle = match removed {
            0 => (self.idle * 2).clamp(self.busy, LONGEST),
            _ => self.busy,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 262_144;

    /// Looks at a table for ten minutes, once a second. `entries` go by what `added` and `removed` say of a second. Returns
    /// how many listings there were.
    #[track_caller]
    fn play(mut entries: u64, added: u64, removed: impl Fn(u32) -> u64) -> u32 {
        let (mut pace, mut since, mut last) = (Pace::default(), 0, 0);
        let mut listings = 0;
        for second in 0..600 {
            entries += added;
            since += added;
            let state = State {
                added: since,
                capacity: CAPACITY,
                is_pressed: entries > CAPACITY / 2,
                is_urgent: entries >= CAPACITY,
            };
            if !pace.is_due(Duration::from_secs((second - last).into()), state) {
                continue;
            }
            let gone = removed(second - last).min(entries);
            entries -= gone;
            // Measured: a microsecond an entry.
            let cost = Duration::from_micros(entries + gone);
            pace.listed(cost, gone, entries, state);
            (last, since) = (second, 0);
            listings += 1;
        }
        listings
    }

    #[test]
    fn a_table_that_stays_is_listed_seldom() {
        // Nearly full: a quarter of a second each, so less than half a hundredth of a CPU.
        assert_eq!(play(240_000, 0, |_| 0), 11);
        assert_eq!(play(100, 0, |_| 0), 12);
        // A few begin and end beside many that stay: 24 s after a listing of 240 ms.
        assert_eq!(play(240_000, 4, |seconds| u64::from(seconds) * 4), 24);
    }

    #[test]
    fn a_table_that_changes_is_listed_as_often_as_that_pays() {
        // All ends soon.
        assert_eq!(play(0, 400, |seconds| u64::from(seconds) * 400), 60);
        // A flood, whose connections end as fast as they begin.
        assert!(play(140_000, 60_000, |seconds| u64::from(seconds) * 60_000) >= 590);
        // A flood of connections that stay.
        assert!(play(140_000, 20_000, |_| 0) >= 590);
    }

    /// The most entries of a table in ten minutes of a flood of so many entries a second, which expire after so many seconds, or
    /// after five while the table may be half full.
    fn peak(capacity: u64, added: u64, expire: u64) -> u64 {
        let (mut pace, mut last, mut since) = (Pace::default(), 0, 0);
        let mut begun = std::collections::VecDeque::new();
        let (mut entries, mut listed, mut peak) = (0, 0, 0);
        for second in 0..600_u32 {
            begun.push_back(second);
            entries += added;
            since += added;
            peak = peak.max(entries);
            let state = State {
                added: since,
                capacity,
                is_pressed: second > 0 && listed + since > capacity / 2,
                is_urgent: entries > capacity,
            };
            if second > 0 && !pace.is_due(Duration::from_secs((second - last).into()), state) {
                continue;
            }
            let expire = if state.is_pressed { 5 } else { expire };
            let mut removed = 0;
            while begun
                .front()
                .is_some_and(|it| u64::from(second - it) >= expire)
            {
                begun.pop_front();
                removed += added;
            }
            entries -= removed;
            pace.listed(
                Duration::from_micros(entries + removed),
                removed,
                entries,
                state,
            );
            (last, since, listed) = (second, 0, entries);
        }
        peak
    }

    /// The numbers of docs/security.md.
    #[test]
    fn floods_leave_room() {
        let capacity = 4 * CAPACITY;
        // Answered questions of one pod.
        assert!(peak(capacity, 1_600 * 3, 30) < capacity / 4);
        // SYNs under forged addresses, to a NodePort.
        assert!(peak(capacity, 15_000 * 4, 60) <= capacity * 5 / 8);
        assert!(peak(capacity / 2, 15_000 * 4, 60) < capacity / 2);
        assert!(peak(capacity, 35_000 * 4, 60) < capacity);
    }

    #[test]
    fn a_full_table_is_listed_soon_again() {
        // No connection begins, since there is no room: a quarter of a second every three seconds.
        assert_eq!(play(CAPACITY, 0, |_| 0), 200);
    }

    #[test]
    fn the_first_listing_does_not_wait() {
        let state = State {
            added: 0,
            capacity: CAPACITY,
            is_pressed: false,
            is_urgent: false,
        };
        assert!(Pace::default().is_due(Duration::ZERO, state));
    }
}
