//! The maps. `sluice-bpf-abi` says what they mean; the loader sets their sizes.

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::btf_maps::{Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, RingBuf};
use aya_ebpf::macros::btf_map;
use sluice_bpf_abi::{
    Addr, AddressKey, Affinity, AffinityKey, Allowance, Counter, Dns, Endpoint, EndpointKey, Event,
    Flow, Fragment, FragmentKey, Frontend, FrontendKey, Interface, MaglevChunk, MaglevKey,
    MemberKey, Node, Peer, PeerKey, Ports, RoutedKey, SourceKey, Tuple,
};

/// An entry gets its memory when it is written, so the size of a map costs little: 16 bytes for each entry that it may have
/// (`htab_map_alloc` in `kernel/bpf/hashtab.c`).
const GROWING: usize = BPF_F_NO_PREALLOC as usize;

#[btf_map]
pub static FRONTENDS: HashMap<FrontendKey, Frontend, 1024, GROWING> = HashMap::new();

#[btf_map]
pub static PORTS: Array<Ports, 1> = Array::new();

#[btf_map]
pub static ENDPOINTS: HashMap<EndpointKey, Endpoint, 1024, GROWING> = HashMap::new();

#[btf_map]
pub static MEMBERS: HashMap<MemberKey, u32, 1024, GROWING> = HashMap::new();

#[btf_map]
pub static MAGLEV: HashMap<MaglevKey, MaglevChunk, 1024, GROWING> = HashMap::new();

#[btf_map]
pub static SOURCES: LpmTrie<SourceKey, u8, 1024> = LpmTrie::new();

#[btf_map]
pub static ROUTED: LpmTrie<RoutedKey, u8, 65_536> = LpmTrie::new();

#[btf_map]
pub static ADDRESSES: HashMap<AddressKey, u32, 1024, GROWING> = HashMap::new();

#[btf_map]
pub static NODE: Array<Node, 1> = Array::new();

#[btf_map]
pub static DNS: Array<Dns, 1> = Array::new();

#[btf_map]
pub static INTERFACES: HashMap<u32, Interface, 1024> = HashMap::new();

#[btf_map]
pub static OWN: HashMap<Addr, u32, 4096, GROWING> = HashMap::new();

#[btf_map]
pub static AFFINITY: LruHashMap<AffinityKey, Affinity, 1024> = LruHashMap::new();

#[btf_map]
pub static FLOWS: HashMap<Tuple, Flow, 1024, GROWING> = HashMap::new();

/// What clients may open that had a large part of FLOWS while it filled up.
#[btf_map]
pub static ALLOWANCES: HashMap<Addr, Allowance, 1024, GROWING> = HashMap::new();

#[btf_map]
pub static FRAGMENTS: LruHashMap<FragmentKey, Fragment, 1024> = LruHashMap::new();

#[btf_map]
pub static PEERS: LruHashMap<PeerKey, Peer, 1024> = LruHashMap::new();

#[btf_map]
pub static SENDERS: LruHashMap<PeerKey, Peer, 1024> = LruHashMap::new();

/// When the node may answer that a packet is refused: the time at which its bucket of tokens is full, in ns of
/// `CLOCK_MONOTONIC`.
#[btf_map]
pub static NODE_ANSWERS: Array<u64, 1> = Array::new();

/// The same of a client's bucket. One that is forgotten is full.
#[btf_map]
pub static CLIENT_ANSWERS: LruHashMap<Addr, u64, 4096> = LruHashMap::new();

#[btf_map]
pub static COUNTERS: PerCpuArray<u64, { Counter::COUNT as usize }> = PerCpuArray::new();

#[btf_map]
pub static EVENTS: RingBuf<Event, 262_144> = RingBuf::new();

/// Memory for an entry that is about to be written. As [`crate::scratch`].
pub struct Draft {
    /// The tuple of a connection's answers.
    pub answer: Tuple,
    /// The entry of the answers, and then the others.
    pub flow: Flow,
}

#[btf_map]
pub static DRAFT: PerCpuArray<Draft, 1> = PerCpuArray::new();

/// The memory for an entry of this CPU.
#[inline(always)]
pub fn draft() -> Option<&'static mut Draft> {
    // SAFETY: as for [`crate::scratch`]; who borrows it does not use it any more when it has called somebody who does.
    DRAFT.get_ptr_mut(0).map(|it| unsafe { &mut *it })
}

/// Memory for the addresses and ports that a socket is looked up by: a `bpf_sock_tuple`. As [`crate::scratch`].
#[btf_map]
pub static LOOKUP: PerCpuArray<[u32; 9], 1> = PerCpuArray::new();

/// The settings of the node.
#[inline(always)]
pub fn node() -> Option<&'static Node> {
    NODE.get(0)
}

/// Whether a flag of the settings is set.
#[inline(always)]
pub fn node_flag(flag: u32) -> bool {
    node().is_some_and(|it| it.flags & flag != 0)
}

/// Adds one to a counter.
#[inline(always)]
pub fn count(index: u32) {
    if let Some(counter) = COUNTERS.get_ptr_mut(index) {
        // SAFETY: the slot is this CPU's own.
        unsafe { *counter += 1 };
    }
}
