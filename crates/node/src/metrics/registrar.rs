//! Makes metrics and registers them.

use std::fmt::Debug;

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};
use sluice_model::IpFamily;

/// One of something for each family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerFamily<T>([T; 2]);

impl<T> PerFamily<T> {
    pub(crate) fn new(make: impl FnMut(IpFamily) -> T) -> Self {
        Self(IpFamily::ALL.map(make))
    }

    pub(crate) fn of(&self, family: IpFamily) -> &T {
        match family {
            IpFamily::V4 => &self.0[0],
            IpFamily::V6 => &self.0[1],
        }
    }

    pub(crate) fn of_mut(&mut self, family: IpFamily) -> &mut T {
        match family {
            IpFamily::V4 => &mut self.0[0],
            IpFamily::V6 => &mut self.0[1],
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

/// Fills a registry.
#[derive(Clone, Copy)]
pub(super) struct Registrar<'a>(pub(super) &'a Registry);

impl Registrar<'_> {
    pub(super) fn register<C: Collector + Clone + 'static>(
        self,
        collector: Result<C, prometheus::Error>,
    ) -> C {
        let collector = collector.expect("names, labels and buckets are constants and well formed");
        let registered = self.0.register(Box::new(collector.clone()));
        registered.expect("no name is given twice");
        collector
    }

    pub(super) fn counter(self, name: &str, help: &str) -> IntCounter {
        self.register(IntCounter::new(name, help))
    }

    pub(super) fn counters(self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn gauge(self, name: &str, help: &str) -> IntGauge {
        self.register(IntGauge::new(name, help))
    }

    pub(super) fn gauges(self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    /// A gauge of seconds.
    pub(super) fn seconds(self, name: &str, help: &str) -> Gauge {
        self.register(Gauge::new(name, help))
    }

    pub(super) fn histogram(self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(Histogram::with_opts(opts))
    }

    pub(super) fn histograms(
        self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: &[f64],
    ) -> HistogramVec {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(HistogramVec::new(opts, labels))
    }

    pub(super) fn family_counters(self, name: &str, help: &str) -> PerFamily<IntCounter> {
        let all = self.counters(name, help, &["ip_family"]);
        PerFamily::new(|it| all.with_label_values(&[word(it)]))
    }

    pub(super) fn family_gauges(self, name: &str, help: &str) -> PerFamily<IntGauge> {
        let all = self.gauges(name, help, &["ip_family"]);
        PerFamily::new(|it| all.with_label_values(&[word(it)]))
    }

    pub(super) fn family_seconds(self, name: &str, help: &str) -> PerFamily<Gauge> {
        let all = self.register(GaugeVec::new(Opts::new(name, help), &["ip_family"]));
        PerFamily::new(|it| all.with_label_values(&[word(it)]))
    }

    pub(super) fn family_histograms(
        self,
        name: &str,
        help: &str,
        buckets: &[f64],
    ) -> PerFamily<Histogram> {
        let all = self.histograms(name, help, &["ip_family"], buckets);
        PerFamily::new(|it| all.with_label_values(&[word(it)]))
    }
}

/// The value of the label `ip_family`.
pub(super) fn word(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "IPv4",
        IpFamily::V6 => "IPv6",
    }
}
