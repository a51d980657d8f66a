//! The programs that run for this process: who asks what it waits for, and who ends them, is another thread.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

struct Running {
    /// The process group of the program.
    group: Pid,
    /// The program and its arguments.
    what: String,
    since: Instant,
}

fn all() -> MutexGuard<'static, Vec<Running>> {
    // Nothing panics with the lock held.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program that runs for the longest time, with its arguments, and how long.
pub fn running() -> Option<(String, Duration)> {
    let all = all();
    let oldest = all.iter().min_by_key(|it| it.since)?;
    Some((oldest.what.clone(), oldest.since.elapsed()))
}

/// Kills all programs that run, with everything that they started. A program's transaction is in the kernel whole or not
/// at all.
pub fn end_all() {
    for it in all().iter() {
        // It may have ended, and is not reaped while it is listed.
        let _ = killpg(it.group, Signal::SIGKILL);
    }
}

/// A program is listed until this is dropped, which has to be before it is reaped.
pub(super) struct Listed(Pid);

impl Listed {
    pub(super) fn new(group: Pid, what: String) -> Self {
        all().push(Running {
            group,
            what,
            since: Instant::now(),
        });
        Self(group)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        all().retain(|it| it.group != self.0);
    }
}
