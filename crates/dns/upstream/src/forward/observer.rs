//! The events of a forwarder, for CoreDNS's metrics.

use std::time::Duration;

use hickory_proto::op::ResponseCode;

/// Receives what happens, from any thread. `to` is the upstream's address and port, as in
/// CoreDNS's labels.
pub trait Observer: Send + Sync {
    /// `coredns_proxy_request_duration_seconds{proxy_name="forward",to,rcode}`; its count is what
    /// CoreDNS once called `coredns_forward_requests_total`.
    fn answered(&self, to: &str, code: ResponseCode, took: Duration);

    /// `coredns_proxy_conn_cache_hits_total{proxy_name="forward",to,proto}` or
    /// `coredns_proxy_conn_cache_misses_total`.
    fn connected(&self, to: &str, proto: Proto, origin: Origin);

    /// `coredns_proxy_healthcheck_failures_total{proxy_name="forward",to}`.
    fn health_check_failed(&self, to: &str);

    /// `coredns_forward_healthcheck_broken_total{from,to}`: every upstream of a `forward` is down.
    /// `all` joins their addresses with `+`.
    fn all_down(&self, from: &str, all: &str);

    /// `coredns_forward_max_concurrent_rejects_total`.
    fn rejected(&self);
}

/// How an upstream is reached: label `proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    /// UDP: never reused, so that each query has a random port.
    Udp,
    Tcp,
    /// TLS over TCP.
    Tls,
}

impl Proto {
    /// The label's value.
    pub fn label(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tcp-tls",
        }
    }
}

/// Where a connection came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the pool of idle ones.
    Reused,
    /// Opened for this query.
    Opened,
}
