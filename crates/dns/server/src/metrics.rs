//! Metrics under CoreDNS's names (its plugin `metrics`), and ours, which begin with `sluice_dns_`.
//!
//! ```text
//! answered query ─Sample─▶ Tally of (server, zone) ─▶ shard of the thread ╌╌sum at a scrape╌╌▶ text
//! ```
//!
//! Counting costs a few additions in memory of the own thread: see [`tally`].

mod access;
mod cluster;
mod form;
mod labels;
mod ours;
mod tally;
mod upstreams;

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{
    Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

pub(crate) use access::Acl;
pub use cluster::ClusterMetrics;
use form::Scraped;
pub(crate) use labels::{Family, Plugin, code_label};
pub(crate) use ours::Ours;
pub(crate) use tally::{Sample, Shard, Tally};
pub(crate) use upstreams::{CacheOf, Observed};

/// CoreDNS's buckets for durations in seconds: 0.25 ms to 8.2 s (`plugin.TimeBuckets`).
pub(crate) const TIME_BUCKETS: [f64; 16] = [
    0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024,
    2.048, 4.096, 8.192,
];

/// All metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    tallies: Scraped<Tallies>,
    shards: usize,
    pub(crate) panics: IntCounter,
    pub(crate) enabled: IntGaugeVec,
    pub(crate) health: Histogram,
    pub(crate) health_failures: IntCounter,
    pub(crate) reload_failures: IntCounter,
    pub(crate) template_matches: IntCounterVec,
    pub(crate) template_failures: IntCounterVec,
    pub(crate) hosts_entries: IntGauge,
    pub(crate) hosts_reloaded: Gauge,
    pub(crate) completed: IntCounterVec,
    pub(crate) acl: Acl,
    pub(crate) cluster: ClusterMetrics,
    pub(crate) ours: Ours,
    pub(crate) observed: Arc<Observed>,
    pub(crate) caches: Scraped<Vec<CacheOf>>,
}

impl Metrics {
    /// All metrics at zero, for as many threads as there are [`Shard`]s.
    pub(crate) fn new(shards: usize, version: &str) -> Self {
        let registry = Registry::new();
        let tallies = registered(&registry, Ok(tally::scraped()));
        let caches = registered(&registry, Ok(upstreams::caches()));
        let build = IntGaugeVec::new(
            Opts::new("coredns_build_info", "Version of the server. Value: 1."),
            &["version", "revision", "goversion"],
        );
        let build = registered(&registry, build);
        build.with_label_values(&[version, "", ""]).set(1);
        let counter = |name: &str, help: &str| registered(&registry, IntCounter::new(name, help));
        let counters = |name: &str, help: &str, labels: &[&str]| {
            registered(&registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            registered(&registry, IntGaugeVec::new(Opts::new(name, help), labels))
        };
        let health = HistogramOpts::new(
            "coredns_health_request_duration_seconds",
            "Duration of the server's own requests to /health, one a second.",
        );
        // CoreDNS's `plugin.SlimTimeBuckets`.
        let health = health.buckets(vec![0.00025, 0.0025, 0.025, 0.25, 2.5]);
        Self {
            panics: counter(
                "coredns_panics_total",
                "Queries whose answer failed by a fault of ours.",
            ),
            enabled: gauges(
                "coredns_plugin_enabled",
                "Plugins of each server and zone. Value: 1.",
                &["server", "zone", "view", "name"],
            ),
            health: registered(&registry, Histogram::with_opts(health)),
            health_failures: counter(
                "coredns_health_request_failures_total",
                "Own requests to /health without an answer.",
            ),
            reload_failures: counter(
                "coredns_reload_failed_total",
                "Changed Corefiles that could not be applied.",
            ),
            template_matches: counters(
                "coredns_template_matches_total",
                "Queries that a template answered.",
                &["server", "zone", "view", "class", "type"],
            ),
            template_failures: counters(
                "coredns_template_rr_failures_total",
                "Records of templates that could not be read.",
                &[
                    "server", "zone", "view", "class", "type", "section", "template",
                ],
            ),
            hosts_entries: registered(
                &registry,
                IntGauge::new(
                    "coredns_hosts_entries",
                    "Names with an address in hosts files and Corefiles.",
                ),
            ),
            hosts_reloaded: registered(
                &registry,
                Gauge::new(
                    "coredns_hosts_reload_timestamp_seconds",
                    "When hosts files were last read, in seconds since the Unix epoch.",
                ),
            ),
            completed: counters(
                "coredns_autopath_success_total",
                "Names that autopath completed.",
                &["server"],
            ),
            acl: Acl::new(&registry),
            cluster: ClusterMetrics::new(&registry),
            ours: Ours::new(&registry),
            observed: Arc::new(Observed::new(&registry)),
            caches,
            tallies,
            shards,
            registry,
        }
    }

    /// The counters of a server (`dns://:53`) and zone, which outlive a change of the Corefile.
    pub(crate) fn tally(&self, server: &str, zone: &str) -> Arc<Tally> {
        let mut all = self.tallies.lock();
        let tally = all.entry((server.to_owned(), zone.to_owned()));
        tally
            .or_insert_with(|| Arc::new(Tally::new(self.shards)))
            .clone()
    }

    /// The registry, for a program that serves these metrics with its own.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Prometheus's text format.
    pub(crate) fn text(&self) -> String {
        let families = self.registry.gather();
        TextEncoder::new()
            .encode_to_string(&families)
            .unwrap_or_else(|error| format!("# {error}\n"))
    }
}

/// Registers a metric that was made from constants.
pub(crate) fn registered<M: Collector + Clone + 'static>(
    registry: &Registry,
    metric: prometheus::Result<M>,
) -> M {
    let metric = metric.expect("names and labels are valid");
    let added = registry.register(Box::new(metric.clone()));
    added.expect("each metric has its own name");
    metric
}

/// Server and zone.
type Key = (String, String);

type Tallies = BTreeMap<Key, Arc<Tally>>;
