//! Connections of Services and endpoints, as the data plane counts them.
//!
//! ```text
//! GET /metrics, GET /connections ─▶ Connections::refresh ─▶ Counters::read   the kernel's counters
//!                                                        ├▶ Plans            owners of frontends
//!                                                        └▶ Ledger::absorb   totals that only grow
//! ```
//!
//! Totals begin at zero when the agent starts: a first reading gives the values from which counting
//! begins.

mod ledger;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use sluice_node::chain;
use sluice_plane::{Counters, Reading};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::questions::Plans;
use ledger::Ledger;
pub use report::{EndpointConnections, ServiceConnections};

/// Shortest time between two readings for Prometheus.
pub(crate) const FOR_METRICS: Duration = Duration::from_secs(10);
/// The same for people: pages ask once a second.
pub(crate) const FOR_PEOPLE: Duration = Duration::from_millis(500);
/// After a reading, the next one waits for this many times its duration, so that reading a large
/// data plane takes at most a tenth of the time.
const PAUSE_FACTOR: u32 = 10;
/// How long a request waits for a reading before it gets the totals of the last one. Prometheus
/// gives up after ten seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of the agent's answer, which it gives between two syncs.
const PLANS_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts to read all counters at the start. A counter that is missing there counts as new.
const BASELINE_ATTEMPTS: usize = 5;

/// The connections of a data plane, shared by all readers; no call waits for another call's reading.
pub struct Connections {
    plans: Plans,
    reader: Mutex<Reader>,
    ledger: Mutex<Ledger>,
}

/// Locked during a reading.
struct Reader {
    counters: Box<dyn Counters>,
    has_baseline: bool,
    /// Begin and duration of the last reading; `None` before the first.
    last: Option<(Instant, Duration)>,
    failing: bool,
}

impl Connections {
    /// Counts from now on; a thread of its own takes the first reading.
    ///
    /// # Errors
    ///
    /// No thread could be started.
    pub fn start(counters: Box<dyn Counters>, plans: Plans) -> io::Result<Arc<Self>> {
        let connections = Arc::new(Self::new(counters, plans));
        let own = connections.clone();
        let builder = thread::Builder::new().name("connections".into());
        builder.spawn(move || own.begin())?;
        Ok(connections)
    }

    fn new(counters: Box<dyn Counters>, plans: Plans) -> Self {
        Self {
            plans,
            reader: Mutex::new(Reader {
                counters,
                has_baseline: false,
                last: None,
                failing: false,
            }),
            ledger: Mutex::default(),
        }
    }

    /// Reads the counters if the last reading is older than `period`. A reading that takes longer than
    /// [`READ_TIMEOUT`] goes on after this has returned.
    pub(crate) async fn refresh(self: &Arc<Self>, period: Duration) {
        let own = self.clone();
        let reading = tokio::task::spawn_blocking(move || own.read_if_due(period, Instant::now()));
        let _ = timeout(READ_TIMEOUT, reading).await;
    }

    /// Every service port with its connections, the largest number first.
    pub(crate) fn report(&self) -> Vec<ServiceConnections> {
        report::of(&self.ledger())
    }

    /// The connections of one Service, by `namespace/name`.
    pub(crate) fn report_of(&self, service: &str) -> Vec<ServiceConnections> {
        let mut all = self.report();
        all.retain(|it| format!("{}/{}", it.namespace, it.service) == service);
        all
    }

    /// Connections of each Service by `namespace/name`, without those that are 0.
    pub(crate) fn totals(&self) -> BTreeMap<String, u64> {
        let mut totals = BTreeMap::new();
        for (key, total) in self.ledger().totals() {
            if total.connections > 0 {
                *totals.entry(key.name.service.to_string()).or_default() += total.connections;
            }
        }
        totals
    }

    /// Number of readings so far: the totals change only when it grows.
    pub(crate) fn readings(&self) -> u64 {
        self.ledger().readings()
    }

    fn begin(&self) {
        if let Ok(mut reader) = self.reader.try_lock() {
            let result = self.read_baseline(&mut reader);
            reader.log(result);
        }
    }

    fn read_if_due(&self, period: Duration, now: Instant) {
        // Another thread is reading: its result is as new.
        let Ok(mut reader) = self.reader.try_lock() else {
            return;
        };
        if reader
            .last
            .is_some_and(|(begin, took)| now < begin + period.max(took * PAUSE_FACTOR))
        {
            return;
        }
        let started = Instant::now();
        let result = self.read(&mut reader);
        reader.last = Some((now, started.elapsed()));
        reader.log(result);
    }

    fn read_baseline(&self, reader: &mut Reader) -> Result<(), String> {
        if reader.has_baseline {
            return Ok(());
        }
        let mut reading = reader.read()?;
        for _ in 1..BASELINE_ATTEMPTS {
            if !reading.is_complete {
                reading = reader.read()?;
            }
        }
        self.ledger().set_baseline(&reading);
        reader.has_baseline = true;
        Ok(())
    }

    fn read(&self, reader: &mut Reader) -> Result<(), String> {
        self.read_baseline(reader)?;
        let reading = reader.read()?;
        let (reply, answer) = sync_channel(1);
        let asked = self.plans.tell(move |facts| {
            let plans = facts.planner().plan().ports.values().cloned();
            // The channel has room for the one answer; the reader may have gone away.
            let _ = reply.try_send(plans.collect::<Vec<_>>());
        });
        if !asked {
            return Err("the agent is stopping".to_owned());
        }
        let plans = answer.recv_timeout(PLANS_TIMEOUT);
        let plans = plans.map_err(|_| "the agent is busy with a sync".to_owned())?;
        self.ledger().absorb(&plans, &reading);
        Ok(())
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A panic ends the process; until then older totals do no harm.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    fn read(&mut self) -> Result<Reading, String> {
        self.counters.read().map_err(|error| chain(&error))
    }

    /// Logs when readings begin to fail, and when they succeed again.
    fn log(&mut self, result: Result<(), String>) {
        match (result, self.failing) {
            (Ok(()), true) => info!("connections are counted again"),
            (Err(error), false) => warn!(
                error,
                "connections cannot be counted: their metrics stay as they are"
            ),
            (Ok(()), false) | (Err(_), true) => return,
        }
        self.failing = !self.failing;
    }
}
