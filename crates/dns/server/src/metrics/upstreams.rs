//! Metrics of forwarders and caches (CoreDNS's plugins `forward` and `cache`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};
use sluice_upstream::{Cache, Counts, Half, Observer, Origin, Proto};

use super::labels::code_label;
use super::{TIME_BUCKETS, registered};

const PROXY: &str = "forward";

/// Receives what forwarders report.
#[derive(Debug)]
pub(crate) struct Observed {
    durations: HistogramVec,
    reused: IntCounterVec,
    opened: IntCounterVec,
    check_failures: IntCounterVec,
    broken: IntCounterVec,
    rejects: IntCounter,
}

impl Observed {
    pub(super) fn new(registry: &Registry) -> Self {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let durations = HistogramOpts::new(
            "coredns_proxy_request_duration_seconds",
            "Time until an upstream answered.",
        );
        let durations = durations.buckets(TIME_BUCKETS.to_vec());
        let labels = ["proxy_name", "to", "rcode"];
        Self {
            durations: registered(registry, HistogramVec::new(durations, &labels)),
            reused: counters(
                "coredns_proxy_conn_cache_hits_total",
                "Queries over a connection that was open already.",
                &["proxy_name", "to", "proto"],
            ),
            opened: counters(
                "coredns_proxy_conn_cache_misses_total",
                "Queries over a new connection.",
                &["proxy_name", "to", "proto"],
            ),
            check_failures: counters(
                "coredns_proxy_healthcheck_failures_total",
                "Failed health checks of upstreams.",
                &["proxy_name", "to"],
            ),
            broken: counters(
                "coredns_forward_healthcheck_broken_total",
                "Queries while all upstreams were down.",
                &["from", "to"],
            ),
            rejects: registered(
                registry,
                IntCounter::new(
                    "coredns_forward_max_concurrent_rejects_total",
                    "Queries refused because max_concurrent was reached.",
                ),
            ),
        }
    }
}

impl Observer for Observed {
    fn answered(&self, to: &str, code: ResponseCode, took: Duration) {
        let labels = [PROXY, to, code_label(code)];
        self.durations
            .with_label_values(&labels)
            .observe(took.as_secs_f64());
    }

    fn connected(&self, to: &str, proto: Proto, origin: Origin) {
        let counters = match origin {
            Origin::Reused => &self.reused,
            Origin::Opened => &self.opened,
        };
        counters
            .with_label_values(&[PROXY, to, proto.label()])
            .inc();
    }

    fn health_check_failed(&self, to: &str) {
        self.check_failures.with_label_values(&[PROXY, to]).inc();
    }

    fn all_down(&self, from: &str, all: &str) {
        self.broken.with_label_values(&[from, all]).inc();
    }

    fn rejected(&self) {
        self.rejects.inc();
    }
}

/// A cache, and the labels `server` and `zones` of its metrics.
#[derive(Clone, Debug)]
pub(crate) struct CacheOf {
    pub(crate) server: String,
    pub(crate) zones: String,
    pub(crate) cache: Arc<Cache>,
}

/// The caches of the present Corefile, read at each scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caches {
    all: Arc<Mutex<Vec<CacheOf>>>,
    descriptions: Vec<Desc>,
}

type ReadHalf = fn(&Counts, Half) -> u64;
type Read = fn(&Counts) -> u64;

/// A metric of each half of a cache.
const PER_HALF: [(&str, &str, ReadHalf); 2] = [
    (
        "coredns_cache_hits_total",
        "Answers from the cache.",
        |it, half| match half {
            Half::Success => it.success_hits,
            Half::Denial => it.denial_hits,
        },
    ),
    (
        "coredns_cache_evictions_total",
        "Answers that made room for others.",
        |it, half| match half {
            Half::Success => it.success_evictions,
            Half::Denial => it.denial_evictions,
        },
    ),
];

/// A metric of a whole cache.
const PER_CACHE: [(&str, &str, Read); 5] = [
    (
        "coredns_cache_requests_total",
        "Questions to the cache.",
        |it| it.requests,
    ),
    (
        "coredns_cache_misses_total",
        "Questions that it had no answer to.",
        |it| it.misses,
    ),
    (
        "coredns_cache_drops_total",
        "Answers to another question.",
        |it| it.drops,
    ),
    (
        "coredns_cache_prefetch_total",
        "Answers asked for before their end.",
        |it| it.prefetches,
    ),
    (
        "coredns_cache_served_stale_total",
        "Expired answers that were served.",
        |it| it.served_stale,
    ),
];

const ENTRIES: (&str, &str) = ("coredns_cache_entries", "Answers in the cache.");
const LABELS: [&str; 4] = ["server", "type", "zones", "view"];
const CACHE_LABELS: [&str; 3] = ["server", "zones", "view"];

impl Caches {
    pub(super) fn new() -> Self {
        let halves = PER_HALF.iter().map(|it| (it.0, it.1)).chain([ENTRIES]);
        let halves = halves.map(|it| describe(it, &LABELS));
        let whole = PER_CACHE
            .iter()
            .map(|it| describe((it.0, it.1), &CACHE_LABELS));
        Self {
            all: Arc::default(),
            descriptions: halves.chain(whole).collect(),
        }
    }

    /// Replaces the caches by those of a new Corefile.
    pub(crate) fn replace(&self, caches: Vec<CacheOf>) {
        *self.all.lock().unwrap_or_else(PoisonError::into_inner) = caches;
    }
}

fn describe((name, help): (&str, &str), labels: &[&str]) -> Desc {
    let labels = labels.iter().map(|it| (*it).to_owned()).collect();
    let constants = std::collections::HashMap::new();
    Desc::new(name.to_owned(), help.to_owned(), labels, constants)
        .expect("names and labels are valid")
}

impl Collector for Caches {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let all = self
            .all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut families = Vec::new();
        for (name, help, read) in PER_HALF {
            let counters = IntCounterVec::new(Opts::new(name, help), &LABELS);
            let counters = counters.expect("names and labels are valid");
            for it in &all {
                for half in Half::ALL {
                    let labels = [&*it.server, half.label(), &*it.zones, ""];
                    let count = read(&it.cache.counts(), half);
                    counters.with_label_values(&labels).inc_by(count);
                }
            }
            families.extend(counters.collect());
        }
        for (name, help, read) in PER_CACHE {
            let counters = IntCounterVec::new(Opts::new(name, help), &CACHE_LABELS);
            let counters = counters.expect("names and labels are valid");
            for it in &all {
                let labels = [&*it.server, &*it.zones, ""];
                counters
                    .with_label_values(&labels)
                    .inc_by(read(&it.cache.counts()));
            }
            families.extend(counters.collect());
        }
        let entries = IntGaugeVec::new(Opts::new(ENTRIES.0, ENTRIES.1), &LABELS);
        let entries = entries.expect("names and labels are valid");
        for it in &all {
            for half in Half::ALL {
                let labels = [&*it.server, half.label(), &*it.zones, ""];
                let count = i64::try_from(it.cache.entries(half)).unwrap_or(i64::MAX);
                entries.with_label_values(&labels).set(count);
            }
        }
        families.extend(entries.collect());
        families
    }
}
