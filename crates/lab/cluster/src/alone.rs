//! Runs a program in namespaces of its own, without a lab: measurements that must leave nothing behind.
//!
//! ```text
//! caller ─▶ sluice lab alone: new namespaces ─▶ process 1 of them: all the work
//! ```
//!
//! Each ends when the one before it ends, however that happens, and process 1 takes every other process, namespace and
//! mount with it.

use std::io;
use std::os::fd::AsFd as _;
use std::process::{Command, ExitStatus};

use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getuid;

use crate::launch::{isolate, prepare_mounts};

/// Runs `command` as process 1 of new namespaces. This process must have one thread, and can do so once. Its stdin is a
/// pipe that the caller holds open.
///
/// # Errors
///
/// The kernel refuses the namespaces: the message says what to do.
pub fn run(command: &mut Command) -> anyhow::Result<ExitStatus> {
    isolate(!getuid().is_root())?;
    // Only now: a process that entered a user namespace can no longer be killed from outside of it.
    end_with_parent()?;
    let name = command.get_program().display().to_string();
    command.status().context(name)
}

/// The first steps of process 1: its mounts, and its end with the caller.
///
/// # Errors
///
/// A mount is refused.
pub fn begin() -> anyhow::Result<()> {
    end_with_parent()?;
    prepare_mounts()
}

fn end_with_parent() -> anyhow::Result<()> {
    set_pdeathsig(Signal::SIGKILL).context("follow the process that started this one")?;
    // The parent may have ended just before: then the other end of stdin is closed.
    let stdin = io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO).context("look at stdin")?;
    let events = fds[0].revents().unwrap_or(PollFlags::empty());
    if events.contains(PollFlags::POLLHUP) {
        bail!("the process that started this one has ended");
    }
    Ok(())
}
