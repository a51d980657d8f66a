//! Which packets of TCP are believed: the one that is right, and the one that is nearly so.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sluice_bpf_abi::{Counter, Flow, FlowKind, TCP, Tuple, flow_flags};

use crate::test_run::becomes;
use crate::test_run::harness::{Bench, Family, families, run};
use crate::test_run::packets::{ACK, ETHERNET, FIN, RST, SYN, Segment, is_ipv6, segment};

/// What the endpoint says first.
const GREETING: &[u8] = b"welcome";
/// As both sides offer it.
const WINDOW: u32 = 500 << SCALE;
const SCALE: u8 = 7;

/// Who sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Endpoint,
}

/// A connection: both sides have sent something, and have acknowledged it.
struct Open {
    it: Family,
    /// The numbers behind what each side has sent.
    client_end: u32,
    endpoint_end: u32,
}

impl Open {
    /// Opens a connection whose numbers begin with these.
    fn new(bench: &Bench, it: Family, [client, endpoint]: [u32; 2]) -> Self {
        let open = Self {
            it,
            client_end: client.wrapping_add(1),
            endpoint_end: endpoint.wrapping_add(1).wrapping_add(length(GREETING)),
        };
        let base = Segment {
            window: 500,
            ..Segment::default()
        };
        let syn = Segment {
            flags: SYN,
            sequence: client,
            scale: Some(SCALE),
            ..base
        };
        let accept = Segment {
            flags: SYN | ACK,
            sequence: endpoint,
            acknowledged: open.client_end,
            scale: Some(SCALE),
            ..base
        };
        let answer = Segment {
            flags: ACK,
            sequence: open.client_end,
            acknowledged: endpoint.wrapping_add(1),
            ..base
        };
        let greeting = Segment {
            flags: ACK,
            sequence: endpoint.wrapping_add(1),
            acknowledged: open.client_end,
            payload: GREETING,
            ..base
        };
        let thanks = Segment {
            acknowledged: open.endpoint_end,
            ..answer
        };
        for (side, it) in [
            (Side::Client, syn),
            (Side::Endpoint, accept),
            (Side::Client, answer),
            (Side::Endpoint, greeting),
            (Side::Client, thanks),
        ] {
            assert!(open.sends(bench, side, it), "{it:?}");
        }
        open
    }

    /// A packet with numbers relative to those that are right.
    fn segment(&self, side: Side, flags: u8, sequence: i64, acknowledged: i64) -> Segment {
        let moved = |from: u32, by: i64| from.wrapping_add_signed(i32::try_from(by).expect("near"));
        let (own, other) = match side {
            Side::Client => (self.client_end, self.endpoint_end),
            Side::Endpoint => (self.endpoint_end, self.client_end),
        };
        Segment {
            flags,
            sequence: moved(own, sequence),
            acknowledged: moved(other, acknowledged),
            window: 500,
            ..Segment::default()
        }
    }

    /// Whether a packet is believed. It is rewritten whatever it says, and if it is not believed no entry changes.
    fn sends(&self, bench: &Bench, side: Side, it: Segment) -> bool {
        let (from, to) = self.addresses(side);
        self.passes(bench, side, &segment(from, to, it))
    }

    fn addresses(&self, side: Side) -> (SocketAddr, SocketAddr) {
        match side {
            Side::Client => (self.it.client, self.it.open),
            Side::Endpoint => (self.it.endpoint, self.it.client),
        }
    }

    fn passes(&self, bench: &Bench, side: Side, sent: &[u8]) -> bool {
        let unbelieved = unbelieved(bench);
        let before = entries(bench);
        let made = match side {
            Side::Client => {
                let arrived = bench.arrive(sent).packet;
                changes(sent, &arrived, self.it.client, self.it.endpoint);
                let left = bench.leave(&arrived).packet;
                assert_eq!(left, arrived);
                arrived
            }
            Side::Endpoint => bench.leave(sent).packet,
        };
        if side == Side::Endpoint {
            changes(sent, &made, self.it.open, self.it.client);
        }
        let is_believed = unbelieved == self::unbelieved(bench);
        if !is_believed {
            assert_eq!(entries(bench), before, "it changes nothing");
        }
        is_believed
    }

    /// The entry of a side's packets where they come first.
    fn flow(&self, bench: &Bench, side: Side) -> Flow {
        let (from, to) = self.addresses(side);
        entries(bench)[&tuple(from, to)]
    }
}

/// The packet has other addresses. Its checksums are right if they were.
#[track_caller]
fn changes(before: &[u8], after: &[u8], from: SocketAddr, to: SocketAddr) {
    let is_right = super::packets::read(before).is_some_and(|it| it.is_right);
    if is_right {
        becomes(before, after, from, to);
    } else {
        let read = super::packets::read(after).expect("it is whole");
        assert_eq!((read.from, read.to, read.is_right), (from, to, false));
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a few bytes")
}

fn tuple(from: SocketAddr, to: SocketAddr) -> Tuple {
    Tuple {
        source: from.ip().into(),
        destination: to.ip().into(),
        source_port: from.port(),
        destination_port: to.port(),
        protocol: TCP.into(),
    }
}

/// What FLOWS has, in the order of its keys.
fn entries(bench: &Bench) -> BTreeMap<Tuple, Flow> {
    let entries = bench.maps().flows.entries().expect("the map is read");
    entries.into_iter().collect()
}

fn unbelieved(bench: &Bench) -> u64 {
    let counted = bench.maps().counters.read(Counter::Unbelieved);
    counted.expect("the map is read").into_iter().sum()
}

/// Packets of an open connection: who, flags, the numbers relative to the right ones, whether it is believed.
const TABLE: &[(Side, u8, i64, i64, bool)] = {
    use Side::{Client, Endpoint};
    let window = WINDOW as i64;
    let near = 66_000;
    &[
        // Data, a keepalive, a packet once more, one behind a lost one, and the edges.
        (Client, ACK, 0, 0, true),
        (Endpoint, ACK, 0, 0, true),
        (Client, ACK, -1, 0, true),
        (Endpoint, ACK, -1, 0, true),
        (Client, ACK, -near, 0, true),
        (Client, ACK, -near - 1, 0, false),
        (Endpoint, ACK, window, 0, true),
        (Endpoint, ACK, window + 1, 0, false),
        (Client, ACK, window + 1, 0, false),
        // An old acknowledgement, and one of what was not sent.
        (Client, ACK | FIN, 0, -near, true),
        (Client, ACK | FIN, 0, -near - 1, false),
        (Client, ACK | FIN, 0, 1, false),
        (Endpoint, ACK | FIN, 0, 1, false),
        // The end of a side.
        (Client, ACK | FIN, 0, 0, true),
        (Endpoint, ACK | FIN, 0, 0, true),
        (Client, ACK | FIN, window, 0, true),
        (Client, ACK | FIN, window + 1, 0, false),
        (Client, FIN, 0, 0, false),
        (Client, 0, 0, 0, false),
        // A reset.
        (Client, RST, 0, 0, true),
        (Endpoint, RST, 0, 0, true),
        (Client, RST | ACK, 0, 0, true),
        (Endpoint, RST | ACK, 0, -3, true),
        (Client, RST, 1, 0, false),
        (Client, RST, -1, 0, false),
        (Endpoint, RST, 1, 0, false),
        (Endpoint, RST, -1, 0, false),
        (Client, RST | ACK, 1, 0, false),
        // Another connection with these ports.
        (Client, SYN, 0, 0, false),
        (Client, SYN, 700_000, 0, false),
        (Endpoint, SYN | ACK, 0, 0, false),
        (Endpoint, SYN | ACK, -1 - GREETING.len() as i64, 0, false),
        (Client, SYN | RST, 0, 0, false),
        (Client, SYN | FIN, 0, 0, false),
    ]
};

/// Each packet of the table at a new connection. Numbers wrap around.
#[test]
fn who_is_part_of_a_connection_is_believed() {
    run("believed", |bench| {
        let numbers = [[1000, 90_000_000], [u32::MAX - 1, u32::MAX - 3]];
        for (it, numbers) in families().into_iter().zip(numbers) {
            for ((side, flags, sequence, acknowledged, expected), port) in TABLE.iter().zip(1000..)
            {
                let mut it = it;
                it.client.set_port(port);
                let open = Open::new(bench, it, numbers);
                let sent = open.segment(*side, *flags, *sequence, *acknowledged);
                let case = format!("{side:?} {flags:#x} {sequence} {acknowledged}");
                assert_eq!(open.sends(bench, *side, sent), *expected, "{case}");
                let marks = open.flow(bench, *side).flags;
                for (flag, mark) in [(FIN, flow_flags::FIN), (RST, flow_flags::RST)] {
                    let is_marked = *expected && flags & flag != 0;
                    assert_eq!(marks & mark != 0, is_marked, "{case}");
                }
            }
        }
    });
}

/// With a wrong checksum nothing ends.
#[test]
fn wrong_checksums_end_nothing() {
    run("sums", |bench| {
        for it in families() {
            let open = Open::new(bench, it, [5, 7]);
            for side in [Side::Client, Side::Endpoint] {
                for flags in [RST, FIN | ACK] {
                    let (from, to) = open.addresses(side);
                    let right = segment(from, to, open.segment(side, flags, 0, 0));
                    let header = if is_ipv6(&right) { 40 } else { 20 };
                    let mut wrong = right.clone();
                    wrong[ETHERNET + header + 16] ^= 1;
                    assert!(!open.passes(bench, side, &wrong), "{side:?} {flags}");
                    if !is_ipv6(&right) {
                        // That of the IP header.
                        let mut wrong = right.clone();
                        wrong[ETHERNET + 10] ^= 1;
                        assert!(!open.passes(bench, side, &wrong), "{side:?} {flags}");
                    }
                }
                assert!(open.sends(bench, side, open.segment(side, FIN | ACK, 0, 0)));
            }
        }
    });
}

/// The last acknowledgement and the end of what was sent are two numbers while something is on its way.
#[test]
fn a_reset_is_at_the_acknowledgement_or_at_the_end() {
    run("edge", |bench| {
        for (sequence, expected) in [(0, true), (20, true), (10, false), (19, false), (21, false)] {
            for (mut it, port) in families().into_iter().zip(2000..) {
                it.client
                    .set_port(port + u16::try_from(sequence).expect("a small number") * 2);
                let open = Open::new(bench, it, [10, 20]);
                let data = Segment {
                    payload: b"twenty bytes of data",
                    ..open.segment(Side::Endpoint, ACK, 0, 0)
                };
                assert!(open.sends(bench, Side::Endpoint, data));
                let reset = open.segment(Side::Endpoint, RST, sequence, 0);
                assert_eq!(
                    open.sends(bench, Side::Endpoint, reset),
                    expected,
                    "{sequence}"
                );
            }
        }
    });
}

/// An endpoint without a server refuses. Only who knows the number of the SYN can.
#[test]
fn a_connection_is_refused() {
    run("refuses", |bench| {
        for it in families() {
            let open = Open {
                it,
                client_end: 1001,
                endpoint_end: 0,
            };
            let syn = open.segment(Side::Client, SYN, -1, 0);
            assert!(open.sends(bench, Side::Client, syn));
            for (flags, acknowledged, expected) in [
                (RST | ACK, 1, false),
                (RST | ACK, -1, false),
                (RST, 0, false),
                (RST | ACK, 0, true),
            ] {
                let reset = open.segment(Side::Endpoint, flags, 0, acknowledged);
                let case = format!("{flags} {acknowledged}");
                assert_eq!(open.sends(bench, Side::Endpoint, reset), expected, "{case}");
            }
            // The client dials once more, with numbers of its own.
            let again = Open::new(bench, it, [7_000_000, 8_000_000]);
            assert!(again.sends(bench, Side::Client, again.segment(Side::Client, ACK, 0, 0)));
        }
    });
}

/// Whoever sends a SYN between that of a client and its answer changes nothing for good.
#[test]
fn the_handshake_says_whose_numbers_are_right() {
    run("handshake", |bench| {
        for it in families() {
            let mut open = Open {
                it,
                client_end: 1001,
                endpoint_end: 0,
            };
            let syn = |sequence| open.segment(Side::Client, SYN, sequence, 0);
            assert!(open.sends(bench, Side::Client, syn(-1)));
            let accept = Segment {
                sequence: 5000,
                ..open.segment(Side::Endpoint, SYN | ACK, 0, 0)
            };
            assert!(open.sends(bench, Side::Endpoint, accept));
            assert!(open.sends(bench, Side::Client, syn(1_000_000)));
            open.endpoint_end = 5001;
            for (side, flags) in [
                (Side::Client, ACK),
                (Side::Endpoint, ACK),
                (Side::Client, ACK | FIN),
            ] {
                let sent = open.segment(side, flags, 0, 0);
                assert!(open.sends(bench, side, sent), "{side:?} {flags}");
            }
            assert_eq!(open.flow(bench, Side::Client).end, 1002);
        }
    });
}

/// A SYN of somebody else comes between that of a client and its answer. The answer tells whose the other one was.
#[test]
fn the_first_answer_tells_whose_the_syn_is() {
    run("first-answer", |bench| {
        for it in families() {
            let open = Open {
                it,
                client_end: 1001,
                endpoint_end: 5001,
            };
            for sequence in [-1, 3_000_000] {
                let syn = open.segment(Side::Client, SYN, sequence, 0);
                assert!(open.sends(bench, Side::Client, syn));
            }
            for (side, flags, sequence) in [
                (Side::Endpoint, SYN | ACK, -1),
                (Side::Client, ACK, 0),
                (Side::Endpoint, ACK, 0),
                (Side::Client, ACK, 0),
            ] {
                let sent = open.segment(side, flags, sequence, 0);
                assert!(open.sends(bench, side, sent), "{side:?} {flags}");
            }
            for side in [Side::Client, Side::Endpoint] {
                let flow = open.flow(bench, side);
                assert_ne!(flow.flags & flow_flags::ESTABLISHED, 0, "{side:?}");
            }
            // A second answer to another SYN is believed no more.
            let other = open.segment(Side::Endpoint, SYN | ACK, -1, 3_000_000);
            assert!(!open.sends(bench, Side::Endpoint, other));
        }
    });
}

/// Packets of a client open nothing before the endpoint has answered: under forged addresses they would keep an entry for as
/// long as an open connection is kept.
#[test]
fn nothing_opens_without_an_answer() {
    run("unanswered", |bench| {
        for it in families() {
            let open = Open {
                it,
                client_end: 1001,
                endpoint_end: 5001,
            };
            let is_open = |bench: &Bench| {
                let flow = open.flow(bench, Side::Client);
                flow.flags & flow_flags::ESTABLISHED != 0
            };
            let syn = open.segment(Side::Client, SYN, -1, 0);
            assert!(open.sends(bench, Side::Client, syn));
            let ack = open.segment(Side::Client, ACK, 0, 0);
            assert!(!open.sends(bench, Side::Client, ack));
            assert!(!is_open(bench));
            let accept = open.segment(Side::Endpoint, SYN | ACK, -1, 0);
            assert!(open.sends(bench, Side::Endpoint, accept));
            assert!(open.sends(bench, Side::Client, ack));
            assert!(is_open(bench));
        }
    });
}

/// A SYN from the port of an open connection goes to its endpoint, and again through a bridge or loopback. A client that
/// crashed resets the old connection with the number that it hears, and begins anew.
#[test]
fn a_port_is_used_again() {
    run("again", |bench| {
        for it in families() {
            let open = Open::new(bench, it, [100, 200]);
            let syn = segment(
                it.client,
                it.open,
                open.segment(Side::Client, SYN, 123_456_789, 0),
            );
            let before = entries(bench);
            let arrived = bench.arrive(&syn).packet;
            assert_eq!(bench.arrive_again(&arrived).packet, arrived);
            assert_eq!(bench.leave(&arrived).packet, arrived);
            assert_eq!(entries(bench), before, "it changes nothing");
            assert!(open.sends(
                bench,
                Side::Endpoint,
                open.segment(Side::Endpoint, ACK, 0, 0)
            ));
            assert!(open.sends(bench, Side::Client, open.segment(Side::Client, RST, 0, 0)));
            let again = Open::new(bench, it, [3_000_000_000, 4_000_000_000]);
            // One side has ended it: a SYN is still nobody's who is part of it.
            assert!(again.sends(
                bench,
                Side::Client,
                again.segment(Side::Client, FIN | ACK, 0, 0)
            ));
            assert!(!again.sends(bench, Side::Client, again.segment(Side::Client, SYN, 9, 0)));
        }
    });
}

/// Of an entry of an earlier version, or of a connection that began elsewhere, no numbers are known. A reset is written down
/// until the next packet, which is believed.
#[test]
fn unknown_numbers_are_learned() {
    run("unknown_numbers", |bench| {
        for it in families() {
            let open = Open::new(bench, it, [1, 2]);
            let forget = |bench: &mut Bench| {
                for (key, it) in entries(bench) {
                    let forgotten = Flow {
                        end: 0,
                        ack: 0,
                        window: 0,
                        scale: 0,
                        ..it
                    };
                    let flows = &mut bench.maps_mut().flows;
                    flows.insert(&key, &forgotten).expect("the map takes it");
                }
            };
            forget(bench);
            let reset = segment(it.client, it.open, open.segment(Side::Client, RST, 0, 0));
            bench.arrive(&reset);
            let request = open.flow(bench, Side::Client);
            assert_eq!(request.kind, FlowKind::Request as u8);
            assert_eq!(
                (request.unchecked_reset, request.flags & flow_flags::RST),
                (1, 0)
            );
            let data = open.segment(Side::Client, ACK, 0, 0);
            assert!(open.sends(bench, Side::Client, data));
            assert_eq!(open.flow(bench, Side::Client).unchecked_reset, 0);
            // The endpoint has said nothing: the client's own end must do.
            assert!(!open.sends(bench, Side::Client, open.segment(Side::Client, RST, 1, 0)));
            assert!(open.sends(
                bench,
                Side::Endpoint,
                open.segment(Side::Endpoint, ACK, 0, 0)
            ));
            assert!(!open.sends(
                bench,
                Side::Endpoint,
                open.segment(Side::Endpoint, RST, -1, 0)
            ));
            assert!(open.sends(
                bench,
                Side::Endpoint,
                open.segment(Side::Endpoint, RST, 0, 0)
            ));
            // Nearly the same after the next forgetting: nobody's numbers.
            forget(bench);
            let far = open.segment(Side::Client, ACK, 1_500_000_000, 0);
            assert!(open.sends(bench, Side::Client, far));
        }
    });
}
