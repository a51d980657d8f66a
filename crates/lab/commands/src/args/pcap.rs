//! `sluice lab pcap`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
#[derive(Debug, Args)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PcapFormat {
    /// A line for each packet
    Text,
    /// A file of packets (pcapng)
    Pcap,
}

/// `sluice lab capture`.
#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// What a user calls a machine, and its namespace
    #[arg(long = "machine", value_name = "NAME=LABEL", value_parser = pair)]
    pub(crate) machines: Vec<(String, String)>,
    /// From which namespace a request is sent
    #[arg(long, requires = "target")]
    pub(crate) from: Option<String>,
    #[arg(long)]
    pub(crate) target: Option<SocketAddr>,
    #[arg(long)]
    pub(crate) udp: bool,
    #[command(flatten)]
    pub(crate) wanted: WantedArgs,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let pair = pair.ok_or_else(|| format!("{text}: NAME=LABEL"))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}
