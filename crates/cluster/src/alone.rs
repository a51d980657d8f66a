//! A program in namespaces of its own, without a lab: measurements that must leave nothing.
//!
//! ```text
//! caller ─▶ sluice lab alone: new namespaces ─▶ process 1 of them: all the work
//! ```
//!
//! Each ends when the one before it ends, however that happens, and process 1 takes every other process, namespace and
//! mount with it.

use std::process::{Command, ExitStatus};

use anyhow::Context;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getuid;

use crate::launch::{isolate, prepare_mounts};

/// Runs `command` as process 1 of new namespaces. This process must have one thread, and can do it once.
///
/// # Errors
///
/// The namespaces are refused: the message says what to do.
pub fn run(command: &mut Command) -> anyhow::Result<ExitStatus> {
    end_with_parent()?;
    isolate(!getuid().is_root())?;
    let name = command.get_program().display().to_string();
    command.status().context(name)
}

/// What process 1 does first.
///
/// # Errors
///
/// A mount is refused.
pub fn begin() -> anyhow::Result<()> {
    end_with_parent()?;
    prepare_mounts()
}

fn end_with_parent() -> anyhow::Result<()> {
    set_pdeathsig(Signal::SIGKILL).context("follow the process that started this one")
}
