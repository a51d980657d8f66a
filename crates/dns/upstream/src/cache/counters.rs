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
    /// Both, in the order of CoreDNS's documents.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `coredns_cache_requests_total`.
    pub requests: u64,
    /// `coredns_cache_misses_total`.
    pub misses: u64,
    /// `coredns_cache_hits_total{type="success"}`.
    pub success_hits: u64,
    /// `coredns_cache_hits_total{type="denial"}`.
    pub denial_hits: u64,
    /// `coredns_cache_drops_total`: answers to another question.
    pub drops: u64,
    /// `coredns_cache_prefetch_total`.
    pub prefetches: u64,
    /// `coredns_cache_served_stale_total`.
    pub served_stale: u64,
    /// `coredns_cache_evictions_total{type="success"}`.
    pub success_evictions: u64,
    /// `coredns_cache_evictions_total{type="denial"}`.
    pub denial_evictions: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: Counter,
    pub(super) misses: Counter,
    pub(super) success_hits: Counter,
    pub(super) denial_hits: Counter,
    pub(super) drops: Counter,
    pub(super) prefetches: Counter,
    pub(super) served_stale: Counter,
    pub(super) success_evictions: Counter,
    pub(super) denial_evictions: Counter,
}

impl Counters {
    pub(super) fn hit(&self, half: Half) {
        match half {
            Half::Success => self.success_hits.add(1),
            Half::Denial => self.denial_hits.add(1),
        }
    }

    pub(super) fn evicted(&self, half: Half, count: u64) {
        match half {
            Half::Success => self.success_evictions.add(count),
            Half::Denial => self.denial_evictions.add(count),
        }
    }

    pub(super) fn read(&self) -> Counts {
        Counts {
            requests: self.requests.read(),
            misses: self.misses.read(),
            success_hits: self.success_hits.read(),
            denial_hits: self.denial_hits.read(),
            drops: self.drops.read(),
            prefetches: self.prefetches.read(),
            served_stale: self.served_stale.read(),
            success_evictions: self.success_evictions.read(),
            denial_evictions: self.denial_evictions.read(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
