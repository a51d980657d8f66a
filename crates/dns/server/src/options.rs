//! Options of a server.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::rr::Name;
use sluice_http::{Budget, Own};

/// The usual limit of a process: 256 connections to pages from other machines, 32 of them from one.
const DESCRIPTORS: usize = 1024;

/// How a server runs, beside its Corefile.
#[derive(Clone)]
pub struct Options {
    /// Threads for UDP on each address, at least 1. More than processors are of no use.
    pub threads: usize,
    /// Version of the program, for `coredns_build_info` and the plugin `chaos`.
    pub version: String,
    /// For `autopath @kubernetes`; `None`: names are not completed.
    pub search_paths: Option<Arc<dyn SearchPaths>>,
    pub limits: Limits,
    /// The connections to its pages, those to other servers of the process included.
    pub page_budget: Arc<Budget>,
    /// Called, once at most, when the server must not go on: queries that it forwards come back to it
    /// (plugin `loop`). The text is one line.
    pub fatal: Arc<dyn Fn(String) + Send + Sync>,
}

impl Default for Options {
    /// One thread, no search paths, a budget of its own; a fatal fault is logged.
    fn default() -> Self {
        Self {
            threads: 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            search_paths: None,
            limits: Limits::default(),
            page_budget: Budget::new(DESCRIPTORS, Own::default(), Arc::new(())),
            fatal: Arc::new(|text| tracing::error!("{text}")),
        }
    }
}

/// Knows the search paths of clients.
pub trait SearchPaths: Send + Sync {
    /// The `search` line of the resolv.conf of the pod with this address: absolute names, in order.
    /// `None` when the client is unknown or its path uncertain: its names are not completed then.
    fn search_path(&self, client: IpAddr) -> Option<Arc<[Name]>>;
}

/// Bounds of what clients can make the server hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queries that wait for an upstream. Each takes some 4 KiB.
    pub queries: usize,
    /// The limit of one client: an IPv4 address or an IPv6 /64.
    pub queries_per_client: usize,
    /// TCP connections. An idle one takes some 8 KiB.
    pub connections: usize,
    /// The limit of one client.
    pub connections_per_client: usize,
    /// After this time without a query a connection is closed.
    pub idle: Duration,
    /// Bytes of encoded answers, for all threads together.
    pub wire_cache: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queries: 4096,
            queries_per_client: 1024,
            connections: 1024,
            connections_per_client: 64,
            // As in CoreDNS.
            idle: Duration::from_secs(10),
            wire_cache: 16 << 20,
        }
    }
}
