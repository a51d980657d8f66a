//! A server from its Corefile: started, changed, stopped.

mod listener;
mod pages;
mod plan;
#[cfg(feature = "testing")]
mod responder;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use prometheus::Registry;
use sluice_corefile::Corefile;
use sluice_zone::Objects;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::engine::Common;
use crate::http::{self, Page, State};
use crate::listen::ListenError;
use crate::metrics::ClusterMetrics;
use crate::options::Options;
use listener::Listener;
use pages::Pages;
use plan::Plan;
#[cfg(feature = "testing")]
pub use responder::Responder;

/// At its end a server waits for so long for answers of upstreams.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Time between two looks whether they have come.
const LOOK: Duration = Duration::from_millis(10);

/// Why a Corefile is not served. One line.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A server block cannot be served.
    #[error("{place}: {message}")]
    Block {
        /// File and line of the block.
        place: String,
        /// The problem.
        message: String,
    },
    /// A thread or the runtime cannot be made.
    #[error("start the {what}: {source}")]
    Machine {
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Starts servers.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Listens on all addresses of the Corefile and answers. `objects` has one writer; each answer is that
    /// of the objects at its time.
    ///
    /// # Errors
    /// Nothing is listened on then.
    pub fn start(
        corefile: &Corefile,
        objects: Arc<RwLock<Objects>>,
        options: Options,
    ) -> Result<Running, StartError> {
        let threads = options.threads.max(1);
        let mut builder = match threads {
            1 => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        let runtime = builder
            .worker_threads(threads)
            .thread_name("dns-runtime")
            .enable_all()
            .build();
        let runtime = Tasks::start(runtime.map_err(machine("runtime"))?)?;
        // One shard for each thread of an address, one for the tasks.
        let common = Common::new(objects, options, threads + 1, runtime.handle.clone());
        let mut running = Running {
            state: Arc::new(State::new(common.clone())),
            common,
            threads,
            listeners: BTreeMap::new(),
            pages: Pages::default(),
            background: Vec::new(),
            lameduck: Duration::ZERO,
            runtime,
        };
        running.apply(corefile)?;
        Ok(running)
    }
}

/// A server that answers. Dropping it stops it at once.
pub struct Running {
    common: Arc<Common>,
    state: Arc<State>,
    threads: usize,
    /// By the address that the Corefile asks for, whose port may be 0.
    listeners: BTreeMap<SocketAddr, Listener>,
    pages: Pages,
    /// Tasks of the present Corefile.
    background: Vec<JoinHandle<()>>,
    lameduck: Duration,
    runtime: Tasks,
}

impl Running {
    /// Serves another Corefile. Addresses that stay keep their sockets and connections: no query is lost.
    ///
    /// # Errors
    /// The old Corefile is served further then, and `coredns_reload_failed_total` counts it.
    pub fn reload(&mut self, corefile: &Corefile) -> Result<(), StartError> {
        let applied = self.apply(corefile);
        if applied.is_err() {
            self.count_failed_reload();
        }
        applied
    }

    /// Counts a changed Corefile that did not come to [`reload`](Self::reload), because it could not be read.
    pub fn count_failed_reload(&self) {
        self.common.metrics.reload_failures.inc();
    }

    /// Addresses and ports, UDP and TCP, that queries are answered on.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.values().map(Listener::address).collect()
    }

    /// Addresses of the pages /health, /ready and /metrics, by plugin: `health`, `ready`, `prometheus`.
    pub fn pages(&self) -> Vec<(&'static str, SocketAddr)> {
        self.pages.addresses()
    }

    /// Whether every plugin can answer: the state of /ready.
    pub fn is_ready(&self) -> bool {
        self.state.is_ready()
    }

    /// The metrics that the source of the cluster's objects updates.
    pub fn cluster_metrics(&self) -> ClusterMetrics {
        self.common.metrics.cluster.clone()
    }

    /// All metrics, for a program that serves them with its own.
    pub fn registry(&self) -> &Registry {
        self.common.metrics.registry()
    }

    /// Stops: /health and /ready say so, queries are answered for the time of `lameduck`, then nothing is
    /// listened on. Returns when that is done.
    pub fn stop(self) {
        self.state.stops.store(true, Ordering::Release);
        if !self.lameduck.is_zero() {
            tracing::info!(lameduck = ?self.lameduck, "stop");
            #[expect(clippy::disallowed_methods, reason = "lameduck is a time")]
            thread::sleep(self.lameduck);
        }
    }

    fn apply(&mut self, corefile: &Corefile) -> Result<(), StartError> {
        let plan = Plan::of(corefile, &self.common)?;
        let _context = self.runtime.handle.enter();
        // First everything that can fail. What is started and not needed stops when it is dropped.
        let mut started = BTreeMap::new();
        for (address, engine) in &plan.engines {
            if !self.listeners.contains_key(address) {
                let ours = self.listeners.values().chain(started.values());
                let listener = Listener::start(*address, engine, self.threads, ours)?;
                started.insert(*address, listener);
            }
        }
        let pages = self.pages.bind(&plan.pages, &self.state)?;
        self.state
            .needs_objects
            .store(plan.needs_objects, Ordering::Release);
        for (address, listener) in &self.listeners {
            if let Some(engine) = plan.engines.get(address) {
                listener.replace(engine.clone());
            }
        }
        self.listeners.retain(|it, _| plan.engines.contains_key(it));
        self.listeners.append(&mut started);
        self.pages.replace(pages, &plan.pages);
        self.lameduck = plan.lameduck;
        self.background.drain(..).for_each(|it| it.abort());
        self.background = self.tasks(&plan);
        plan.describe(&self.common.metrics);
        Ok(())
    }

    /// Starts the background tasks.
    fn tasks(&self, plan: &Plan) -> Vec<JoinHandle<()>> {
        let runtime = &self.runtime.handle;
        let mut tasks = Vec::new();
        for block in &plan.blocks {
            let upstream = block.upstream.clone();
            tasks.push(runtime.spawn(async move { upstream.probe().await }));
            let hosts = block.hosts.as_ref();
            if let Some((hosts, period)) = hosts.and_then(|it| Some((it, it.interval()?))) {
                let (hosts, common) = (hosts.clone(), self.common.clone());
                let blocks = plan.blocks.clone();
                tasks.push(runtime.spawn(async move {
                    loop {
                        tokio::time::sleep(period).await;
                        if hosts.refresh() {
                            common.files.fetch_add(1, Ordering::Release);
                            plan::count_hosts(&blocks, &common.metrics);
                        }
                    }
                }));
            }
        }
        for address in self.pages.of(Page::Health) {
            tasks.push(runtime.spawn(http::probe(address, self.common.clone())));
        }
        tasks
    }

    /// Waits for answers of upstreams that clients wait for.
    fn finish(&self) {
        let end = Instant::now() + LAST_ANSWERS;
        while self.common.metrics.ours.in_flight.get() > 0 && Instant::now() < end {
            #[expect(clippy::disallowed_methods, reason = "a counter tells nobody")]
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.state.stops.store(true, Ordering::Release);
        self.background.drain(..).for_each(|it| it.abort());
        self.listeners.values_mut().for_each(Listener::stop);
        self.finish();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("addresses", &self.addresses())
            .finish_non_exhaustive()
    }
}

/// The runtime, on a thread of its own.
struct Tasks {
    handle: Handle,
    /// Dropping it ends the runtime.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Tasks {
    fn start(runtime: Runtime) -> Result<Self, StartError> {
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let run = move || {
            let _ = runtime.block_on(stopped);
            // A task in a system call must not hold up the end.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("dns-tasks".into()).spawn(run);
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread.map_err(machine("thread of tasks"))?),
        })
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn machine(what: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::Machine { what, source }
}
