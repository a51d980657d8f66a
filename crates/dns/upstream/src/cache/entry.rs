//! One kept answer: its bytes, its age, how often it is asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_corefile::Prefetch;

use super::classify::Class;

/// A refresh that was begun and not stored after this time may begin again: a forwarder gives up
/// after five seconds.
const REFRESH_PATIENCE: Duration = Duration::from_secs(6);

/// A cached answer.
#[derive(Debug)]
pub(super) struct Entry {
    /// The message without OPT, encoded: a fifth of the memory of decoded records, and its exact
    /// size is known.
    pub(super) wire: Arc<[u8]>,
    pub(super) class: Class,
    pub(super) ttl: Duration,
    pub(super) stored: Instant,
    asked: Asked,
    refresh_began: Option<Instant>,
}

/// How often an entry was asked for without a long gap.
#[derive(Clone, Copy, Debug)]
struct Asked {
    times: u32,
    last: Instant,
}

impl Entry {
    pub(super) fn new(wire: Arc<[u8]>, class: Class, ttl: Duration, now: Instant) -> Self {
        Self {
            wire,
            class,
            ttl,
            stored: now,
            asked: Asked {
                times: 0,
                last: now,
            },
            refresh_began: None,
        }
    }

    /// Takes on how popular the entry was that this one replaces.
    pub(super) fn inherit(&mut self, old: &Self) {
        self.asked = old.asked;
    }

    /// Time until the answer expires. `None` when it has expired.
    pub(super) fn remaining(&self, now: Instant) -> Option<Duration> {
        self.ttl
            .checked_sub(now.saturating_duration_since(self.stored))
            .filter(|remaining| !remaining.is_zero())
    }

    /// Time since the answer expired; zero when it has not.
    pub(super) fn expired_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.stored)
            .saturating_sub(self.ttl)
    }

    /// Counts one request, and says whether the answer is so popular and so near its end that it
    /// should be asked for again.
    pub(super) fn wants_prefetch(&mut self, prefetch: &Prefetch, now: Instant) -> bool {
        let gap = now.saturating_duration_since(self.asked.last);
        self.asked.times = if gap > prefetch.duration {
            1
        } else {
            self.asked.times.saturating_add(1)
        };
        self.asked.last = now;
        let threshold = (self.ttl.as_secs() * u64::from(prefetch.percentage)).div_ceil(100);
        let remaining = self.remaining(now).unwrap_or_default();
        self.asked.times >= prefetch.amount && remaining <= Duration::from_secs(threshold)
    }

    /// Notes that a refresh begins. `false` when one is under way.
    pub(super) fn begin_refresh(&mut self, now: Instant) -> bool {
        let under_way = self
            .refresh_began
            .is_some_and(|began| now.saturating_duration_since(began) < REFRESH_PATIENCE);
        if !under_way {
            self.refresh_began = Some(now);
        }
        !under_way
    }
}
