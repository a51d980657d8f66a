//! `sluice bench`: the numbers of docs/benchmarks.md, measured on this machine.
//!
//! Each measurement stands beside a peer in the same run: what `nft -f` or `iptables-restore` needs
//! for the same rules, a connection without any Service. Kernel work is done in network namespaces of their own.

mod api;
mod changes;
mod connect;
mod iptables;
mod ipvs;
mod measure;
mod process;
mod start;
mod sync;
mod synthetic;

use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use sluice_lab::Netns;
use sluice_nftables::Counting;
use sluice_xtables::programs::Variant;

use crate::cli::{BenchArgs, BenchMode};

/// Measures and prints Markdown tables.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if !sluice_lab::netns_available() {
        bail!("benchmarks write rules in network namespaces: run as root");
    }
    println!(
        "Services x {} endpoints, IPv4, one TCP port.\n",
        synthetic::ENDPOINTS
    );
    let sizes = args.sizes();
    match args.proxy_mode {
        BenchMode::Nftables => {
            let counting = args.counting();
            sync::run(&sizes, counting)?;
            start::run(&sizes, Plane::Nftables(counting))?;
            api::run()?;
            connect::run(&sizes, Plane::Nftables(counting))?;
        }
        BenchMode::Iptables => {
            for variant in Variant::ALL {
                iptables::run(&sizes, variant)?;
                start::run(&sizes, Plane::Iptables(variant))?;
                connect::run(&sizes, Plane::Iptables(variant))?;
            }
        }
        BenchMode::Ipvs => ipvs::run(&sizes)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is measured from outside.
#[derive(Clone, Copy, Debug)]
enum Plane {
    Nftables(Counting),
    Iptables(Variant),
}

impl Plane {
    /// Flags of the agent.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Nftables(Counting::Nothing) => &[],
            Self::Nftables(Counting::Connections) => &["--count-connections"],
            Self::Iptables(_) => &["--proxy-mode", "iptables"],
        }
    }

    /// Leaves the kubelet's hint, which decides the variant.
    fn prepare(self, node: &Netns) -> anyhow::Result<()> {
        if let Self::Iptables(variant) = self {
            let program = format!("iptables-{variant}");
            let hint = ["-w", "5", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"];
            let status = node.command(&program, &hint).status();
            let status = status.with_context(|| format!("run {program}"))?;
            ensure!(status.success(), "{program} refused the kubelet's hint");
        }
        Ok(())
    }
}
