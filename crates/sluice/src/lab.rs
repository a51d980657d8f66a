//! `sluice lab`: a cluster of network namespaces on this machine.

mod agents;
mod demo;
mod layout;

use std::process::ExitCode;

pub(crate) use agents::Agent;

use crate::cli::LabCommand;

pub(crate) fn run(command: &LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::Demo => demo::run(),
    }
}
