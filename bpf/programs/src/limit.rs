//! Which refusals are answered: what the kernel answers as well, and not more of it.
//!
//! An answer goes to the packet's source, which its sender may have forged. So there are buckets of tokens, as
//! `icmp_global_allow` and `icmpv4_xrlim_allow` of the kernel have: one for the node, and one for each client. The kernel
//! discards a packet whose addresses or checksums are wrong only behind these programs, so they look at them here.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{Addr, Hook, TCP};

use crate::global::global;
use crate::maps::{CLIENT_ANSWERS, NODE_ANSWERS};
use crate::origin::{LOOPBACK, from_node, ifindex, is_own};
use crate::packet::{Packet, Piece, RST};
use crate::service::is_cluster_ip;
use crate::sum;

/// Answers of the node: 1,000 a second, 50 at once (`icmp_msgs_per_sec`, `icmp_msgs_burst`).
const NODE: Limit = Limit {
    interval: 1_000_000,
    burst: 50,
};
/// Answers to one client: 100 a second, 20 at once. The kernel's one ICMP error a second would be too few: a client that is
/// many, as a load balancer is, learns by a reset alone which of its connections no node carries any more.
const CLIENT: Limit = Limit {
    interval: 10_000_000,
    burst: 20,
};

/// The kernel's marks of packets to many machines (`include/uapi/linux/if_packet.h`).
const PACKET_BROADCAST: u32 = 1;
const PACKET_MULTICAST: u32 = 2;

global!(
    /// Whether a packet that is refused gets an answer.
    pub fn is_answered(ctx, packet: &Packet, hook: Hook) -> bool = is_answered_body else false
);

#[inline(always)]
fn is_answered_body(ctx: &TcContext, packet: &Packet, hook: Hook) -> bool {
    // Nobody else gets the answer, and the kernel does not limit loopback either.
    if hook == Hook::Egress && from_node(ctx) {
        return true;
    }
    // RFC 9293, 3.10.7.1: no reset for a reset. A kernel refuses a datagram when it has all its fragments, whose checksum is in
    // the first alone.
    let is_reset = packet.protocol() == TCP && packet.flags & RST != 0;
    let is_fragment = packet.piece == Piece::First || !packet.has_ports;
    // A copy, which is a key on Linux 6.1 as well.
    let source = packet.tuple.source;
    !is_reset
        && !is_fragment
        && is_from_one_machine(ctx, &source)
        && takes_tokens(&source)
        && sum::is_right(ctx, packet)
}

/// Whether a packet's source can be one machine, and the packet was meant for one (RFC 1122, 3.2.2; RFC 4443, 2.4e).
#[inline(always)]
fn is_from_one_machine(ctx: &TcContext, source: &Addr) -> bool {
    // SAFETY: the context is valid for the run of the program.
    let to = unsafe { (*ctx.skb.skb).pkt_type };
    to != PACKET_BROADCAST
        && to != PACKET_MULTICAST
        && is_unicast(source)
        && !is_cluster_ip(source)
        && (!is_own(source) || ifindex(ctx) == LOOPBACK)
}

/// Whether an address is of one machine, as far as it tells: not 0.0.0.0/8, loopback, multicast, reserved or the broadcast.
#[inline(always)]
fn is_unicast(addr: &Addr) -> bool {
    let words = &addr.words;
    if addr.is_v4() {
        let first = u32::from_be(words[3]) >> 24;
        return first != 0 && first != 127 && first < 224;
    }
    // `::` and `::1`.
    let is_special = words[0] | words[1] | words[2] == 0 && u32::from_be(words[3]) <= 1;
    !is_special && u32::from_be(words[0]) >> 24 != 0xff
}

/// A bucket of tokens.
struct Limit {
    /// Nanoseconds until it has one more.
    interval: u64,
    /// How many it holds.
    burst: u64,
}

impl Limit {
    /// When a bucket that is full at `full` will be full again without one token; `None` if it has none. The time at which a
    /// bucket is full is all that there is to know of it.
    #[inline(always)]
    fn without_one(&self, full: u64, now: u64) -> Option<u64> {
        let next = full.max(now) + self.interval;
        (next - now <= self.burst * self.interval).then_some(next)
    }
}

/// Takes a token of the client's bucket and one of the node's. A client that has none left costs others nothing. Two CPUs
/// may take the same token at the same moment.
#[inline(always)]
fn takes_tokens(client: &Addr) -> bool {
    let Some(node) = NODE_ANSWERS.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: the helper has no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    // SAFETY: a word of a map, which is read and written whole.
    let Some(next_of_node) = NODE.without_one(unsafe { node.read_volatile() }, now) else {
        return false;
    };
    match CLIENT_ANSWERS.get_ptr_mut(client) {
        Some(full) => {
            // SAFETY: as above.
            let Some(next) = CLIENT.without_one(unsafe { full.read_volatile() }, now) else {
                return false;
            };
            // SAFETY: as above.
            unsafe { full.write_volatile(next) };
        }
        None => {
            // Without an entry the node's bucket limits alone.
            let _ = CLIENT_ANSWERS.insert(client, now + CLIENT.interval, 0);
        }
    }
    // SAFETY: as above.
    unsafe { node.write_volatile(next_of_node) };
    true
}
