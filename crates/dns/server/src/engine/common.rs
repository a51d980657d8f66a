//! State that all engines of a server share, and that outlives a change of the Corefile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use sluice_zone::Objects;
use tokio::runtime::Handle;

use crate::limits::Bound;
use crate::metrics::Metrics;
use crate::options::Options;

/// Shared by all threads of a server.
pub(crate) struct Common {
    pub(crate) objects: Arc<RwLock<Objects>>,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) runtime: Handle,
    /// The machine's name, for `chaos` and `nsid`.
    pub(crate) host: String,
    /// Grows with each change of a file that a plugin reads.
    pub(crate) files: AtomicU64,
    /// Number of engines made.
    engines: AtomicU64,
    /// Queries that go to an upstream.
    pub(crate) queries: Arc<Bound>,
    /// TCP connections.
    pub(crate) connections: Arc<Bound>,
    has_failed: AtomicBool,
}

impl Common {
    /// The shared state. `shards`: the number of threads that count metrics.
    pub(crate) fn new(
        objects: Arc<RwLock<Objects>>,
        options: Options,
        shards: usize,
        runtime: Handle,
    ) -> Arc<Self> {
        let metrics = Metrics::new(shards, &options.version);
        let limits = options.limits;
        let (ours, host) = (&metrics.ours, nix::sys::utsname::uname());
        Arc::new(Self {
            objects,
            runtime,
            host: host
                .map(|it| it.nodename().to_string_lossy().into_owned())
                .unwrap_or_default(),
            files: AtomicU64::new(0),
            engines: AtomicU64::new(0),
            queries: Bound::new(
                limits.queries,
                limits.queries_per_client,
                ours.in_flight.clone(),
                [ours.shed("queries"), ours.shed("client_queries")],
            ),
            connections: Bound::new(
                limits.connections,
                limits.connections_per_client,
                ours.connections.clone(),
                [ours.shed("connections"), ours.shed("client_connections")],
            ),
            has_failed: AtomicBool::new(false),
            options,
            metrics,
        })
    }

    /// A number that no other engine has.
    pub(super) fn number(&self) -> u64 {
        self.engines.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Says, once, that the server must not go on.
    pub(crate) fn fail(&self, text: String) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            (self.options.fatal)(text);
        }
    }
}
