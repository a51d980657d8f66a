//! `sluice dns`: the cluster's DNS server.
//!
//! ```text
//! Corefile ─▶ corefile: valid configuration ─┬─▶ source: objects of the cluster ─▶ Objects
//!                                            └─▶ sluice_dns::Server ◀──────────────────┘
//! ```

mod corefile;
mod query;
mod reported;
pub(crate) mod resolver;
mod serve;
mod served;
mod source;

use std::process::ExitCode;

use crate::cli::{DnsArgs, DnsCommand};

pub(crate) use corefile::{check as check_corefile, parse as parse_corefile, read_file};
pub(crate) use served::Served;
pub(crate) use source::{PathsOfPods, absorb};

/// Serves, or answers one question.
pub(crate) fn run(args: &DnsArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => serve::run(&args.serve),
        Some(DnsCommand::Query(args)) => query::run(args),
    }
}
