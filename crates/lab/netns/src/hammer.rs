//! A client that sends requests without pause, to find requests that fail during a change.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{LabError, Netns, Outcome, Probe, Spread};

/// Repeats one request without pause, from fresh source ports, until it is stopped or dropped.
#[derive(Debug)]
pub struct Hammer {
    shared: Arc<Shared>,
    /// `None` once it was joined.
    thread: Option<JoinHandle<HammerReport>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    attempts: AtomicU64,
    spread: Mutex<Spread>,
}

/// The results of a [`Hammer`].
#[derive(Clone, Debug, Default)]
pub struct HammerReport {
    /// Number of requests.
    pub attempts: u64,
    /// Every request without an answer, with its end as time since the start.
    pub failures: Vec<(Duration, Outcome)>,
    /// Counts of answers per server, and of failures.
    pub spread: Spread,
    /// Duration of the slowest request: a lost SYN is not a failure, but costs one second.
    pub slowest: Duration,
    /// From start to stop.
    pub elapsed: Duration,
}

impl Hammer {
    /// Starts to send requests from inside `netns`.
    ///
    /// # Errors
    /// [`LabError::Io`] when no thread can be started.
    pub fn start(netns: &Netns, probe: Probe) -> Result<Self, LabError> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = netns.spawn(move || of_thread.hammer(probe))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Number of requests so far: a test waits for this number, not for time to pass.
    pub fn attempts(&self) -> u64 {
        self.shared.attempts.load(Ordering::Relaxed)
    }

    /// Counts of answers so far.
    pub fn spread(&self) -> Spread {
        self.shared.spread().clone()
    }

    /// Stops after the current request.
    pub fn stop(mut self) -> HammerReport {
        self.join().expect("a fresh hammer has a thread")
    }

    fn join(&mut self) -> Option<HammerReport> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let result = self.thread.take()?.join();
        Some(result.unwrap_or_else(|payload| std::panic::resume_unwind(payload)))
    }
}

impl Drop for Hammer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            eprintln!("lab: a hammer panicked");
        }
    }
}

impl Shared {
    fn hammer(&self, probe: Probe) -> HammerReport {
        let start = Instant::now();
        let mut report = HammerReport::default();
        while !self.stop.load(Ordering::Relaxed) {
            let sent = Instant::now();
            let outcome = probe.ask();
            report.slowest = report.slowest.max(sent.elapsed());
            if outcome.name().is_none() {
                report.failures.push((start.elapsed(), outcome.clone()));
            }
            self.spread().add(outcome);
            report.attempts += 1;
            self.attempts.store(report.attempts, Ordering::Relaxed);
        }
        report.elapsed = start.elapsed();
        report.spread = self.spread().clone();
        report
    }

    fn spread(&self) -> std::sync::MutexGuard<'_, Spread> {
        self.spread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for HammerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            attempts,
            failures,
            spread,
            slowest,
            elapsed,
        } = self;
        writeln!(
            f,
            "{attempts} attempts in {elapsed:.1?}, {} failed, slowest {slowest:.1?}",
            failures.len()
        )?;
        for (when, outcome) in failures.iter().take(10) {
            writeln!(f, "  at {when:.3?}: {outcome}")?;
        }
        write!(f, "{spread}")
    }
}
