//! `sluice lab`: a cluster of network namespaces on this machine.

mod demo;
mod layout;

use std::process::ExitCode;

use crate::cli::LabCommand;

pub(crate) fn run(command: &LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::Demo => demo::run(),
    }
}
