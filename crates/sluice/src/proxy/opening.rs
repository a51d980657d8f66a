//! A signal while the data plane is opened, before there are servers.

use std::io;
use std::os::fd::AsFd;
use std::process;
use std::thread;

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use tracing::info;

/// Opens a data plane. SIGTERM and SIGINT end the process, and with it the programs that it waits for. The thread that
/// listens ends before this returns: privileges belong to threads.
pub(super) fn interruptible<T>(open: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    let arrived = SignalFd::new(&signals).context("watch signals")?;
    signals.thread_block().context("watch signals")?;
    let (ends, done) = io::pipe().context("watch signals")?;
    let opened = thread::scope(|scope| {
        scope.spawn(|| end_at(&arrived, &ends));
        let opened = open();
        drop(done);
        opened
    });
    signals.thread_unblock().context("watch signals")?;
    opened
}

/// Waits for the first of both, and ends the process if it is a signal.
fn end_at(arrived: &SignalFd, done: &io::PipeReader) {
    let mut both = [arrived.as_fd(), done.as_fd()].map(|it| PollFd::new(it, PollFlags::POLLIN));
    while poll(&mut both, PollTimeout::NONE) == Err(Errno::EINTR) {}
    if both[0].any() == Some(true)
        && let Ok(Some(signal)) = arrived.read_signal()
    {
        info!(signal = signal.ssi_signo, "asked to stop");
        sluice_plane::end_programs();
        #[expect(
            clippy::disallowed_methods,
            reason = "the main thread waits for a program"
        )]
        process::exit(0);
    }
}
