//! Connections of Services and endpoints, as the data plane counts them.
//!
//! ```text
//! GET /metrics, GET /connections ─▶ Connections::refresh ─▶ Counters::read   the kernel
//!                                                        ├▶ Input::Plans     whose frontends
//!                                                        └▶ Ledger::absorb   totals that only grow
//! ```
//!
//! Totals begin at zero when the agent starts: what the kernel had counted before is read once, as
//! the mark from which counting goes on.

mod collector;
mod ledger;
mod report;
#[cfg(test)]
mod tests;

use std::sync::mpsc::{Sender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use sluice_plane::{Counters, Reading};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::agent::{Input, chain};
pub(crate) use collector::ConnectionCollector;
use ledger::Ledger;
pub use report::{EndpointConnections, ServiceConnections};

/// Shortest time between two readings.
const PERIOD: Duration = Duration::from_secs(10);
/// A reading that takes long makes the next one wait this many times as long: a large data plane
/// is not read all the time.
const REST: u32 = 10;
/// How long who asks waits for a reading; then the totals of the last one have to do. Prometheus
/// gives up after ten seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the agent may take to say what it planned: it answers between two syncs.
const PLANS_WITHIN: Duration = Duration::from_secs(10);
/// Attempts to read all counters for the mark. What it misses would count as new.
const MARK_ATTEMPTS: usize = 5;

/// Counts connections. Shared by all who show the counts; no call waits for another's reading.
#[derive(Debug)]
pub struct Connections {
    inputs: Sender<Input>,
    meter: Mutex<Meter>,
    ledger: Mutex<Ledger>,
}

/// What a reading needs; locked while one is going on.
struct Meter {
    counters: Box<dyn Counters>,
    /// The mark has been read.
    begun: bool,
    /// When the next reading may begin; `None` at once.
    next: Option<Instant>,
    failing: bool,
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").finish_non_exhaustive()
    }
}

impl Connections {
    /// Counts what `counters` shows from now on; reads the mark on a thread of its own.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(counters: Box<dyn Counters>, inputs: Sender<Input>) -> io::Result<Arc<Self>> {
        let connections = Arc::new(Self::new(counters, inputs));
        let own = connections.clone();
        let builder = thread::Builder::new().name("connections".into());
        builder.spawn(move || own.begin())?;
        Ok(connections)
    }

    fn new(counters: Box<dyn Counters>, inputs: Sender<Input>) -> Self {
        Self {
            inputs,
            meter: Mutex::new(Meter {
                counters,
                begun: false,
                next: None,
                failing: false,
            }),
            ledger: Mutex::default(),
        }
    }

    /// Reads the counters, unless they were read a short while ago. A reading that takes long goes
    /// on after this has returned.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let own = self.clone();
        let reading = tokio::task::spawn_blocking(move || own.read_if_due(Instant::now()));
        // What is shown then is older, and says nothing wrong.
        let _ = timeout(PATIENCE, reading).await;
    }

    /// Every service port with its connections, those with most first.
    pub(crate) fn report(&self) -> Vec<ServiceConnections> {
        report::of(&self.ledger())
    }

    fn begin(&self) {
        if let Ok(mut meter) = self.meter.try_lock() {
            let result = self.mark(&mut meter);
            said(&mut meter, result);
        }
    }

    fn read_if_due(&self, now: Instant) {
        // Somebody is reading: what that finds is as new.
        let Ok(mut meter) = self.meter.try_lock() else {
            return;
        };
        if meter.next.is_some_and(|it| now < it) {
            return;
        }
        let started = Instant::now();
        let result = self.read(&mut meter);
        let rest = (started.elapsed() * REST).max(PERIOD);
        meter.next = Some(now + rest);
        said(&mut meter, result);
    }

    fn mark(&self, meter: &mut Meter) -> Result<(), String> {
        if meter.begun {
            return Ok(());
        }
        let mut attempt = 1;
        let reading = loop {
            let reading = read_once(meter)?;
            if reading.is_complete || attempt == MARK_ATTEMPTS {
                break reading;
            }
            attempt += 1;
        };
        self.ledger().mark(&reading);
        meter.begun = true;
        Ok(())
    }

    fn read(&self, meter: &mut Meter) -> Result<(), String> {
        self.mark(meter)?;
        let reading = read_once(meter)?;
        let (reply, answer) = sync_channel(1);
        let stopped = || "the agent is stopping".to_owned();
        let asked = self.inputs.send(Input::Plans(reply));
        asked.map_err(|_| stopped())?;
        let plans = answer.recv_timeout(PLANS_WITHIN);
        let plans = plans.map_err(|_| "the agent is busy with a sync".to_owned())?;
        self.ledger().absorb(&plans, &reading);
        Ok(())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A panic ends the process; until then older totals are no worse.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_once(meter: &mut Meter) -> Result<Reading, String> {
    meter.counters.read().map_err(|error| chain(&error))
}

/// Logs a change from working to failing and back.
fn said(meter: &mut Meter, result: Result<(), String>) {
    match (result, meter.failing) {
        (Ok(()), true) => info!("connections are counted again"),
        (Err(error), false) => warn!(
            error,
            "connections cannot be counted: their metrics stay as they are"
        ),
        (Ok(()), false) | (Err(_), true) => return,
    }
    meter.failing = !meter.failing;
}
