//! `sluice lab experiment`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use sluice_config::Mode;

/// `sluice lab experiment`.
#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// Which one
    #[arg(value_name = "NAME")]
    pub(crate) experiment: Option<String>,
    /// No pauses; also when this is no terminal
    #[arg(long)]
    pub(crate) fast: bool,
    /// Keep the lab
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) race: RaceArgs,
}

/// What the race measures.
#[derive(Debug, Args)]
#[command(next_help_heading = "Of the experiment `race`")]
pub(crate) struct RaceArgs {
    /// Numbers of Services [default: 10,1000,10000]
    #[arg(long, value_name = "COUNT,..", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) sizes: Vec<u32>,
    /// Data planes [default: all that this machine can run]
    #[arg(long, value_name = "MODE,..", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(Mode::ALL.map(Mode::name)))]
    pub(crate) modes: Vec<String>,
    /// Draw the result as a picture, too
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
}

impl RaceArgs {
    /// Whether any of them was given.
    pub(crate) fn is_given(&self) -> bool {
        !self.sizes.is_empty() || !self.modes.is_empty() || self.svg.is_some()
    }
}

/// `sluice lab alone`.
#[derive(Debug, Args)]
pub(crate) struct AloneArgs {
    /// A command of the lab
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

/// `sluice lab lap`.
#[derive(Debug, Args)]
pub(crate) struct LapArgs {
    pub(crate) mode: String,
    pub(crate) services: u32,
}
