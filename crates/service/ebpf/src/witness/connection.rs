//! The events of one connection, out of all events. Pure.

use std::net::IpAddr;

use sluice_bpf_abi::{Event, Hook, Tuple};
use sluice_plane::Watched;

use crate::placement::protocol_number;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the client.
    Request,
    /// To the client.
    Reply,
}

/// The events of the connection from this port, else of the one that is the first, in their order. Each packet has
/// the addresses that an earlier one of the connection had, or got; of those with the same addresses at one place the
/// first is enough.
pub(super) fn steps<'a>(
    events: &'a [Event],
    watched: &Watched,
    source_port: Option<u16>,
) -> Vec<(&'a Event, Way)> {
    let mut known: Vec<Tuple> = Vec::new();
    let mut steps: Vec<(&Event, Way)> = Vec::new();
    for event in events {
        let is_known = |tuple: &Tuple| known.iter().any(|it| is_same(it, tuple));
        let way = match () {
            () if is_known(&event.before) => Way::Request,
            // An error of ICMP gets the addresses of the packets that it goes with.
            () if is_known(&event.before.reversed()) || is_known(&event.after.reversed()) => {
                Way::Reply
            }
            () if known.is_empty() && begins(&event.before, watched, source_port) => Way::Request,
            () => continue,
        };
        match way {
            Way::Request => known.extend([event.before, event.after]),
            Way::Reply => known.push(event.after.reversed()),
        }
        let is_same_place = |it: &Event| {
            (it.hook, it.ifindex, it.before) == (event.hook, event.ifindex, event.before)
        };
        if !steps.iter().any(|(it, _)| is_same_place(it)) {
            steps.push((event, way));
        }
    }
    steps
}

fn begins(tuple: &Tuple, watched: &Watched, source_port: Option<u16>) -> bool {
    let client = IpAddr::from(tuple.source);
    protocol(tuple) == u32::from(protocol_number(watched.protocol))
        && IpAddr::from(tuple.destination) == watched.destination.ip()
        && tuple.destination_port == watched.destination.port()
        && source_port.is_none_or(|it| tuple.source_port == it || tuple.source_port == 0)
        && (client.is_unspecified() || watched.client.is_none_or(|it| it == client))
}

/// Whether a packet has these addresses. A socket may not know yet which source it has.
fn is_same(known: &Tuple, packet: &Tuple) -> bool {
    let is_any = IpAddr::from(known.source).is_unspecified();
    protocol(known) == protocol(packet)
        && known.destination == packet.destination
        && known.destination_port == packet.destination_port
        && (known.source == packet.source || is_any)
        && (known.source_port == packet.source_port || (is_any && known.source_port == 0))
}

fn protocol(tuple: &Tuple) -> u32 {
    tuple.protocol & Tuple::PROTOCOL
}

/// Whether a socket left the event, before there was a packet.
pub(super) fn is_of_socket(event: &Event) -> bool {
    event.hook == Hook::Socket as u8
}
