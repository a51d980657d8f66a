//! `sluice lab pcap`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use sluice_cluster::probe::Request;

use super::Namespaced;

/// `sluice lab pcap`.
#[derive(Debug, Args)]
pub(crate) struct PcapArgs {
    #[command(flatten)]
    pub(crate) at: Namespaced,
    /// Nodes, pods, or `client`
    #[arg(value_name = "MACHINE", required = true)]
    pub(crate) machines: Vec<String>,
    /// Send one request meanwhile, as `sluice lab probe` does, and end with the answer
    #[arg(long, num_args = 2, value_names = ["FROM", "TO"])]
    pub(crate) probe: Vec<String>,
    /// Write the packets to this file, for tcpdump and Wireshark; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) wanted: WantedArgs,
}

/// Which packets, and how they are shown.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub(crate) struct WantedArgs {
    /// Only packets from or to one of these addresses
    #[arg(long, value_name = "IP,..", value_delimiter = ',')]
    pub(crate) host: Vec<IpAddr>,
    /// Only packets from or to one of these ports
    #[arg(long, value_name = "PORT,..", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,
    /// Only packets of this protocol
    #[arg(long, value_name = "PROTOCOL", value_parser = ["tcp", "udp", "icmp", "icmp6", "arp"])]
    pub(crate) protocol: Option<String>,
    /// End after so many packets
    #[arg(short, long, value_name = "COUNT")]
    pub(crate) count: Option<u64>,
    /// Lines or a file of packets [default: lines on a terminal, else a file of packets]
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<PcapFormat>,
}

/// How packets are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum PcapFormat {
    /// A line for each packet
    Text,
    /// A file of packets (pcapng)
    Pcap,
}

/// `sluice lab capture`.
#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    #[arg(value_parser = super::json::<Task>)]
    pub(crate) task: Task,
}

/// What is captured in the lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// What a user calls a machine, and its network namespace.
    pub(crate) machines: Vec<(String, String)>,
    /// A request that is sent meanwhile, from this network namespace.
    pub(crate) request: Option<(String, Request)>,
    pub(crate) wanted: WantedArgs,
}
