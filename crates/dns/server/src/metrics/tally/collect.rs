//! The tallies as Prometheus sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::proto::{Bucket, Histogram, Metric, MetricFamily, MetricType};
use sluice_upstream::Transport;

use super::{Counts, Distribution, SIZE_BUCKETS, TIME_BUCKETS, Tally};
use crate::metrics::form::{Form, Scraped};
use crate::metrics::labels::{CODES, Family, Plugin, TYPE_COUNT, type_label};
use crate::metrics::{Key, Tallies};

const REQUESTS: Form = Form {
    name: "coredns_dns_requests_total",
    help: "Queries.",
    labels: &["server", "zone", "view", "proto", "family", "type"],
    kind: MetricType::COUNTER,
};
const DNSSEC_OK: Form = Form {
    name: "coredns_dns_do_requests_total",
    help: "Queries with the flag DO.",
    labels: &["server", "zone", "view"],
    kind: MetricType::COUNTER,
};
const DURATIONS: Form = Form {
    name: "coredns_dns_request_duration_seconds",
    help: "Time from a query to its response.",
    labels: &["server", "zone", "view"],
    kind: MetricType::HISTOGRAM,
};
const QUERY_SIZES: Form = Form {
    name: "coredns_dns_request_size_bytes",
    help: "Size of queries.",
    labels: &["server", "zone", "view", "proto"],
    kind: MetricType::HISTOGRAM,
};
const RESPONSE_SIZES: Form = Form {
    name: "coredns_dns_response_size_bytes",
    help: "Size of responses.",
    labels: &["server", "zone", "view", "proto"],
    kind: MetricType::HISTOGRAM,
};
const RESPONSES: Form = Form {
    name: "coredns_dns_responses_total",
    help: "Responses by code and by the plugin that made them.",
    labels: &["server", "zone", "view", "rcode", "plugin"],
    kind: MetricType::COUNTER,
};
const NANOSECONDS: f64 = 1e9;

type Read = fn(&View<'_>, &Form) -> Vec<Metric>;

/// The metrics of a tally, each with what reads it.
const ALL: [(Form, Read); 6] = [
    (REQUESTS, |it, form| it.requests(form)),
    (DNSSEC_OK, |it, form| {
        it.counter(form, &[], &|it| &it.dnssec_ok)
            .into_iter()
            .collect()
    }),
    (DURATIONS, |it, form| {
        let durations = it.histogram(form, &[], &|it| &it.durations, &TIME_BUCKETS, NANOSECONDS);
        durations.into_iter().collect()
    }),
    (QUERY_SIZES, |it, form| {
        it.sizes(form, &|it, proto| &it.query_sizes[proto])
    }),
    (RESPONSE_SIZES, |it, form| {
        it.sizes(form, &|it, proto| &it.response_sizes[proto])
    }),
    (RESPONSES, |it, form| it.responses(form)),
];

/// All tallies, to be registered.
pub(in crate::metrics) fn scraped() -> Scraped<Tallies> {
    Scraped::new(ALL.iter().map(|(form, _)| form.describe()), collect)
}

fn collect(all: &Tallies) -> Vec<MetricFamily> {
    let family = |(form, read): &(Form, Read)| {
        let of = |((server, zone), tally): (&Key, &Arc<Tally>)| {
            let labels = [&**server, &**zone, ""];
            let shards = &tally.0;
            read(&View { labels, shards }, form)
        };
        form.family(all.iter().flat_map(of).collect())
    };
    ALL.iter().map(family).collect()
}

/// One tally and its labels.
struct View<'a> {
    /// Server, zone and view.
    labels: [&'a str; 3],
    shards: &'a [Counts],
}

impl View<'_> {
    fn requests(&self, form: &Form) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for (proto, transport) in Transport::NAMES.iter().enumerate() {
            for (number, family) in Family::NAMES.iter().enumerate() {
                for kind in 0..TYPE_COUNT {
                    let own = [*transport, *family, type_label(kind)];
                    metrics
                        .extend(self.counter(form, &own, &|it| &it.requests[proto][number][kind]));
                }
            }
        }
        metrics
    }

    fn responses(&self, form: &Form) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for (code, rcode) in CODES.iter().enumerate() {
            for (number, plugin) in Plugin::NAMES.iter().enumerate() {
                let own = [*rcode, *plugin];
                metrics.extend(self.counter(form, &own, &|it| &it.responses[code][number]));
            }
        }
        metrics
    }

    fn sizes(
        &self,
        form: &Form,
        read: &dyn Fn(&Counts, usize) -> &Distribution<{ SIZE_BUCKETS.len() }>,
    ) -> Vec<Metric> {
        let of = |(proto, transport): (usize, &&str)| {
            self.histogram(
                form,
                &[*transport],
                &|it| read(it, proto),
                &SIZE_BUCKETS,
                1.0,
            )
        };
        Transport::NAMES.iter().enumerate().filter_map(of).collect()
    }

    fn sum(&self, read: &dyn Fn(&Counts) -> &AtomicU64) -> u64 {
        let shards = self.shards.iter();
        shards.map(|it| read(it).load(Ordering::Relaxed)).sum()
    }

    /// `None` at zero: most combinations of labels never occur.
    fn counter(
        &self,
        form: &Form,
        own: &[&str],
        read: &dyn Fn(&Counts) -> &AtomicU64,
    ) -> Option<Metric> {
        let count = self.sum(read);
        (count > 0).then(|| form.valued(&[&self.labels, own].concat(), count))
    }

    /// `None` without an observation. The sum is divided by `unit`.
    fn histogram<const N: usize>(
        &self,
        form: &Form,
        own: &[&str],
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
        let mut metric = form.labelled(&[&self.labels, own].concat());
        metric.set_histogram(histogram);
        Some(metric)
    }
}
