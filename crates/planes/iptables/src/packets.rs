//! Packets that rules count, read for kube-proxy's metrics.

use sluice_netlink::SocketError;
use sluice_netlink::nfacct::{self, Accounts};
use sluice_plane::{PacketCounters, PacketError};

/// A reader of the kernel's objects of nfacct.
pub(crate) struct Packets(Accounts);

impl Packets {
    pub(crate) fn open() -> Result<Self, SocketError> {
        Accounts::open().map(Self)
    }
}

impl PacketCounters for Packets {
    fn packets(&mut self, name: &str) -> Result<Option<u64>, PacketError> {
        self.0.packets(name).map_err(|error| PacketError {
            is_final: nfacct::is_final(&error),
            reason: error.to_string(),
        })
    }
}
