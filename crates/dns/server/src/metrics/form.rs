//! Metrics that are put together at a scrape.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// What is the same for all values of a metric.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) kind: MetricType,
}

impl Form {
    pub(super) fn describe(&self) -> Desc {
        let labels = self.labels.iter().map(|it| (*it).to_owned()).collect();
        let (name, help) = (self.name.to_owned(), self.help.to_owned());
        Desc::new(name, help, labels, HashMap::new()).expect("names and labels are valid")
    }

    pub(super) fn family(&self, metrics: Vec<Metric>) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.name.to_owned());
        family.set_help(self.help.to_owned());
        family.set_field_type(self.kind);
        family.set_metric(metrics);
        family
    }

    /// A metric without a value. The values of its labels are in the order of `labels`.
    pub(super) fn labelled(&self, values: &[&str]) -> Metric {
        let mut all: Vec<_> = self.labels.iter().zip(values).collect();
        all.sort_unstable();
        let pair = |(name, value): (&&str, &&str)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        };
        Metric::from_label(all.into_iter().map(pair).collect())
    }

    /// A counter or a gauge.
    pub(super) fn valued(&self, values: &[&str], value: u64) -> Metric {
        let mut metric = self.labelled(values);
        let value = value as f64;
        if self.kind == MetricType::GAUGE {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        } else {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        }
        metric
    }
}

/// State whose metrics are put together at a scrape. Its clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Scraped<T> {
    state: Arc<Mutex<T>>,
    descriptions: Vec<Desc>,
    read: fn(&T) -> Vec<MetricFamily>,
}

impl<T: Default> Scraped<T> {
    pub(super) fn new(
        descriptions: impl Iterator<Item = Desc>,
        read: fn(&T) -> Vec<MetricFamily>,
    ) -> Self {
        Self {
            state: Arc::default(),
            descriptions: descriptions.collect(),
            read,
        }
    }
}

impl<T> Scraped<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send> Collector for Scraped<T> {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        (self.read)(&self.lock())
    }
}
