//! `sluice lab`: a cluster of network namespaces on this machine.

use std::process::ExitCode;

use anyhow::Context;
use sluice_node::client;

use crate::cli::LabCommand;

pub(crate) fn run(command: &LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::Demo => {
            let program = std::env::current_exe().context("find the path of this program")?;
            sluice_lab::demo(&program, client::is_synced)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
