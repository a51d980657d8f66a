//! `sluice-bench`: the numbers of docs/benchmarks.md, measured on this machine.
//!
//! Each measurement has a peer in the same run: `nft -f` or `iptables-restore` with the same rules,
//! or a connection without a Service. Every measurement runs in its own network namespaces.

mod api;
mod changes;
mod connect;
mod dns;
mod ebpf;
mod folder;
mod hostile;
mod iptables;
mod ipvs;
mod measure;
mod names;
mod path;
mod pins;
mod policy;
mod process;
mod programs;
mod restart;
mod start;
mod sync;
mod synthetic;
mod traffic;

use std::env;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::{Parser, ValueEnum};
use sluice_lab::Netns;
use sluice_nftables::Counting;
use sluice_xtables::programs::Variant;

/// Measure syncs, changes, starts and connections on this machine (needs root)
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  sluice-bench
  sluice-bench --services 1000
  sluice-bench hostile
  sluice-bench dns
  sluice-bench --proxy-mode iptables")]
struct Args {
    /// Measure this alone
    #[arg(value_enum, value_name = "WHAT")]
    only: Option<Only>,
    /// Which data plane
    #[arg(long, value_enum, value_name = "MODE", default_value = "nftables")]
    proxy_mode: Mode,
    /// How many Services [default: 1,1000,10000,50000; 1,1000,5000 in the iptables mode]
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=60_000))]
    services: Vec<u32>,
    /// Measure a data plane that counts connections, as with `sluice proxy --count-connections`
    #[arg(long)]
    count_connections: bool,
    /// The agent to measure [default: sluice beside this program]
    #[arg(long, value_name = "PATH")]
    sluice: Option<PathBuf>,
}

/// A measurement of its own, with the data planes that it is about.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Only {
    /// A change of one file, and a start, in a quiet folder of manifests and in a busy one
    Folder,
    /// One tenant's huge objects beside another's small change
    Hostile,
    /// The DNS server: changes, queries a second, their latency, memory (needs dnsperf)
    Dns,
    /// Network policies: the first rules, a pod's label, one more policy
    Policy,
    /// What each way through the programs of packets costs in the ebpf mode
    Programs,
}

/// A data plane that can be measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Beside `nft -f`
    Nftables,
    /// Both variants, beside `iptables-restore`
    Iptables,
    /// Where the kernel has it
    Ipvs,
    /// Programs at the interfaces
    Ebpf,
}

impl Args {
    /// The number of Services of each run.
    fn sizes(&self) -> Vec<u32> {
        match (self.services.as_slice(), self.proxy_mode) {
            ([], Mode::Iptables) => vec![1, 1_000, 5_000],
            ([], Mode::Nftables | Mode::Ipvs | Mode::Ebpf) => vec![1, 1_000, 10_000, 50_000],
            (sizes, _) => sizes.to_vec(),
        }
    }

    /// Whether the data plane counts connections.
    fn counting(&self) -> Counting {
        if self.count_connections {
            Counting::Connections
        } else {
            Counting::Nothing
        }
    }

    /// The agent to measure.
    fn program(&self) -> anyhow::Result<PathBuf> {
        let program = match &self.sluice {
            Some(path) => path.clone(),
            None => env::current_exe()
                .context("find the path of this program")?
                .with_file_name("sluice"),
        };
        let name = program.display();
        ensure!(
            program.is_file(),
            "{name}: no such file: build it first, or name it by --sluice"
        );
        Ok(program)
    }
}

/// Prints Markdown tables.
fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if !sluice_lab::netns_available() {
        bail!("benchmarks write rules in network namespaces: run as root");
    }
    match args.only {
        Some(Only::Folder) => return folder::run(&args.program()?),
        Some(Only::Hostile) => return hostile::run(),
        Some(Only::Dns) => {
            names::run()?;
            return dns::run(&args.program()?);
        }
        Some(Only::Policy) => return policy::run(),
        Some(Only::Programs) => return programs::run(),
        None => {}
    }
    println!(
        "Services x {} endpoints, IPv4, one TCP port.\n",
        synthetic::ENDPOINTS
    );
    let sizes = args.sizes();
    let program = args.program()?;
    match args.proxy_mode {
        Mode::Nftables => {
            let counting = args.counting();
            sync::run(&sizes, counting)?;
            start::run(&program, &sizes, Plane::Nftables(counting))?;
            api::run(&program)?;
            connect::run(&sizes, Plane::Nftables(counting))?;
        }
        Mode::Iptables => {
            for variant in Variant::ALL {
                iptables::run(&sizes, variant)?;
                start::run(&program, &sizes, Plane::Iptables(variant))?;
                connect::run(&sizes, Plane::Iptables(variant))?;
            }
        }
        Mode::Ipvs => ipvs::run(&sizes)?,
        Mode::Ebpf => {
            ebpf::run(&sizes)?;
            programs::run()?;
            path::run()?;
            start::run(&program, &sizes, Plane::Ebpf)?;
            connect::run(&sizes, Plane::Ebpf)?;
        }
    }
    Ok(())
}

/// The data plane of an agent or of a connection.
#[derive(Clone, Copy, Debug)]
enum Plane {
    Nftables(Counting),
    Iptables(Variant),
    Ebpf,
}

impl Plane {
    /// Flags of the agent.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Nftables(Counting::Nothing) => &[],
            Self::Nftables(Counting::Connections) => &["--count-connections"],
            Self::Iptables(_) => &["--proxy-mode", "iptables"],
            Self::Ebpf => &["--proxy-mode", "ebpf"],
        }
    }

    /// Creates the kubelet's hint chain, which decides the variant of iptables.
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
