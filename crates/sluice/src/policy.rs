//! `sluice policy`: answers about network policies, of the running agent or of a plan of our own.

mod diff;
mod matrix;
mod wait;
mod watch;

use std::fmt::Display;
use std::process::ExitCode;

use crate::cli::{PolicyArgs, PolicyCommand};

/// Runs a command about policies.
pub(crate) fn run(args: &PolicyArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        PolicyCommand::Diff(args) => diff::run(args),
        PolicyCommand::Matrix(args) => matrix::run(args),
        PolicyCommand::Wait(args) => wait::run(args),
        PolicyCommand::Watch(args) => watch::run(args),
    }
}

fn texts<T: Display>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}
