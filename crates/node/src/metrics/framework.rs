//! Metrics that every Kubernetes component has: build, feature gates, requests to the API server,
//! the process, and the service level indicators.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use sluice_model::ApiRequest;

use super::Identity;
use super::help::{HELP, help};
use super::process::{Process, START_TIME, start_time};
use super::registrar::Registrar;

/// Buckets of client-go's request latency, in seconds.
const REQUEST_SECONDS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// Buckets of client-go's sizes of requests and answers, in bytes.
const REQUEST_BYTES: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// Most label sets of a metric about an API server: its address may change any number of times, and
/// memory must stay bounded.
const LARGEST_VEC: usize = 512;

pub(super) struct Framework {
    requests: IntCounterVec,
    request_duration: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    rate_limiter: HistogramVec,
    label_sets: Mutex<HashSet<(String, String, String)>>,
}

impl Framework {
    pub(super) fn new(to: Registrar<'_>, identity: &Identity) -> Self {
        build_info(to, identity);
        features(to, identity);
        // Kubernetes' metrics may be disabled by flag or hidden when they are deprecated; none is here.
        to.counter("disabled_metrics_total");
        to.counter("hidden_metrics_total");
        let process = to.registry.register(Box::new(Process::of_self()));
        process.expect("no name is given twice");
        let of_host = |name, buckets: &[f64]| to.histograms(name, &["verb", "host"], buckets);
        Self {
            requests: to.counters("rest_client_requests_total", &["code", "method", "host"]),
            request_duration: of_host("rest_client_request_duration_seconds", &REQUEST_SECONDS),
            request_size: of_host("rest_client_request_size_bytes", &REQUEST_BYTES),
            response_size: of_host("rest_client_response_size_bytes", &REQUEST_BYTES),
            rate_limiter: of_host(
                "rest_client_rate_limiter_duration_seconds",
                &REQUEST_SECONDS,
            ),
            label_sets: Mutex::default(),
        }
    }

    pub(super) fn api_request(&self, request: &ApiRequest<'_>) {
        let ApiRequest { method, host, .. } = *request;
        let code = request.code.map(|it| it.to_string());
        let code = code.as_deref().unwrap_or("<error>");
        if !self.admits(code, method, host) {
            return;
        }
        self.requests.with_label_values(&[code, method, host]).inc();
        let observe = |histogram: &HistogramVec, value: Option<f64>| {
            if let Some(value) = value {
                histogram.with_label_values(&[method, host]).observe(value);
            }
        };
        let bytes = |size: Option<u64>| size.map(|it| it as f64);
        observe(&self.request_duration, Some(request.elapsed.as_secs_f64()));
        observe(
            &self.rate_limiter,
            request.waited.map(|it| it.as_secs_f64()),
        );
        observe(&self.request_size, bytes(request.sent));
        observe(&self.response_size, bytes(request.received));
    }

    /// Whether these labels are known or there is room for them.
    fn admits(&self, code: &str, method: &str, host: &str) -> bool {
        let key = (code.to_owned(), method.to_owned(), host.to_owned());
        let sets = self.label_sets.lock();
        let mut sets = sets.unwrap_or_else(PoisonError::into_inner);
        sets.contains(&key) || (sets.len() < LARGEST_VEC && sets.insert(key))
    }
}

fn build_info(to: Registrar<'_>, identity: &Identity) {
    let version = &identity.version;
    let mut parts = version.split(['.', '-', '+']);
    let values = [
        ("major", parts.next().unwrap_or_default()),
        ("minor", parts.next().unwrap_or_default()),
        ("git_version", &format!("v{version}")),
        ("git_commit", ""),
        ("git_tree_state", ""),
        ("build_date", ""),
        ("go_version", ""),
        ("compiler", "rustc"),
        ("platform", &format!("linux/{}", std::env::consts::ARCH)),
    ];
    let all = to.gauges("kubernetes_build_info", &values.map(|it| it.0));
    all.with_label_values(&values.map(|it| it.1)).set(1);
}

fn features(to: Registrar<'_>, identity: &Identity) {
    let all = to.gauges("kubernetes_feature_enabled", &["name", "stage"]);
    for (name, stage, is_on) in &identity.features {
        let gauge = all.with_label_values(&[name, stage]);
        gauge.set(i64::from(*is_on));
    }
}

/// The number of metrics that are registered. All have the stability of kube-proxy's own.
pub(super) fn registered(registry: &Registry) -> IntCounter {
    let name = "registered_metrics_total";
    let labels = ["stability_level", "deprecated_version"];
    let all = IntCounterVec::new(Opts::new(name, help(HELP, name)), &labels);
    let all = all.expect("constants, well formed");
    let registered = registry.register(Box::new(all.clone()));
    registered.expect("no name is given twice");
    let all = all.with_label_values(&["ALPHA", ""]);
    all.inc();
    all
}

/// `/metrics/slis`: the results of health checks (KEP-3466).
pub(crate) struct Slis {
    pub(super) registry: Registry,
    result: IntGauge,
    successes: IntCounter,
}

impl Slis {
    pub(super) fn new(registered: &IntCounter) -> Self {
        let registry = Registry::new();
        let to = Registrar {
            registry: &registry,
            registered,
            help: HELP,
        };
        let started = start_time().unwrap_or_default();
        to.gauge(START_TIME).set(started as i64);
        let results = to.gauges("kubernetes_healthcheck", &["name", "type"]);
        let totals = to.counters("kubernetes_healthchecks_total", &["name", "type", "status"]);
        let result = results.with_label_values(&["ping", "healthz"]);
        result.set(1);
        Self {
            result,
            successes: totals.with_label_values(&["ping", "healthz", "success"]),
            registry,
        }
    }

    /// The metrics server answered that it is well.
    pub(crate) fn pinged(&self) {
        self.result.set(1);
        self.successes.inc();
    }
}
