//! The sources of what pods send. A pod that may send raw packets can write any source, and the kernel's `rp_filter` judges
//! only behind the programs. So where pods' packets arrive, a packet opens or ends a connection only if the answers to its
//! source leave there: if a route to it leads through that interface, or through the bridge whose port it is. Any other
//! passes, and changes nothing.
//!
//! Ordinary packets of a connection are not looked at: they cannot end it. The kernel's own lookup (`bpf_fib_lookup`) is for
//! programs under the GPL alone, so the agent writes the routes through pods' interfaces into ROUTED.

use aya_ebpf::btf_maps::lpm_trie::Key;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Addr, Counter, ROUTED_PREFIX, RoutedKey, TCP};

use crate::global::global;
use crate::maps::{INTERFACES, ROUTED, count};
use crate::origin::ifindex;
use crate::outcome::family_index;
use crate::packet::{FIN, Packet, RST, SYN};

/// Whether a packet of a known connection might end it.
#[inline(always)]
pub fn may_end(packet: &Packet) -> bool {
    packet.protocol() == TCP && packet.flags & (SYN | RST | FIN) != 0
}

/// Whether a packet comes through a pod's interface, and its answers would not go there. It is counted.
#[inline(always)]
pub fn is_foreign(ctx: &TcContext, packet: &Packet) -> bool {
    is_foreign_at(packet, ifindex(ctx))
}

/// [`is_foreign`] for a packet that leaves the node.
#[inline(always)]
pub fn was_foreign(ctx: &TcContext, packet: &Packet) -> bool {
    // SAFETY: the context is valid for the run of the program.
    is_foreign_at(packet, unsafe { (*ctx.skb.skb).ingress_ifindex })
}

global!(
    /// [`is_foreign`] where a packet arrived at the interface with this number.
    fn is_foreign_at(packet: &Packet, ifindex: u32) -> bool = is_foreign_at_body else true
);

#[inline(always)]
fn is_foreign_at_body(packet: &Packet, ifindex: u32) -> bool {
    // SAFETY: the agent replaces whole values.
    let interface = match unsafe { INTERFACES.get(&ifindex) } {
        Some(interface) if interface.back != 0 => interface.back,
        _ => return false,
    };
    let source = &packet.tuple.source;
    if is_of_link(source) || is_routed(source, interface) {
        return false;
    }
    count(Counter::ForeignSource as u32 + family_index(packet));
    true
}

/// Whether an address is of the link (`fe80::/10`), and nobody's elsewhere.
#[inline(always)]
fn is_of_link(addr: &Addr) -> bool {
    u32::from_be(addr.words[0]) >> 22 == 0xfe80 >> 6
}

#[inline(always)]
fn is_routed(addr: &Addr, interface: u32) -> bool {
    let key = RoutedKey {
        interface,
        addr: *addr,
    };
    ROUTED.get(&Key::new(ROUTED_PREFIX + 128, key)).is_some()
}
