//! Makes metrics and registers them.

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

use super::help::help;
use crate::per_family::PerFamily;

/// The metrics of a vector with these labels, then `ip_family`.
pub fn per_family<B>(vec: &MetricVec<B>, labels: &[&str]) -> PerFamily<B::M>
where
    B: MetricVecBuilder,
{
    PerFamily::new(|it| {
        let family = it.to_string();
        vec.with_label_values(&[labels, &[&family]].concat())
    })
}

/// Makes a counter show a count of the kernel, which may have started again at zero.
pub fn follow(counter: &IntCounter, count: u64) {
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
pub struct Registrar<'a> {
    pub(super) registry: &'a Registry,
    /// The number of registered metrics.
    pub(super) registered: &'a IntCounter,
    /// Lines of name and help.
    pub(super) help: &'static str,
}

impl Registrar<'_> {
    fn help(self, name: &str) -> &'static str {
        help(self.help, name)
    }

    /// Adds a metric.
    pub fn register<C: Collector + Clone + 'static>(
        self,
        collector: Result<C, prometheus::Error>,
    ) -> C {
        let collector = collector.expect("names, labels and buckets are constants and well formed");
        let descriptions = collector.desc().len() as u64;
        let registered = self.registry.register(Box::new(collector.clone()));
        registered.expect("no name is given twice");
        self.registered.inc_by(descriptions);
        collector
    }

    pub fn counter(self, name: &str) -> IntCounter {
        self.register(IntCounter::new(name, self.help(name)))
    }

    /// Counters with labels.
    pub fn counters(self, name: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, self.help(name)), labels))
    }

    /// One counter for each value of one label.
    pub fn counter_of_each<const N: usize>(
        self,
        name: &str,
        label: &str,
        values: [&str; N],
    ) -> [IntCounter; N] {
        let all = self.counters(name, &[label]);
        values.map(|it| all.with_label_values(&[it]))
    }

    /// A gauge of whole numbers.
    pub fn gauge(self, name: &str) -> IntGauge {
        self.register(IntGauge::new(name, self.help(name)))
    }

    /// Gauges with labels.
    pub fn gauges(self, name: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, self.help(name)), labels))
    }

    pub fn seconds(self, name: &str) -> Gauge {
        self.register(Gauge::new(name, self.help(name)))
    }

    /// A histogram with these upper bounds.
    pub fn histogram(self, name: &str, buckets: &[f64]) -> Histogram {
        let opts = HistogramOpts::new(name, self.help(name)).buckets(buckets.to_vec());
        self.register(Histogram::with_opts(opts))
    }

    /// Histograms with labels.
    pub fn histograms(self, name: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
        let opts = HistogramOpts::new(name, self.help(name)).buckets(buckets.to_vec());
        self.register(HistogramVec::new(opts, labels))
    }

    /// A counter of each family.
    pub fn family_counters(self, name: &str) -> PerFamily<IntCounter> {
        per_family(&self.counters(name, &["ip_family"]), &[])
    }

    /// A gauge of each family.
    pub fn family_gauges(self, name: &str) -> PerFamily<IntGauge> {
        per_family(&self.gauges(name, &["ip_family"]), &[])
    }

    pub fn family_seconds(self, name: &str) -> PerFamily<Gauge> {
        let all = self.register(GaugeVec::new(
            Opts::new(name, self.help(name)),
            &["ip_family"],
        ));
        per_family(&all, &[])
    }

    /// A histogram of each family.
    pub fn family_histograms(self, name: &str, buckets: &[f64]) -> PerFamily<Histogram> {
        per_family(&self.histograms(name, &["ip_family"], buckets), &[])
    }
}
