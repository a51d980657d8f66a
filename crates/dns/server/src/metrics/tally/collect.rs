//! The tallies as Prometheus sees them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::core::Desc;
use prometheus::proto::{Bucket, Counter, Histogram, LabelPair, Metric, MetricFamily, MetricType};

use super::{Counts, Distribution, SIZE_BUCKETS, TIME_BUCKETS, Tally};
use crate::metrics::labels::{CODES, Family, Plugin, TYPE_COUNT, Transport, type_label};

/// One metric: name, help, the labels beside those of all, type.
type Form = (
    &'static str,
    &'static str,
    &'static [&'static str],
    MetricType,
);

const REQUESTS: Form = (
    "coredns_dns_requests_total",
    "Queries.",
    &["proto", "family", "type"],
    MetricType::COUNTER,
);
const DNSSEC_OK: Form = (
    "coredns_dns_do_requests_total",
    "Queries with the flag DO.",
    &[],
    MetricType::COUNTER,
);
const DURATIONS: Form = (
    "coredns_dns_request_duration_seconds",
    "Time from a query to its response.",
    &[],
    MetricType::HISTOGRAM,
);
const QUERY_SIZES: Form = (
    "coredns_dns_request_size_bytes",
    "Size of queries.",
    &["proto"],
    MetricType::HISTOGRAM,
);
const RESPONSE_SIZES: Form = (
    "coredns_dns_response_size_bytes",
    "Size of responses.",
    &["proto"],
    MetricType::HISTOGRAM,
);
const RESPONSES: Form = (
    "coredns_dns_responses_total",
    "Responses by code and by the plugin that made them.",
    &["rcode", "plugin"],
    MetricType::COUNTER,
);
const NANOSECONDS: f64 = 1e9;

/// Descriptions of what [`collect`] returns.
pub(in crate::metrics) fn descriptions() -> Vec<Desc> {
    let forms = [
        REQUESTS,
        DNSSEC_OK,
        DURATIONS,
        QUERY_SIZES,
        RESPONSE_SIZES,
        RESPONSES,
    ];
    let describe = |(name, help, own, _): Form| {
        let labels = ["server", "zone", "view"].iter().chain(own);
        let labels = labels.map(|it| (*it).to_owned()).collect();
        Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())
            .expect("names and labels are valid")
    };
    forms.map(describe).into()
}

/// The metrics of these servers and zones.
pub(in crate::metrics) fn collect(all: &[(&str, &str, &Tally)]) -> Vec<MetricFamily> {
    let views = || all.iter().map(|it| View::of(*it));
    let each = |form: Form, of: &dyn Fn(&View<'_>) -> Vec<Metric>| {
        let (name, help, _, kind) = form;
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(views().flat_map(|it| of(&it)).collect());
        family
    };
    vec![
        each(REQUESTS, &|it| it.requests()),
        each(DNSSEC_OK, &|it| {
            it.counter(&[], &|it| &it.dnssec_ok).into_iter().collect()
        }),
        each(DURATIONS, &|it| {
            let durations = it.histogram(&[], &|it| &it.durations, &TIME_BUCKETS, NANOSECONDS);
            durations.into_iter().collect()
        }),
        each(QUERY_SIZES, &|it| {
            it.sizes(&|it, proto| &it.query_sizes[proto])
        }),
        each(RESPONSE_SIZES, &|it| {
            it.sizes(&|it, proto| &it.response_sizes[proto])
        }),
        each(RESPONSES, &|it| it.responses()),
    ]
}

/// One tally and its labels.
struct View<'a> {
    labels: [(&'static str, &'a str); 3],
    shards: &'a [Counts],
}

impl<'a> View<'a> {
    fn of((server, zone, tally): (&'a str, &'a str, &'a Tally)) -> Self {
        Self {
            labels: [("server", server), ("zone", zone), ("view", "")],
            shards: &tally.0,
        }
    }

    fn requests(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for (proto, transport) in Transport::ALL.iter().enumerate() {
            for (number, family) in Family::ALL.iter().enumerate() {
                for kind in 0..TYPE_COUNT {
                    let own = [
                        ("proto", transport.as_str()),
                        ("family", family.as_str()),
                        ("type", type_label(kind)),
                    ];
                    metrics.extend(self.counter(&own, &|it| &it.requests[proto][number][kind]));
                }
            }
        }
        metrics
    }

    fn responses(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for (code, rcode) in CODES.iter().enumerate() {
            for (number, plugin) in Plugin::ALL.iter().enumerate() {
                let own = [("rcode", *rcode), ("plugin", plugin.as_str())];
                metrics.extend(self.counter(&own, &|it| &it.responses[code][number]));
            }
        }
        metrics
    }

    fn sizes(
        &self,
        read: &dyn Fn(&Counts, usize) -> &Distribution<{ SIZE_BUCKETS.len() }>,
    ) -> Vec<Metric> {
        let of = |(proto, transport): (usize, &Transport)| {
            let own = [("proto", transport.as_str())];
            self.histogram(&own, &|it| read(it, proto), &SIZE_BUCKETS, 1.0)
        };
        Transport::ALL.iter().enumerate().filter_map(of).collect()
    }

    fn with(&self, own: &[(&str, &str)]) -> Metric {
        let mut all: Vec<_> = self.labels.iter().chain(own).copied().collect();
        all.sort_unstable();
        let pair = |(name, value): (&str, &str)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value.to_owned());
            pair
        };
        Metric::from_label(all.into_iter().map(pair).collect())
    }

    fn sum(&self, read: &dyn Fn(&Counts) -> &AtomicU64) -> u64 {
        let values = self
            .shards
            .iter()
            .map(|it| read(it).load(Ordering::Relaxed));
        values.sum()
    }

    /// `None` at zero: most combinations of labels never occur.
    fn counter(
        &self,
        own: &[(&str, &str)],
        read: &dyn Fn(&Counts) -> &AtomicU64,
    ) -> Option<Metric> {
        let count = self.sum(read);
        if count == 0 {
            return None;
        }
        let mut metric = self.with(own);
        let mut counter = Counter::default();
        counter.set_value(count as f64);
        metric.set_counter(counter);
        Some(metric)
    }

    /// `None` without an observation. The sum is divided by `unit`.
    fn histogram<const N: usize>(
        &self,
        own: &[(&str, &str)],
        read: &dyn Fn(&Counts) -> &Distribution<N>,
        bounds: &[f64; N],
        unit: f64,
    ) -> Option<Metric> {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(N);
        for (index, bound) in bounds.iter().enumerate() {
            count += self.sum(&|it| &read(it).buckets[index]);
            let mut bucket = Bucket::default();
            bucket.set_cumulative_count(count);
            bucket.set_upper_bound(*bound);
            buckets.push(bucket);
        }
        count += self.sum(&|it| &read(it).above);
        if count == 0 {
            return None;
        }
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets);
        histogram.set_sample_count(count);
        histogram.set_sample_sum(self.sum(&|it| &read(it).sum) as f64 / unit);
        let mut metric = self.with(own);
        metric.set_histogram(histogram);
        Some(metric)
    }
}
