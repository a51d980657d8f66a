//! Metrics of forwarders and caches (CoreDNS's plugins `forward` and `cache`).

use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};
use sluice_upstream::{Cache, Counter, Counters, Half, Observer, Origin, Proto};

use super::form::{Form, Scraped};
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

/// A metric of each half of a cache.
const fn per_half(name: &'static str, help: &'static str, kind: MetricType) -> Form {
    let labels = &["server", "type", "zones", "view"];
    Form {
        name,
        help,
        labels,
        kind,
    }
}

/// A counter of a whole cache.
const fn counter(name: &'static str, help: &'static str) -> Form {
    Form {
        name,
        help,
        labels: &["server", "zones", "view"],
        kind: MetricType::COUNTER,
    }
}

const HITS: Form = per_half(
    "coredns_cache_hits_total",
    "Answers from the cache.",
    MetricType::COUNTER,
);
const EVICTIONS: Form = per_half(
    "coredns_cache_evictions_total",
    "Answers that made room for others.",
    MetricType::COUNTER,
);
const ENTRIES: Form = per_half(
    "coredns_cache_entries",
    "Answers in the cache.",
    MetricType::GAUGE,
);
const REQUESTS: Form = counter("coredns_cache_requests_total", "Questions to the cache.");
const MISSES: Form = counter(
    "coredns_cache_misses_total",
    "Questions that it had no answer to.",
);
const DROPS: Form = counter("coredns_cache_drops_total", "Answers to another question.");
const PREFETCHES: Form = counter(
    "coredns_cache_prefetch_total",
    "Answers asked for before their end.",
);
const STALE: Form = counter(
    "coredns_cache_served_stale_total",
    "Expired answers that were served.",
);

type ReadHalf = fn(&Cache, Half) -> u64;
type Read = fn(&Counters) -> &Counter;

const PER_HALF: [(Form, ReadHalf); 3] = [
    (HITS, |it, half| it.counters().hits[half as usize].get()),
    (EVICTIONS, |it, half| {
        it.counters().evictions[half as usize].get()
    }),
    (ENTRIES, |it, half| it.entries(half) as u64),
];
const PER_CACHE: [(Form, Read); 5] = [
    (REQUESTS, |it| &it.requests),
    (MISSES, |it| &it.misses),
    (DROPS, |it| &it.drops),
    (PREFETCHES, |it| &it.prefetches),
    (STALE, |it| &it.served_stale),
];

/// The caches of the present Corefile, to be registered.
pub(super) fn caches() -> Scraped<Vec<CacheOf>> {
    let halves = PER_HALF.iter().map(|(form, _)| form.describe());
    let whole = PER_CACHE.iter().map(|(form, _)| form.describe());
    Scraped::new(halves.chain(whole), |it| collect(it))
}

fn collect(all: &[CacheOf]) -> Vec<MetricFamily> {
    let halves = PER_HALF.iter().map(|(form, read)| {
        let of = |it: &CacheOf| {
            Half::ALL.map(|half| {
                let labels = [&*it.server, half.label(), &*it.zones, ""];
                form.valued(&labels, read(&it.cache, half))
            })
        };
        form.family(all.iter().flat_map(of).collect())
    });
    let whole = PER_CACHE.iter().map(|(form, read)| {
        let of = |it: &CacheOf| {
            let labels = [&*it.server, &*it.zones, ""];
            form.valued(&labels, read(it.cache.counters()).get())
        };
        form.family(all.iter().map(of).collect())
    });
    halves.chain(whole).collect()
}
