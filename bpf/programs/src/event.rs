//! Events that tell `explain --trace` what the programs did with a packet.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use sluice_bpf_abi::{Addr, Event, EventKind, Hook, Tuple, node_flags};

use crate::global::global;
use crate::maps::{EVENTS, node};

/// What a program did with a packet. Without padding, since a global function gets it.
pub struct Action {
    pub hook: Hook,
    pub kind: EventKind,
    pub ifindex: u32,
    /// Id of the service port; 0 for none.
    pub service: u32,
    /// The counter of a denial; else 0.
    pub counter: u16,
}

/// Writes an event to EVENTS if a trace asks for this packet.
#[inline(always)]
pub fn record(action: &Action, before: &Tuple, after: &Tuple) {
    let Some(node) = node() else { return };
    if node.flags & node_flags::TRACE != 0 {
        write(action, before, after);
    }
}

global!(
    /// Writes an event, if the trace asks for one of these. False: there is none.
    fn write(action: &Action, before: &Tuple, after: &Tuple) -> bool = write_body else false
);

#[inline(always)]
fn write_body(action: &Action, before: &Tuple, after: &Tuple) -> bool {
    let Some(node) = node() else { return false };
    let asked = &node.trace;
    let concerns = |it: &Tuple| it.source == *asked || it.destination == *asked;
    // Most sockets get their address only after this call.
    let may_concern = action.hook as u8 == Hook::Socket as u8
        && (before.source == Addr::ANY_V4 || before.source == Addr::ANY_V6);
    if *asked != Addr::ANY_V6 && !may_concern && !concerns(before) && !concerns(after) {
        return false;
    }
    // SAFETY: the helper has no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    if now > node.trace_until_ns {
        return false;
    }
    // When the buffer is full the event is lost.
    let Some(mut event) = EVENTS.reserve(0) else {
        return false;
    };
    event.write(Event {
        time_ns: now,
        before: *before,
        after: *after,
        ifindex: action.ifindex,
        hook: action.hook as u8,
        kind: action.kind as u8,
        counter: action.counter,
        service: action.service,
        padding: 0,
    });
    event.submit(0);
    true
}
