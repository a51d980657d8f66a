//! How fast changes of the cluster are answered, and requests to the API server.

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};
use sluice_model::{ApiRequest, Change, ClusterIps, Service, ServiceKind};
use sluice_zone::{Event, Objects};

use super::registered;

/// What the plugin `kubernetes` of CoreDNS measures, for whoever follows the cluster's objects.
#[derive(Clone, Debug)]
pub struct ClusterMetrics {
    programming: HistogramVec,
    requests: IntCounterVec,
    durations: HistogramVec,
    waits: HistogramVec,
}

impl ClusterMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let buckets = exponential_buckets(0.001, 2.0, 20).expect("the constants are in bounds");
        let programming = HistogramOpts::new(
            "coredns_kubernetes_dns_programming_duration_seconds",
            "From the change that an EndpointSlice reports to its answer.",
        );
        let programming = HistogramVec::new(programming.buckets(buckets), &["service_kind"]);
        let requests = Opts::new(
            "coredns_kubernetes_rest_client_requests_total",
            "Requests to the API server.",
        );
        let requests = IntCounterVec::new(requests, &["code", "method", "host"]);
        // With the client library's usual buckets, as in CoreDNS.
        let of_requests = |name: &str, help: &str| {
            let histogram = HistogramVec::new(HistogramOpts::new(name, help), &["verb", "host"]);
            registered(registry, histogram)
        };
        Self {
            programming: registered(registry, programming),
            requests: registered(registry, requests),
            durations: of_requests(
                "coredns_kubernetes_rest_client_request_duration_seconds",
                "From a request to the API server to the head of its answer.",
            ),
            waits: of_requests(
                "coredns_kubernetes_rest_client_rate_limiter_duration_seconds",
                "How long requests waited because of the limit of requests a second.",
            ),
        }
    }

    /// Counts a request to the API server.
    pub fn requested(&self, request: &ApiRequest<'_>) {
        let code = request
            .code
            .map_or("<error>".to_owned(), |it| it.to_string());
        self.requests
            .with_label_values(&[&*code, request.method, request.host])
            .inc();
        let of =
            |durations: &HistogramVec| durations.with_label_values(&[request.method, request.host]);
        of(&self.durations).observe(request.elapsed.as_secs_f64());
        if let Some(waited) = request.waited {
            of(&self.waits).observe(waited.as_secs_f64());
        }
    }

    /// Takes what a source says into the objects, and measures how long after its cause that was. `now` is in
    /// milliseconds since the Unix epoch.
    ///
    /// Measured is a slice whose controller gave the time of the cause, once for each time, and not in the
    /// first listing: its changes came before the start.
    pub fn absorb(&self, objects: &mut Objects, event: &Event, now: i64) {
        let change = change(objects, event);
        objects.absorb(event, u32::try_from(now / 1000).unwrap_or(u32::MAX));
        if let Some((kind, triggered)) = change {
            let took = now.saturating_sub(triggered).max(0);
            self.programming
                .with_label_values(&[kind])
                .observe(took as f64 / 1e3);
        }
    }
}

/// The kind of the Service whose endpoints an event changes, and when the cause of that was.
fn change(objects: &Objects, event: &Event) -> Option<(&'static str, i64)> {
    let Event::EndpointSlice(Change::Set(slice)) = event else {
        return None;
    };
    let triggered = slice.triggered.filter(|_| objects.is_synced())?;
    let known = objects.endpoint_slice(&slice.name);
    if known.and_then(|it| it.triggered) == Some(triggered) {
        return None;
    }
    let service = objects.service(&slice.name.namespace, slice.service.as_deref()?)?;
    Some((kind(service)?, triggered))
}

/// Only the controller that follows selectors gives times: of headless Services without one, CoreDNS measures
/// nothing either.
fn kind(service: &Service) -> Option<&'static str> {
    match service.cluster_ips {
        _ if service.kind == ServiceKind::ExternalName => None,
        ClusterIps::Headless => Some("headless_with_selector"),
        ClusterIps::Assigned(_) => Some("cluster_ip"),
        ClusterIps::Unassigned => None,
    }
}
