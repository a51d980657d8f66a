//! A connection with its four entries.

use std::collections::HashMap;

use sluice_bpf_abi::{Addr, Flow, FlowKind, Tuple};

pub(super) const CLIENT: (u32, u16) = (1, 40_000);
pub(super) const FRONTEND: (u32, u16) = (2, 80);
pub(super) const ENDPOINT: (u32, u16) = (3, 8080);
pub(super) const NODE: (u32, u16) = (4, 2000);

pub(super) fn tuple(protocol: u8, from: (u32, u16), to: (u32, u16)) -> Tuple {
    Tuple {
        source: Addr::v4(from.0),
        destination: Addr::v4(to.0),
        source_port: from.1,
        destination_port: to.1,
        protocol: protocol.into(),
    }
}

/// A masqueraded connection, whose entries were seen at these seconds with these flags.
pub(super) fn connection(protocol: u8, seen: [u32; 4], flags: [u8; 4]) -> HashMap<Tuple, Flow> {
    let entries = [
        (CLIENT, FRONTEND, CLIENT, ENDPOINT, FlowKind::Request),
        (CLIENT, ENDPOINT, NODE, ENDPOINT, FlowKind::Forwarded),
        (ENDPOINT, NODE, ENDPOINT, CLIENT, FlowKind::Unmasquerade),
        (ENDPOINT, CLIENT, FRONTEND, CLIENT, FlowKind::Reply),
    ];
    let entries = entries.into_iter().zip(seen).zip(flags);
    let entries = entries.map(|(((from, to, source, destination, kind), seen), flags)| {
        let flow = Flow {
            source: Addr::v4(source.0),
            destination: Addr::v4(destination.0),
            source_port: source.1,
            destination_port: destination.1,
            kind: kind as u8,
            flags,
            service: 1,
            seen_seconds: seen,
            ..Flow::default()
        };
        (tuple(protocol, from, to), flow)
    });
    entries.collect()
}
