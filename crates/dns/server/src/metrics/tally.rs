//! Counters of queries that threads do not share.
//!
//! Each thread adds to its own [`Shard`], so that no line of memory goes from one processor to
//! another; a scrape sums the shards. A query costs about ten uncontended additions.

mod collect;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use sluice_upstream::Transport;

use super::TIME_BUCKETS;
use super::labels::{CODES, Family, Plugin, TYPE_COUNT, code_index, type_index};

pub(super) use collect::scraped;

/// CoreDNS's buckets for sizes in bytes.
const SIZE_BUCKETS: [f64; 14] = [
    0.0, 100.0, 200.0, 300.0, 400.0, 511.0, 1023.0, 2047.0, 4095.0, 8291.0, 16e3, 32e3, 48e3, 64e3,
];

/// The counters that one thread adds to: an index into the shards of each [`Tally`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard(pub(crate) usize);

/// The counters of one server and zone.
#[derive(Debug)]
pub(crate) struct Tally(Box<[Counts]>);

impl Tally {
    pub(super) fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Counts::default()).collect())
    }
}

/// 128 bytes: processors fetch lines of 64 bytes in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    requests: [[[AtomicU64; TYPE_COUNT]; 2]; 2],
    dnssec_ok: AtomicU64,
    durations: Distribution<{ TIME_BUCKETS.len() }>,
    query_sizes: [Distribution<{ SIZE_BUCKETS.len() }>; 2],
    response_sizes: [Distribution<{ SIZE_BUCKETS.len() }>; 2],
    responses: [[AtomicU64; Plugin::NAMES.len()]; CODES.len()],
}

/// Counts in buckets, not cumulative; `above` is the bucket without a bound.
#[derive(Debug)]
struct Distribution<const N: usize> {
    buckets: [AtomicU64; N],
    above: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Default for Distribution<N> {
    fn default() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; N],
            above: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }
}

impl<const N: usize> Distribution<N> {
    /// `value` in the unit of `bounds`; `summand` in the unit of the sum.
    fn observe(&self, bounds: &[f64; N], value: f64, summand: u64) {
        let bucket = bounds.iter().position(|it| value <= *it);
        add(bucket.map_or(&self.above, |it| &self.buckets[it]), 1);
        add(&self.sum, summand);
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// The labels and sizes of an answered query.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) tally: Arc<Tally>,
    pub(crate) transport: Transport,
    pub(crate) family: Family,
    pub(crate) record_type: RecordType,
    pub(crate) dnssec_ok: bool,
    pub(crate) query_size: usize,
    pub(crate) response_size: usize,
    pub(crate) code: ResponseCode,
    pub(crate) plugin: Plugin,
}

impl Sample {
    /// Counts the query on this thread.
    pub(crate) fn count(&self, shard: Shard, took: Duration) {
        let counts = &self.tally.0[shard.0];
        let transport = self.transport as usize;
        let requests = &counts.requests[transport][self.family as usize];
        add(&requests[type_index(self.record_type)], 1);
        if self.dnssec_ok {
            add(&counts.dnssec_ok, 1);
        }
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let durations = &counts.durations;
        durations.observe(&TIME_BUCKETS, took.as_secs_f64(), nanoseconds);
        let sizes = [
            (&counts.query_sizes[transport], self.query_size),
            (&counts.response_sizes[transport], self.response_size),
        ];
        for (distribution, size) in sizes {
            distribution.observe(&SIZE_BUCKETS, size as f64, size as u64);
        }
        let responses = &counts.responses[code_index(self.code)];
        add(&responses[self.plugin as usize], 1);
    }
}
