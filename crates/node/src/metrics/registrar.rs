//! Makes metrics and registers them.

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};
use sluice_model::IpFamily;

use super::help::help;

/// One value for each family.
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

    /// The metrics of a vector whose labels are these and, last, `ip_family`.
    pub(super) fn of_vec<B: MetricVecBuilder<M = T>>(vec: &MetricVec<B>, labels: &[&str]) -> Self
    where
        T: prometheus::core::Metric,
    {
        Self::new(|it| {
            let family = it.to_string();
            vec.with_label_values(&[labels, &[&family]].concat())
        })
    }
}

/// Makes a counter show a count of the kernel, which may have begun anew.
pub(super) fn follow(counter: &IntCounter, count: u64) {
    match count.checked_sub(counter.get()) {
        Some(more) => counter.inc_by(more),
        None => {
            counter.reset();
            counter.inc_by(count);
        }
    }
}

/// Fills a registry. Names, labels and buckets are constants, so nothing here can fail at run time
/// but by a mistake that every test finds.
#[derive(Clone, Copy)]
pub(super) struct Registrar<'a> {
    pub(super) registry: &'a Registry,
    /// Counts what is registered.
    pub(super) registered: &'a IntCounter,
}

impl Registrar<'_> {
    pub(super) fn register<C: Collector + Clone + 'static>(
        self,
        collector: Result<C, prometheus::Error>,
    ) -> C {
        let collector = collector.expect("names, labels and buckets are constants and well formed");
        let registered = self.registry.register(Box::new(collector.clone()));
        registered.expect("no name is given twice");
        self.registered.inc();
        collector
    }

    pub(super) fn counter(self, name: &str) -> IntCounter {
        self.register(IntCounter::new(name, help(name)))
    }

    pub(super) fn counters(self, name: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help(name)), labels))
    }

    /// One counter for each value of one label.
    pub(super) fn counter_of_each<const N: usize>(
        self,
        name: &str,
        label: &str,
        values: [&str; N],
    ) -> [IntCounter; N] {
        let all = self.counters(name, &[label]);
        values.map(|it| all.with_label_values(&[it]))
    }

    pub(super) fn gauge(self, name: &str) -> IntGauge {
        self.register(IntGauge::new(name, help(name)))
    }

    pub(super) fn gauges(self, name: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help(name)), labels))
    }

    /// A gauge of seconds.
    pub(super) fn seconds(self, name: &str) -> Gauge {
        self.register(Gauge::new(name, help(name)))
    }

    pub(super) fn histogram(self, name: &str, buckets: &[f64]) -> Histogram {
        let opts = HistogramOpts::new(name, help(name)).buckets(buckets.to_vec());
        self.register(Histogram::with_opts(opts))
    }

    pub(super) fn histograms(self, name: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
        let opts = HistogramOpts::new(name, help(name)).buckets(buckets.to_vec());
        self.register(HistogramVec::new(opts, labels))
    }

    pub(super) fn family_counters(self, name: &str) -> PerFamily<IntCounter> {
        PerFamily::of_vec(&self.counters(name, &["ip_family"]), &[])
    }

    pub(super) fn family_gauges(self, name: &str) -> PerFamily<IntGauge> {
        PerFamily::of_vec(&self.gauges(name, &["ip_family"]), &[])
    }

    /// Gauges of seconds.
    pub(super) fn family_seconds(self, name: &str) -> PerFamily<Gauge> {
        let all = self.register(GaugeVec::new(Opts::new(name, help(name)), &["ip_family"]));
        PerFamily::of_vec(&all, &[])
    }

    pub(super) fn family_histograms(self, name: &str, buckets: &[f64]) -> PerFamily<Histogram> {
        PerFamily::of_vec(&self.histograms(name, &["ip_family"], buckets), &[])
    }
}
