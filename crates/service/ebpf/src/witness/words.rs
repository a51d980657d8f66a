//! Events in words. Pure.

use std::net::{IpAddr, SocketAddr};

use sluice_bpf_abi::{Addr, Counter, Event, EventKind, Hook, Tuple};
use sluice_plane::{Act, Sighting};

use super::connection::{Way, is_of_socket};

/// An event of a connection. `interface` is the name of the interface with a number.
pub(super) fn sighting(event: &Event, way: Way, interface: impl FnOnce(u32) -> String) -> Sighting {
    let (act, fate) = fate(event, way);
    let place = match event.hook {
        it if it == Hook::Ingress as u8 => format!("arrives through {}", interface(event.ifindex)),
        it if it == Hook::Egress as u8 => format!("leaves through {}", interface(event.ifindex)),
        _ => "a socket dials".to_owned(),
    };
    Sighting {
        place,
        packet: packet(&event.before),
        left: packet(&event.after),
        act,
        fate,
    }
}

fn packet(tuple: &Tuple) -> String {
    let (source, destination) = (source(tuple), destination(tuple));
    match (source.ip().is_unspecified(), source.port()) {
        (true, 0) => destination.to_string(),
        (true, port) => format!("port {port} → {destination}"),
        (false, _) => format!("{source} → {destination}"),
    }
}

fn source(tuple: &Tuple) -> SocketAddr {
    end(tuple.source, tuple.source_port)
}

fn destination(tuple: &Tuple) -> SocketAddr {
    end(tuple.destination, tuple.destination_port)
}

fn end(addr: Addr, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from(addr), port)
}

fn fate(event: &Event, way: Way) -> (Act, String) {
    let is = |kind: EventKind| event.kind == kind as u8;
    let to = destination(&event.after);
    match way {
        _ if is(EventKind::Passed) => (Act::Passed, "no Service's, goes on as it is".to_owned()),
        _ if is(EventKind::Rejected) => (Act::Rejected, format!("rejected: {}", reason(event))),
        _ if is(EventKind::Dropped) => (Act::Dropped, format!("dropped: {}", reason(event))),
        _ if is(EventKind::Opened) && event.before == event.after => (
            Act::Opened,
            "a connection that another node chose this endpoint for".to_owned(),
        ),
        _ if is(EventKind::Opened) => (Act::Opened, opened(event, to)),
        _ if is(EventKind::Tunnelled) => {
            let fate = format!("endpoint {to}, through the tunnel to its node");
            (Act::Carried, fate)
        }
        Way::Reply if event.before.protocol != event.after.protocol => {
            let fate = format!("an ICMP error about the connection, for the client {to}");
            (Act::Returned, fate)
        }
        Way::Request => (Act::Carried, carried(event, to)),
        Way::Reply => (Act::Returned, returned(event, to)),
    }
}

fn opened(event: &Event, to: SocketAddr) -> String {
    let from = source(&event.after);
    if is_of_socket(event) {
        format!("a frontend, connects to endpoint {to}")
    } else if event.before.source_port == event.after.source_port {
        format!("a frontend, endpoint {to} is chosen")
    } else {
        // Two connections from one client port to one endpoint.
        let port = from.port();
        format!("a frontend, endpoint {to} is chosen, from port {port}")
    }
}

fn carried(event: &Event, to: SocketAddr) -> String {
    let (old, new) = (source(&event.before), source(&event.after));
    let is_led = destination(&event.before) != to;
    match (is_led, old != new) {
        (true, false) => format!("led to its endpoint {to}"),
        (true, true) => format!("led to its endpoint {to}, from {new}"),
        (false, true) => format!("masqueraded as {new}"),
        (false, false) => "goes on as it is".to_owned(),
    }
}

fn returned(event: &Event, to: SocketAddr) -> String {
    let (old, new) = (source(&event.before), source(&event.after));
    let is_unmasked = destination(&event.before) != to;
    match (old != new, is_unmasked) {
        (false, false) => "goes on as it is".to_owned(),
        (true, false) => format!("comes from the frontend {new}"),
        (false, true) => format!("goes to the client {to}"),
        (true, true) => format!("comes from the frontend {new}, goes to the client {to}"),
    }
}

/// The reason of a denial, from its counter, of either family.
fn reason(event: &Event) -> &'static str {
    const REASONS: [(Counter, &str); 13] = [
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
            Counter::NoSourcePort,
            "open connections have every source port that it could get",
        ),
        (
            Counter::UnknownFragment,
            "a fragment whose first fragment was not seen",
        ),
        (Counter::Malformed, "it could not be rewritten"),
        (
            Counter::NoEndpointInSlot,
            "the frontend leads to a slot without an endpoint",
        ),
        (
            Counter::TooLongForTunnel,
            "too long for the tunnel: an ICMP error tells its sender the largest length",
        ),
        (
            Counter::UnknownConnection,
            "in the middle of a connection that no entry knows",
        ),
        (
            Counter::Unanswered,
            "it is rejected, but too many answers were sent just now, or its source or a checksum is wrong",
        ),
    ];
    let counter = u32::from(event.counter) & !1;
    let known = REASONS.iter().find(|(it, _)| *it as u32 == counter);
    known.map_or("for a reason that this version does not know", |(_, it)| it)
}

#[cfg(test)]
mod tests {
    use sluice_bpf_abi::{TCP, UDP};
    use sluice_model::Protocol;
    use sluice_plane::Watched;

    use super::super::connection::steps;
    use super::*;

    const CLIENT: &str = "10.244.0.2:40000";
    const FRONTEND: &str = "10.96.0.10:80";
    const ENDPOINT: &str = "10.244.1.7:8080";
    const NODE: &str = "172.18.0.2:2000";

    fn tuple(from: &str, to: &str, protocol: u8) -> Tuple {
        let [from, to]: [SocketAddr; 2] = [from, to].map(|it| it.parse().expect("an address"));
        Tuple {
            source: from.ip().into(),
            destination: to.ip().into(),
            source_port: from.port(),
            destination_port: to.port(),
            protocol: protocol.into(),
        }
    }

    fn event(hook: Hook, kind: EventKind, before: (&str, &str), after: (&str, &str)) -> Event {
        Event {
            time_ns: 0,
            before: tuple(before.0, before.1, TCP),
            after: tuple(after.0, after.1, TCP),
            ifindex: 7,
            hook: hook as u8,
            kind: kind as u8,
            counter: Counter::NoLocalEndpoints as u16 + 1,
            service: 0,
            padding: 0,
        }
    }

    /// Checks what is said of the connection from a port, or of the first.
    #[track_caller]
    fn check(events: &[Event], port: Option<u16>, expected: &[&str]) {
        let watched = Watched {
            client: Some([10, 244, 0, 2].into()),
            destination: FRONTEND.parse().expect("an address"),
            protocol: Protocol::Tcp,
        };
        let steps = steps(events, &watched, port).into_iter();
        let said = steps.map(|(event, way)| sighting(event, way, |it| format!("if{it}")));
        let said: Vec<String> = said
            .map(|it| format!("{}: {}", it.place, it.fate))
            .collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn a_masqueraded_connection_is_followed_there_and_back() {
        let (opened, later) = (EventKind::Opened, EventKind::Rewritten);
        let events = [
            event(
                Hook::Ingress,
                opened,
                (CLIENT, FRONTEND),
                (CLIENT, ENDPOINT),
            ),
            // Of somebody else, who dials the same.
            event(
                Hook::Ingress,
                opened,
                ("10.244.0.9:1", FRONTEND),
                ("10.244.0.9:1", ENDPOINT),
            ),
            event(Hook::Egress, later, (CLIENT, ENDPOINT), (NODE, ENDPOINT)),
            event(Hook::Ingress, later, (ENDPOINT, NODE), (ENDPOINT, CLIENT)),
            event(Hook::Egress, later, (ENDPOINT, CLIENT), (FRONTEND, CLIENT)),
            // The second packet.
            event(Hook::Ingress, later, (CLIENT, FRONTEND), (CLIENT, ENDPOINT)),
        ];
        let all = [
            "arrives through if7: a frontend, endpoint 10.244.1.7:8080 is chosen",
            "leaves through if7: masqueraded as 172.18.0.2:2000",
            "arrives through if7: goes to the client 10.244.0.2:40000",
            "leaves through if7: comes from the frontend 10.96.0.10:80",
        ];
        check(&events, None, &all);
        check(&events, Some(40_000), &all);
        check(&events, Some(40_001), &[]);
    }

    #[test]
    fn a_socket_without_an_address_is_followed_by_its_endpoint() {
        let unbound = ("0.0.0.0:0", FRONTEND);
        let events = [
            event(
                Hook::Socket,
                EventKind::Opened,
                unbound,
                ("0.0.0.0:0", ENDPOINT),
            ),
            event(
                Hook::Ingress,
                EventKind::Passed,
                (CLIENT, ENDPOINT),
                (CLIENT, ENDPOINT),
            ),
        ];
        let all = [
            "a socket dials: a frontend, connects to endpoint 10.244.1.7:8080",
            "arrives through if7: no Service's, goes on as it is",
        ];
        check(&events, None, &all);
    }

    #[test]
    fn denials_have_their_reason_in_both_families() {
        let dialled = (CLIENT, FRONTEND);
        let events = [event(Hook::Egress, EventKind::Dropped, dialled, dialled)];
        let reason = "the policy is Local and no endpoint on this node answers";
        check(
            &events,
            None,
            &[&format!("leaves through if7: dropped: {reason}")],
        );
    }

    #[test]
    fn errors_of_icmp_belong_to_the_connection() {
        let kind = EventKind::Rewritten;
        let mut error = event(Hook::Ingress, kind, (ENDPOINT, CLIENT), (FRONTEND, CLIENT));
        error.before.protocol = 1;
        error.before.source_port = 0;
        error.before.destination_port = 0;
        let request = event(Hook::Ingress, kind, (CLIENT, FRONTEND), (CLIENT, ENDPOINT));
        let mut other = request;
        other.before.protocol = UDP.into();
        let all = [
            "arrives through if7: led to its endpoint 10.244.1.7:8080",
            "arrives through if7: an ICMP error about the connection, for the client 10.244.0.2:40000",
        ];
        check(&[other, request, error], None, &all);
    }
}
