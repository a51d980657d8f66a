//! Input of a data plane, and the sysctls that it needs.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use sluice_config::Effective;
use sluice_plan::settings::Settings;

/// The configuration of a data plane.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The configuration, with the section of each mode.
    pub config: &'a Effective,
    /// The settings of plans.
    pub settings: &'a Settings,
    /// Whether to count connections, in data planes that can do both.
    pub counts_connections: bool,
    /// The ebpf mode's.
    pub ebpf: &'a EbpfOptions,
}

/// The configuration of the ebpf mode, of which a KubeProxyConfiguration knows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EbpfOptions {
    /// Patterns of the interfaces whose packets pass the programs; none for all.
    pub interfaces: Vec<String>,
    /// Which clients are led to endpoints when they connect.
    pub sockets: Sockets,
    /// Of these, which are ended with their endpoint.
    pub ended_sockets: Sockets,
    /// The cgroup whose processes are such clients; `None` for the machine's.
    pub cgroup: Option<PathBuf>,
    /// UDP port of the tunnel of direct server return.
    pub tunnel_port: u16,
    /// Entries of the table of connections, in [`FLOWS`]: three or four for each connection. `None` for as many connections
    /// as netfilter tracks.
    pub flows: Option<u32>,
    /// Entries of a table of Maglev, at least: of [`MAGLEV_SIZES`].
    pub maglev_size: u32,
}

/// Entries that the table of connections may have: of a thousand connections at least, 3.5 GB at most when it is full.
pub const FLOWS: RangeInclusive<u32> = 4_096..=16_777_216;

/// Sizes of Maglev's tables: primes, so that each step through a table comes to every entry.
pub const MAGLEV_SIZES: [u32; 3] = [4093, 16_381, 65_521];

impl Default for EbpfOptions {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            sockets: Sockets::Tcp,
            ended_sockets: Sockets::Udp,
            cgroup: None,
            tunnel_port: 8476,
            flows: None,
            // Of up to 40 endpoints one that leaves moves at most 1.2 % more than its share of the connections;
            // with 4,093 entries 2.7 %.
            maglev_size: MAGLEV_SIZES[1],
        }
    }
}

/// Sockets by protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// None.
    Off,
    Tcp,
    Udp,
    /// TCP and UDP.
    All,
}

impl Sockets {
    /// Whether TCP is among them.
    #[must_use]
    pub const fn has_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::All)
    }

    /// Whether UDP is among them.
    #[must_use]
    pub const fn has_udp(self) -> bool {
        matches!(self, Self::Udp | Self::All)
    }

    /// Those that are among both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (
            self.has_tcp() && other.has_tcp(),
            self.has_udp() && other.has_udp(),
        ) {
            (true, true) => Self::All,
            (true, false) => Self::Tcp,
            (false, true) => Self::Udp,
            (false, false) => Self::Off,
        }
    }
}

/// A kernel setting that a data plane needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// Below `/proc/sys`.
    pub path: &'static str,
    /// The value that it needs.
    pub value: u64,
    /// What does not work without it and how to do without, in one line.
    pub without: &'static str,
}
