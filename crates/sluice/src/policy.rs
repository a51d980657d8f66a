//! `sluice policy`: questions about network policies.

mod wait;
mod watch;

use std::process::ExitCode;

use crate::cli::{PolicyArgs, PolicyCommand};

/// Runs a command about policies.
pub(crate) fn run(args: &PolicyArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        PolicyCommand::Wait(args) => wait::run(args),
        PolicyCommand::Watch(args) => watch::run(args),
    }
}
