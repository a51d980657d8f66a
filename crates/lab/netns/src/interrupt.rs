//! Ctrl-C ends a command as an error does, so that what it made is removed.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// SIGINT and SIGTERM wait here; threads and programs that start later inherit this.
#[derive(Debug)]
pub struct Interrupt {
    signals: SigSet,
    received: SignalFd,
}

/// SIGINT or SIGTERM arrived.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted: namespaces, rules and processes are removed")]
pub struct Interrupted;

impl Interrupt {
    /// Holds the signals back from now on: nothing ends this process in the middle of a removal, however often a user
    /// presses Ctrl-C.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn new() -> anyhow::Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        signals.thread_block().context("block SIGINT and SIGTERM")?;
        let received =
            SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
        let received = received.context("open a file of signals")?;
        Ok(Self { signals, received })
    }

    /// Runs `task` with the signals as usual: a program that it starts inherits that.
    pub(crate) fn unblocked<T>(&self, task: impl FnOnce() -> T) -> anyhow::Result<T> {
        let set = |set: nix::Result<()>| set.context("set the mask of signals");
        set(self.signals.thread_unblock())?;
        let result = task();
        set(self.signals.thread_block())?;
        Ok(result)
    }

    /// Waits for `time` or a signal.
    ///
    /// # Errors
    ///
    /// [`Interrupted`]; else the system's.
    pub fn wait(&self, time: Duration) -> anyhow::Result<()> {
        let timeout = PollTimeout::try_from(time).context("a pause is too long")?;
        let mut fds = [PollFd::new(self.received.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout).context("wait")? {
            0 => Ok(()),
            _ => Err(Interrupted.into()),
        }
    }

    /// Waits for a line of the standard input.
    ///
    /// # Errors
    ///
    /// [`Interrupted`]; else the system's.
    pub fn wait_for_line(&self) -> anyhow::Result<()> {
        let stdin = io::stdin();
        let fds = [self.received.as_fd(), stdin.as_fd()];
        let mut fds = fds.map(|it| PollFd::new(it, PollFlags::POLLIN));
        poll(&mut fds, PollTimeout::NONE).context("wait")?;
        self.wait(Duration::ZERO)?;
        stdin.read_line(&mut String::new()).context("read a line")?;
        Ok(())
    }

    /// Waits for a signal or, on a terminal, for Enter.
    pub(crate) fn wait_for_end(&self) -> anyhow::Result<()> {
        let stdin = io::stdin();
        let mut fds = vec![PollFd::new(self.received.as_fd(), PollFlags::POLLIN)];
        if stdin.is_terminal() {
            fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        poll(&mut fds, PollTimeout::NONE).context("wait")?;
        // The signal that ended this wait interrupts nothing else.
        self.received.read_signal().context("read the signal")?;
        Ok(())
    }
}
