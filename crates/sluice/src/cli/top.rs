//! The flags of `sluice top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sluice_config::interval;

use super::SOCKET;

/// `sluice top`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TopArgs {
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
    /// Time between two looks; longer where the agent takes more than a tenth of it to answer
    #[arg(short = 'd', long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
}
