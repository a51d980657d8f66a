//! Source ports for connections that cannot keep their own.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use aya_ebpf::programs::TcContext;
use sluice_bpf_abi::PortRange;

use crate::flow::{Entered, IS_THERE, find, forget, has_ended};
use crate::global::global;
use crate::lookup;
use crate::maps::{Draft, FLOWS, draft, node};

/// How many ports are tried before a connection is refused.
const ATTEMPTS: u32 = 64;
/// How many of them are at random. The others follow the last one, and may be of connections that have ended: endpoints
/// may remember those still.
const RANDOM: u32 = ATTEMPTS / 2;

/// Finds a source port by which the endpoint's answers belong to one connection alone, and enters their way back, the
/// draft's flow. Returns it too; it becomes the destination port of the draft's answer.
///
/// A port is taken while another connection's entry has these answers, or a socket of the node.
#[inline(always)]
pub fn take(ctx: &TcContext) -> (Entered, u16) {
    match find_free(ctx) {
        NO_PORT => (Entered::NoPort, 0),
        NO_ROOM => (Entered::NoRoom, 0),
        port => (Entered::Whole, port as u16),
    }
}

/// Returned when no port is free: larger than every port.
const NO_PORT: u32 = 1 << 16;
/// Returned when FLOWS is full.
const NO_ROOM: u32 = NO_PORT + 1;

global!(
    /// See [`take`].
    fn find_free(ctx) -> u32 = find_free_body else NO_PORT
);

#[inline(always)]
fn find_free_body(ctx: &TcContext) -> u32 {
    let Some(node) = node() else {
        return NO_PORT;
    };
    let [low, high] = &node.masquerade_ports;
    let total = size(low) + size(high);
    if total == 0 {
        return NO_PORT;
    }
    let mut chosen = 0;
    // The count begins with a constant. The verifier of Linux 6.1 forgets the value of a flag on the stack, and would not
    // see the end of a loop that begins with it.
    let mut attempt = 0;
    while attempt < ATTEMPTS {
        chosen = if attempt < RANDOM {
            random() % total
        } else {
            (chosen + 1) % total
        };
        let port = if chosen < size(low) {
            low.first.wrapping_add(chosen as u16)
        } else {
            high.first.wrapping_add((chosen - size(low)) as u16)
        };
        match enter_way_back(ctx, port.into(), u32::from(attempt >= RANDOM)) {
            Entered::Whole => return port.into(),
            Entered::NoRoom => return NO_ROOM,
            Entered::NoPort | Entered::Limited => {}
        }
        attempt += 1;
    }
    NO_PORT
}

global!(
    /// Enters the way back with this port if nobody else has the answers. `takes_over`: 1 if a connection that has ended
    /// gives them up.
    fn enter_way_back(ctx, port: u32, takes_over: u32) -> Entered = enter_way_back_body else Entered::NoPort
);

#[inline(always)]
fn enter_way_back_body(ctx: &TcContext, port: u32, takes_over: u32) -> Entered {
    let Some(Draft { answer, flow }) = draft() else {
        return Entered::NoRoom;
    };
    answer.destination_port = port as u16;
    if lookup::has_port(ctx, answer) {
        return Entered::NoPort;
    }
    if takes_over != 0
        && let Some(held) = find(answer)
    {
        if !has_ended(answer, held) {
            return Entered::NoPort;
        }
        forget(answer);
    }
    match FLOWS.insert(&*answer, &*flow, u64::from(BPF_NOEXIST)) {
        Ok(()) => Entered::Whole,
        Err(IS_THERE) => Entered::NoPort,
        Err(_) => Entered::NoRoom,
    }
}

/// Whether connections that cannot keep their source port may get this one.
#[inline(always)]
pub fn is_for_others(port: u16) -> bool {
    node().is_some_and(|it| {
        let [low, high] = &it.masquerade_ports;
        (low.first <= port && port <= low.last) || (high.first <= port && port <= high.last)
    })
}

#[inline(always)]
fn random() -> u32 {
    // SAFETY: the helper has no arguments.
    unsafe { bpf_get_prandom_u32() }
}

#[inline(always)]
fn size(range: &PortRange) -> u32 {
    (u32::from(range.last) + 1).saturating_sub(u32::from(range.first))
}
