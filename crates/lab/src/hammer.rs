//! A client that never pauses, to see whether a change hurts anybody.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{LabError, Netns, Outcome, Probe, Spread};

/// Asks the same question without pause, from fresh source ports, until it is stopped or dropped.
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
}

/// What a [`Hammer`] met.
#[derive(Clone, Debug, Default)]
pub struct HammerReport {
    /// How many questions it asked.
    pub attempts: u64,
    /// Everything that was not an answer, with the time since the start when it was over.
    pub failures: Vec<(Duration, Outcome)>,
    /// Who answered how often; failures included.
    pub spread: Spread,
    /// The longest time a question took: a lost SYN is no failure, but a second lost.
    pub slowest: Duration,
    /// From start to stop.
    pub elapsed: Duration,
}

impl Hammer {
    /// Starts asking from inside `netns`.
    ///
    /// # Errors
    /// [`LabError::Io`] when no thread can be started.
    pub fn start(netns: &Netns, probe: Probe) -> Result<Self, LabError> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = netns.spawn(move || theirs.hammer(probe))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// How many questions were asked so far: wait for it to grow instead of for time to pass.
    pub fn attempts(&self) -> u64 {
        self.shared.attempts.load(Ordering::Relaxed)
    }

    /// Stops after the question that is being asked.
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
            let asked = Instant::now();
            let outcome = probe.ask();
            report.slowest = report.slowest.max(asked.elapsed());
            if outcome.name().is_none() {
                report.failures.push((start.elapsed(), outcome.clone()));
            }
            report.spread.add(outcome);
            report.attempts += 1;
            self.attempts.store(report.attempts, Ordering::Relaxed);
        }
        report.elapsed = start.elapsed();
        report
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
