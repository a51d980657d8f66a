//! The counters of a cache, for CoreDNS's metrics `coredns_cache_*`.

use std::sync::atomic::{AtomicU64, Ordering};

/// The two halves of a cache: label `type` of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Answers with records: `success`.
    Success,
    /// Names and records that do not exist, and failures: `denial`.
    Denial,
}

impl Half {
    /// Both counters, in the order of CoreDNS's documents.
    pub const ALL: [Self; 2] = [Self::Success, Self::Denial];

    /// The value of the label `type`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Denial => "denial",
        }
    }
}

/// Counters of one cache since it was made.
#[derive(Debug, Default)]
pub struct Counters {
    /// `coredns_cache_requests_total`.
    pub requests: Counter,
    /// `coredns_cache_misses_total`.
    pub misses: Counter,
    /// `coredns_cache_hits_total`, by [`Half`].
    pub hits: [Counter; 2],
    /// `coredns_cache_drops_total`: answers to another question.
    pub drops: Counter,
    /// `coredns_cache_prefetch_total`.
    pub prefetches: Counter,
    /// `coredns_cache_served_stale_total`.
    pub served_stale: Counter,
    /// `coredns_cache_evictions_total`, by [`Half`].
    pub evictions: [Counter; 2],
}

/// A number of events.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The number of events so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
