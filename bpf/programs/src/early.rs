//! Fragments that arrive before the first one of their datagram, which alone has its ports.
//!
//! Some senders begin with the last fragment (RFC 791, 3.2: they may arrive in any order). Such a fragment to an address with
//! frontends is kept until the first arrives, a few of them for each datagram. Then the first arrives once more, and those that
//! were kept behind it: wherever they pass, the first is first.

use aya_ebpf::bindings::{BPF_F_INGRESS, BPF_F_RECOMPUTE_CSUM, BPF_NOEXIST};
use aya_ebpf::btf_maps::{LruHashMap, PerCpuArray};
use aya_ebpf::helpers::generated::{
    bpf_clone_redirect, bpf_skb_change_tail, bpf_skb_load_bytes, bpf_skb_store_bytes,
};
use aya_ebpf::macros::btf_map;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::{AddressKind, FragmentKey};

use crate::global::global;
use crate::origin::ifindex;
use crate::packet::Packet;
use crate::service::is_address;

/// How many fragments of a datagram are kept.
const MOST: u32 = 3;
/// Bytes of a packet that is kept, with its Ethernet header, at most.
const LONGEST: u32 = 2048;

/// The sum of the packet that a network card computed is right for the new bytes, too.
const RECOMPUTE: u64 = BPF_F_RECOMPUTE_CSUM as u64;

/// Key of EARLY.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Key {
    datagram: FragmentKey,
    /// Below [`MOST`].
    number: u32,
}

/// Value of EARLY: a packet.
#[repr(C)]
pub struct Early {
    length: u32,
    bytes: [u8; LONGEST as usize],
}

/// Fragments that arrived before the first of their datagram.
#[btf_map]
pub static EARLY: LruHashMap<Key, Early, 64> = LruHashMap::new();

/// Memory for a fragment that is kept, as that of [`crate::scratch`].
#[btf_map]
pub static KEPT: PerCpuArray<Early, 1> = PerCpuArray::new();

/// The memory for a fragment of this CPU.
#[inline(always)]
fn kept() -> Option<&'static mut Early> {
    // SAFETY: no other program of packets runs on this CPU until this one ends, and each borrows it once.
    KEPT.get_ptr_mut(0).map(|it| unsafe { &mut *it })
}

global!(
    /// Keeps a fragment, if it is to an address with frontends. True: it is to be dropped here.
    pub fn keep(ctx, packet: &Packet) -> bool = keep_body else false
);

#[inline(always)]
fn keep_body(ctx: &TcContext, packet: &Packet) -> bool {
    let to = packet.tuple.destination;
    let length = ctx.len();
    if length == 0
        || length > LONGEST
        || !(is_address(&to, AddressKind::ClusterIp) || is_address(&to, AddressKind::NodePorts))
    {
        return false;
    }
    let Some(kept) = kept() else { return false };
    let length = bounded(length);
    kept.length = length;
    // SAFETY: the buffer has room for this many bytes.
    let read = unsafe {
        bpf_skb_load_bytes(
            ctx.skb.skb.cast(),
            0,
            kept.bytes.as_mut_ptr().cast(),
            length,
        )
    };
    if read != 0 {
        return false;
    }
    let mut key = Key {
        datagram: packet.datagram(),
        number: 0,
    };
    while key.number < MOST {
        if EARLY.insert(&key, &*kept, u64::from(BPF_NOEXIST)).is_ok() {
            return true;
        }
        key.number += 1;
    }
    false
}

/// A length from 1 to [`LONGEST`], in a form that the verifier of Linux 6.1 knows to be one.
#[inline(always)]
fn bounded(length: u32) -> u32 {
    (length.wrapping_sub(1) & (LONGEST - 1)) + 1
}

global!(
    /// The first fragment of a datagram arrives: has it and those that were kept arrive once more, but for the last of these,
    /// which the packet becomes. False: none was kept.
    pub fn release(ctx, packet: &Packet) -> bool = release_body else false
);

#[inline(always)]
fn release_body(ctx: &TcContext, packet: &Packet) -> bool {
    let mut key = Key {
        datagram: packet.datagram(),
        number: 0,
    };
    let mut is_other = false;
    while key.number < MOST {
        if let Some(kept) = EARLY.get_ptr(&key) {
            // SAFETY: the memory stays a value of the map. If it is another fragment's by now, its checksum is wrong for the
            // datagram, and the endpoint's kernel discards that.
            is_other |= become_kept(ctx, &key, unsafe { &*kept });
        }
        key.number += 1;
    }
    is_other
}

#[inline(always)]
fn become_kept(ctx: &TcContext, key: &Key, kept: &Early) -> bool {
    let skb = ctx.skb.skb;
    let length = bounded(kept.length);
    // Before the first arrives again.
    let _ = EARLY.remove(key);
    // SAFETY: the value has this many bytes.
    unsafe {
        bpf_clone_redirect(skb, ifindex(ctx), u64::from(BPF_F_INGRESS)) == 0
            && bpf_skb_change_tail(skb, length, 0) == 0
            && bpf_skb_store_bytes(skb.cast(), 0, kept.bytes.as_ptr().cast(), length, RECOMPUTE)
                == 0
    }
}
