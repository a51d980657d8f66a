//! Services: which frontend a client dials, and which endpoint it gets. For packets and sockets alike.

use aya_ebpf::btf_maps::lpm_trie::Key;
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use sluice_bpf_abi::{
    Addr, AddressKey, AddressKind, Affinity, AffinityKey, Client, Counter, Endpoint, EndpointKey,
    FamilyNode, Frontend, FrontendKey, FrontendKind, MAGLEV_CHUNK, MaglevKey, MemberKey, Node,
    SOURCE_PREFIX, Slots, SourceKey, Treatment, Tuple, Verdict, frontend_flags,
};

use crate::global::global;
use crate::maps::{
    ADDRESSES, AFFINITY, ENDPOINTS, FRONTENDS, MAGLEV, MEMBERS, PORTS, SOURCES, node,
};
use crate::packet::Packet;

const NANOSECONDS: u64 = 1_000_000_000;

/// The verdict about a new connection.
pub enum Decision<'a> {
    /// The destination is of no Service.
    Pass,
    /// An endpoint of this pool of the frontend gets it.
    Balance {
        frontend: &'a Frontend,
        pool: Verdict,
        masquerade: bool,
        client: Client,
    },
    /// The connection is dropped for this reason.
    Drop(Counter),
    /// The connection is rejected for this reason.
    Reject(Counter),
}

/// The settings of a family.
#[inline(always)]
pub fn family<'a>(node: &'a Node, addr: &Addr) -> &'a FamilyNode {
    if addr.is_v4() {
        &node.families[0]
    } else {
        &node.families[1]
    }
}

/// The frontend at an address: a virtual IP before a NodePort.
#[inline(always)]
pub fn frontend(addr: &Addr, port: u16, protocol: u8) -> Option<&'static Frontend> {
    frontend_of(addr, port, protocol, || {
        is_address(addr, AddressKind::NodePorts)
    })
}

/// The frontend at an address; `answers`: whether the address answers on NodePorts.
#[inline(always)]
fn frontend_of(
    addr: &Addr,
    port: u16,
    protocol: u8,
    answers: impl FnOnce() -> bool,
) -> Option<&'static Frontend> {
    if !is_frontends(port) {
        return None;
    }
    let key = FrontendKey {
        addr: *addr,
        port,
        protocol,
        kind: FrontendKind::Address as u8,
    };
    // SAFETY: the agent replaces whole values, and the kernel frees old ones after the program's end.
    if let Some(found) = unsafe { FRONTENDS.get(&key) } {
        return Some(found);
    }
    let key = FrontendKey {
        addr: if addr.is_v4() {
            Addr::ANY_V4
        } else {
            Addr::ANY_V6
        },
        port,
        protocol,
        kind: FrontendKind::NodePort as u8,
    };
    // SAFETY: as above.
    let found = unsafe { FRONTENDS.get(&key) }?;
    answers().then_some(found)
}

/// Whether a frontend has this port, at whatever address.
#[inline(always)]
pub fn is_frontends(port: u16) -> bool {
    PORTS.get(0).is_some_and(|it| it.contains(port))
}

/// Whether an address is of this kind.
#[inline(always)]
pub fn is_address(addr: &Addr, kind: AddressKind) -> bool {
    let key = AddressKey {
        addr: *addr,
        kind: kind as u32,
    };
    ADDRESSES.get_ptr(&key).is_some()
}

global!(
    /// Whether a packet that another node sent through the tunnel to this endpoint may open a connection: its client dialled a
    /// frontend with direct server return, and may do so, and the endpoint is one of the frontend's on this node. A NodePort
    /// is that of any node.
    pub fn is_direct(request: &Tuple, packet: &Packet) -> bool = is_direct_body else false
);

#[inline(always)]
fn is_direct_body(request: &Tuple, packet: &Packet) -> bool {
    let found = frontend_of(
        &request.destination,
        request.destination_port,
        request.protocol as u8,
        || true,
    );
    let Some(frontend) = found else { return false };
    let Tuple {
        destination: addr,
        destination_port: port,
        ..
    } = &packet.tuple;
    let slots = frontend.local;
    frontend.flags & frontend_flags::DSR != 0
        && (frontend.sources[0] | frontend.sources[1] == 0
            || is_in_list(frontend.sources, &request.source))
        && slot_of(frontend.service, Verdict::Local, slots, addr, *port).is_some()
}

/// Whether an address is a ClusterIP.
#[inline(always)]
pub fn is_cluster_ip(addr: &Addr) -> bool {
    is_address(addr, AddressKind::ClusterIp)
}

/// What becomes of the first packet of a connection. `source` is unknown where a socket connects.
#[inline(always)]
pub fn decide(
    source: Option<&Addr>,
    addr: &Addr,
    port: u16,
    protocol: u8,
    client: impl FnOnce(&FamilyNode) -> Client,
) -> Decision<'static> {
    let Some(node) = node() else {
        return Decision::Pass;
    };
    let family = family(node, addr);
    let Some(frontend) = frontend(addr, port, protocol) else {
        return without_frontend(family, addr);
    };
    if frontend.sources[0] | frontend.sources[1] != 0 {
        match source {
            Some(it) if is_in_list(frontend.sources, it) => {}
            Some(_) => return Decision::Drop(Counter::SourceRanges),
            None => return Decision::Pass,
        }
    }
    let client = client(family);
    let index = (client as usize) & 3;
    let treatment = Treatment(frontend.treatments[index]);
    let masquerade = treatment.0 & Treatment::MASQUERADE != 0
        || (treatment.0 & Treatment::MASQUERADE_AS_CLUSTER_IP != 0
            && family.masquerades_cluster_ips[index] != 0);
    match treatment.verdict() {
        Verdict::Drop => Decision::Drop(Counter::NoLocalEndpoints),
        Verdict::Reject => Decision::Reject(Counter::NoEndpoints),
        pool => Decision::Balance {
            frontend,
            pool,
            masquerade,
            client,
        },
    }
}

#[inline(always)]
fn without_frontend(family: &FamilyNode, addr: &Addr) -> Decision<'static> {
    if is_cluster_ip(addr) {
        return Decision::Reject(Counter::UndefinedPort);
    }
    for (index, cidr) in family.service_cidrs.iter().enumerate() {
        if index as u32 >= family.cidr_count {
            break;
        }
        if cidr.contains(addr) {
            return Decision::Drop(Counter::UnallocatedClusterIp);
        }
    }
    Decision::Pass
}

/// Whether a list of sources has an address.
#[inline(always)]
pub fn is_in_list(list: [u32; 2], source: &Addr) -> bool {
    let key = SourceKey {
        list,
        addr: *source,
    };
    SOURCES.get(&Key::new(SOURCE_PREFIX + 128, key)).is_some()
}

/// Chooses an endpoint: the one that the client stays with, else by the hash of its addresses where the
/// Service wants Maglev, else by chance.
#[inline(always)]
pub fn choose(
    frontend: &Frontend,
    pool: Verdict,
    client: &AffinityKey,
    tuple: &Tuple,
) -> Option<&'static Endpoint> {
    let slots = slots(frontend, pool);
    if slots.count == 0 {
        return None;
    }
    let kept = match frontend.affinity_seconds {
        0 => None,
        seconds => stays_with(frontend.service, pool, slots, client, seconds),
    };
    let slot = match kept {
        Some(slot) => slot,
        None if frontend.maglev_size != 0 => by_hash(frontend, pool, slots, tuple.hash())?,
        // SAFETY: the helper has no arguments.
        None => slots.first + unsafe { bpf_get_prandom_u32() } % slots.count,
    };
    // The agent may have emptied the slot since we read the frontend.
    let endpoint =
        endpoint(frontend.service, slot).or_else(|| endpoint(frontend.service, slots.first))?;
    if frontend.affinity_seconds != 0 {
        remember(client, endpoint);
    }
    Some(endpoint)
}

/// The endpoint at this address and port, if it is still in the pool. Only for service ports with entries in MEMBERS.
#[inline(always)]
pub fn member(
    frontend: &Frontend,
    pool: Verdict,
    addr: &Addr,
    port: u16,
) -> Option<&'static Endpoint> {
    let slots = slots(frontend, pool);
    let slot = slot_of(frontend.service, pool, slots, addr, port)?;
    endpoint(frontend.service, slot)
}

#[inline(always)]
fn slots(frontend: &Frontend, pool: Verdict) -> Slots {
    match pool {
        Verdict::Local => frontend.local,
        _ => frontend.cluster,
    }
}

#[inline(always)]
fn endpoint(service: u32, slot: u32) -> Option<&'static Endpoint> {
    let key = EndpointKey { service, slot };
    // SAFETY: the agent replaces whole values, and the kernel frees old ones after the program's end.
    unsafe { ENDPOINTS.get(&key) }
}

#[inline(always)]
fn by_hash(frontend: &Frontend, pool: Verdict, slots: Slots, hash: u32) -> Option<u32> {
    let index = hash % frontend.maglev_size;
    let key = MaglevKey {
        service: frontend.service,
        pool: pool as u32,
        chunk: index / MAGLEV_CHUNK as u32,
    };
    // SAFETY: as for endpoints.
    let chunk = unsafe { MAGLEV.get(&key) }?;
    let index = (index as usize) & (MAGLEV_CHUNK - 1);
    Some(slots.first + u32::from(chunk.slots[index]))
}

/// The slot of the endpoint that a client stays with.
#[inline(always)]
fn stays_with(
    service: u32,
    pool: Verdict,
    slots: Slots,
    client: &AffinityKey,
    seconds: u32,
) -> Option<u32> {
    // SAFETY: a torn value names no member, or an endpoint that the client had.
    let known = unsafe { AFFINITY.get(client) }?;
    // SAFETY: the helper has no arguments.
    let age = unsafe { bpf_ktime_get_ns() }.wrapping_sub(known.seen_ns);
    if age >= u64::from(seconds) * NANOSECONDS {
        return None;
    }
    slot_of(service, pool, slots, &known.addr, known.port as u16)
}

#[inline(always)]
fn slot_of(service: u32, pool: Verdict, slots: Slots, addr: &Addr, port: u16) -> Option<u32> {
    let key = MemberKey {
        addr: *addr,
        service,
        port,
        pool: pool as u16,
    };
    // SAFETY: the value is one word.
    let slot = *unsafe { MEMBERS.get(&key) }?;
    (slot.wrapping_sub(slots.first) < slots.count).then_some(slot)
}

#[inline(always)]
fn remember(client: &AffinityKey, endpoint: &Endpoint) {
    let affinity = Affinity {
        // SAFETY: the helper has no arguments.
        seen_ns: unsafe { bpf_ktime_get_ns() },
        addr: endpoint.addr,
        port: endpoint.port.into(),
        padding: 0,
    };
    // A client that cannot be remembered is served all the same.
    let _ = AFFINITY.insert(client, &affinity, 0);
}
