//! The flags of the ebpf mode.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::flags::Heading;

/// The flags of the ebpf mode.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = Heading::Ebpf.title())]
pub(crate) struct EbpfArgs {
    /// Interfaces whose packets pass the programs, as in `eth*,cali*,!docker*`: those of the network and
    /// those of pods; loopback always [default: all]
    #[arg(long, value_name = "PATTERN,..", value_delimiter = ',')]
    pub(crate) ebpf_interfaces: Option<Vec<String>>,
    /// Which clients on this node are led to an endpoint when they connect, so that none of their packets is
    /// rewritten [default: tcp]
    #[arg(long, value_name = "WHICH")]
    pub(crate) ebpf_sockets: Option<SocketsArg>,
    /// Which of these sockets are ended when their endpoint serves no more [default: udp]
    #[arg(long, value_name = "WHICH")]
    pub(crate) ebpf_end_sockets: Option<EndedArg>,
    /// The cgroup of these clients [default: the machine's, in the machine's own network namespace]
    #[arg(long, value_name = "DIR")]
    pub(crate) ebpf_cgroup: Option<PathBuf>,
    /// Which Services have direct server return: packets from outside reach endpoints of other nodes with
    /// the client's address, through a tunnel, and the reply does not come back this way [default: off]
    #[arg(long, value_name = "WHICH")]
    pub(crate) ebpf_dsr: Option<DsrArg>,
    /// Clients that get no direct server return
    #[arg(long, value_name = "CIDR,..", value_delimiter = ',')]
    pub(crate) ebpf_dsr_exclude: Option<Vec<String>>,
    /// UDP port of the tunnel, the same on every node [default: 8476]
    #[arg(long, value_name = "PORT")]
    pub(crate) ebpf_dsr_port: Option<String>,
    /// Entries of the table of connections, three or four for each; one takes 16 bytes, and 192 more in use.
    /// New connections are dropped when it is full [default: four times nf_conntrack_max]
    #[arg(long, value_name = "COUNT")]
    pub(crate) ebpf_flows: Option<String>,
    /// Entries of the table of a Service with the annotation `sluice.dev/lb-algorithm: maglev`: 4093, 16381 or
    /// 65521, the same on every node; more are fairer. Large Services have more [default: 16381]
    #[arg(long, value_name = "COUNT")]
    pub(crate) ebpf_maglev_size: Option<String>,
}

/// Values of `--ebpf-sockets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SocketsArg {
    /// TCP and UDP
    All,
    /// TCP
    Tcp,
    /// None: all packets to Services are rewritten
    Off,
}

/// Values of `--ebpf-end-sockets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EndedArg {
    /// TCP and UDP: the client's next call fails, and it dials anew
    All,
    /// UDP: TCP clients notice by themselves, mostly
    Udp,
    /// None
    Off,
}

/// Values of `--ebpf-dsr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DsrArg {
    /// None
    Off,
    /// Those with the annotation `sluice.dev/forwarding: dsr`
    Annotated,
    /// All but those with the annotation `sluice.dev/forwarding: snat`
    All,
}

impl EbpfArgs {
    /// The flags that are given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let given = [
            ("--ebpf-interfaces", self.ebpf_interfaces.is_some()),
            ("--ebpf-sockets", self.ebpf_sockets.is_some()),
            ("--ebpf-end-sockets", self.ebpf_end_sockets.is_some()),
            ("--ebpf-cgroup", self.ebpf_cgroup.is_some()),
            ("--ebpf-dsr", self.ebpf_dsr.is_some()),
            ("--ebpf-dsr-exclude", self.ebpf_dsr_exclude.is_some()),
            ("--ebpf-dsr-port", self.ebpf_dsr_port.is_some()),
            ("--ebpf-flows", self.ebpf_flows.is_some()),
            ("--ebpf-maglev-size", self.ebpf_maglev_size.is_some()),
        ];
        given
            .into_iter()
            .filter(|(_, it)| *it)
            .map(|(name, _)| name)
            .collect()
    }
}
