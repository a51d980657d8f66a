//! The DNS server of the node itself.

use crate::{Addr, layout};

/// Addresses of a server, at most: of each family one that every node has for itself, and one ClusterIP.
pub const MAX_DNS_ADDRESSES: usize = 4;

/// The only value of DNS (array of one): where the node's DNS server listens. Zeros for none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dns {
    /// The server's addresses; [`Addr::ANY_V6`] behind the last.
    pub addresses: [Addr; MAX_DNS_ADDRESSES],
    /// By index of `addresses`: 1 where only the node and its pods are answered.
    pub for_this_node: [u8; MAX_DNS_ADDRESSES],
    /// The server's port.
    pub port: u32,
    /// While a socket of UDP is bound to this port of an address, the server wants the queries to that address.
    pub owner_port: u32,
}

layout!(Dns, 76, addresses @ 0, for_this_node @ 64, port @ 68, owner_port @ 72);

impl Dns {
    /// The index of an address on which the server listens.
    #[must_use]
    #[inline(always)]
    pub fn index_of(&self, addr: &Addr, port: u16) -> Option<usize> {
        if self.port != u32::from(port) {
            return None;
        }
        let mut index = 0;
        while index < MAX_DNS_ADDRESSES {
            if self.addresses[index] == *addr {
                return Some(index);
            }
            index += 1;
        }
        None
    }
}
