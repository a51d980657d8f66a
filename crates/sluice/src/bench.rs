//! `sluice bench`: the numbers of docs/benchmarks.md, measured on this machine.
//!
//! Each measurement stands beside a peer in the same run: what `nft -f` needs for the same rules,
//! a connection without any Service. Kernel work is done in network namespaces of their own.

mod api;
mod connect;
mod measure;
mod process;
mod start;
mod sync;
mod synthetic;

use std::process::ExitCode;

use anyhow::bail;

use crate::cli::BenchArgs;

/// Measures and prints Markdown tables.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if !sluice_lab::netns_available() {
        bail!("benchmarks write rules in network namespaces: run as root");
    }
    println!(
        "Services x {} endpoints, IPv4, one TCP port.\n",
        synthetic::ENDPOINTS
    );
    let counting = args.counting();
    sync::run(&args.services, counting)?;
    start::run(&args.services, counting)?;
    api::run()?;
    connect::run(&args.services, counting)?;
    Ok(ExitCode::SUCCESS)
}
