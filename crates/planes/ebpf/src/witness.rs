//! What the programs did with packets, from the ring buffer EVENTS.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sluice_bpf::{BpfError, Events, Maps, Pins};
use sluice_bpf_abi::{Addr, Counter, Event, EventKind, Hook, SCTP, TCP, Tuple, UDP, node_flags};
use sluice_netlink::rtnetlink::{Link, links};
use sluice_plane::{Sighting, Witness};
use tracing::debug;

use crate::leftovers::PINS;

/// A watch of one address.
pub(crate) struct EventWitness {
    events: Events,
    maps: Maps,
    links: Vec<Link>,
}

impl EventWitness {
    /// Watches the packets of an address; `None` when no programs are pinned in this network namespace.
    pub(crate) fn open(address: IpAddr, time: Duration) -> Result<Option<Self>, BpfError> {
        let pins = Pins::of_namespace(Path::new(PINS))?;
        if !pins.exist() {
            return Ok(None);
        }
        Self::at(&pins, address, time).map(Some)
    }

    pub(crate) fn at(pins: &Pins, address: IpAddr, time: Duration) -> Result<Self, BpfError> {
        let mut witness = Self {
            events: Events::open(pins)?,
            maps: Maps::open(pins)?,
            links: links().unwrap_or_default(),
        };
        // What somebody else left.
        while witness.events.take().is_some() {}
        let mut node = witness.maps.node()?;
        node.flags |= node_flags::TRACE;
        node.trace = address.into();
        node.trace_until_ns = now() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
        witness.maps.set_node(&node)?;
        Ok(witness)
    }

    fn sighting(&self, event: &Event) -> Sighting {
        Sighting {
            place: self.place(event),
            packet: text(&event.before),
            fate: fate(event),
        }
    }

    fn place(&self, event: &Event) -> String {
        let link = self.links.iter().find(|it| it.index == event.ifindex);
        let name = link.map_or_else(|| event.ifindex.to_string(), |it| it.name.clone());
        match event.hook {
            it if it == Hook::Ingress as u8 => format!("arrives through {name}"),
            it if it == Hook::Egress as u8 => format!("leaves through {name}"),
            _ => "a socket".to_owned(),
        }
    }
}

impl Witness for EventWitness {
    fn seen(&mut self) -> Vec<Sighting> {
        let mut seen = Vec::new();
        while let Some(event) = self.events.take() {
            seen.push(self.sighting(&event));
        }
        seen
    }
}

impl Drop for EventWitness {
    fn drop(&mut self) {
        let node = self.maps.node().and_then(|mut node| {
            node.flags &= !node_flags::TRACE;
            self.maps.set_node(&node)
        });
        // They stop by themselves when the time is over.
        if let Err(error) = node {
            debug!(%error, "programs go on to write events");
        }
    }
}

/// The clock of the programs.
fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX / 2)
}

fn text(tuple: &Tuple) -> String {
    let end = |addr: Addr, port| SocketAddr::new(addr.into(), port);
    let protocol = match u8::try_from(tuple.protocol & Tuple::PROTOCOL) {
        Ok(TCP) => "tcp".to_owned(),
        Ok(UDP) => "udp".to_owned(),
        Ok(SCTP) => "sctp".to_owned(),
        _ => format!("protocol {}", tuple.protocol),
    };
    let to = end(tuple.destination, tuple.destination_port);
    match tuple.source == Addr::default() && tuple.source_port == 0 {
        // A socket has no address yet.
        true => format!("to {to}/{protocol}"),
        false => format!("{} > {to}/{protocol}", end(tuple.source, tuple.source_port)),
    }
}

fn fate(event: &Event) -> String {
    let becomes = || match event.before == event.after {
        true => "goes on as it is".to_owned(),
        false => format!("becomes {}", text(&event.after)),
    };
    let is = |kind: EventKind| event.kind == kind as u8;
    match () {
        () if is(EventKind::Passed) => "of no Service".to_owned(),
        () if is(EventKind::Opened) => format!("a new connection, {}", becomes()),
        () if is(EventKind::Rewritten) => becomes(),
        () if is(EventKind::Tunnelled) => format!("{}, through the tunnel to its node", becomes()),
        () if is(EventKind::Rejected) => format!("rejected: {}", reason(event.counter)),
        () => format!("dropped: {}", reason(event.counter)),
    }
}

/// The reason of a denial, from its counter, of either family.
fn reason(counter: u16) -> &'static str {
    const REASONS: [(Counter, &str); 8] = [
        (Counter::NoEndpoints, "no endpoint anywhere answers"),
        (Counter::UndefinedPort, "the ClusterIP has no such port"),
        (
            Counter::NoLocalEndpoints,
            "the policy is Local and no endpoint on this node answers",
        ),
        (
            Counter::SourceRanges,
            "the source is outside loadBalancerSourceRanges",
        ),
        (
            Counter::UnallocatedClusterIp,
            "no Service has this address of the ServiceCIDR",
        ),
        (Counter::FlowsFull, "the table of connections took no entry"),
        (
            Counter::NoMasqueradePort,
            "no source port is left to masquerade with",
        ),
        (Counter::Malformed, "it could not be rewritten"),
    ];
    let known = REASONS
        .iter()
        .find(|(it, _)| *it as u32 == u32::from(counter) & !1);
    known.map_or("see sluice_dropped_packets_total", |(_, why)| why)
}
