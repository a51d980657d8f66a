//! Clients that are led to endpoints when they connect: whose, and where the programs are attached.

use std::path::PathBuf;

use sluice_bpf_abi::node_flags;
use sluice_plane::{EbpfOptions, Sockets};
use tracing::{info, warn};

/// The options of socket load balancing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSetup {
    /// The protocols whose sockets are led to endpoints.
    pub led: Sockets,
    /// Those of them whose sockets are ended with their endpoint.
    pub ended: Sockets,
    /// The cgroup of their processes; `None` leaves sockets alone.
    pub cgroup: Option<PathBuf>,
}

impl SocketSetup {
    /// All sockets are left alone.
    #[must_use]
    pub fn off() -> Self {
        Self {
            led: Sockets::Off,
            ended: Sockets::Off,
            cgroup: None,
        }
    }

    /// The setup of these options on this machine.
    pub(crate) fn of(options: &EbpfOptions) -> Self {
        if options.sockets == Sockets::Off {
            return Self::off();
        }
        let cgroup = options.cgroup.clone().or_else(machines_cgroup);
        if cgroup.is_none() {
            return Self::off();
        }
        Self {
            led: options.sockets,
            ended: options.sockets.and(options.ended_sockets),
            cgroup,
        }
    }

    /// The flags of NODE.
    pub(crate) fn flags(&self) -> u32 {
        let tcp = if self.led.has_tcp() {
            node_flags::SOCKETS_TCP
        } else {
            0
        };
        let udp = if self.led.has_udp() {
            node_flags::SOCKETS_UDP
        } else {
            0
        };
        tcp | udp
    }
}

/// The cgroup of all processes of the machine. A node that is a network namespace of its own, as in a lab, has
/// none: the processes beside it are not its clients.
fn machines_cgroup() -> Option<PathBuf> {
    if !sluice_bpf::is_machines_namespace() {
        info!(
            "sockets are not led, packets are: this is not the network namespace of the machine's first process, or it \
             cannot be seen: give --ebpf-cgroup to lead them"
        );
        return None;
    }
    let cgroup = sluice_bpf::cgroup_root();
    if cgroup.is_none() {
        warn!(
            "sockets are not led, packets are: the machine's cgroups (version 2) are not mounted, give --ebpf-cgroup"
        );
    }
    cgroup
}
