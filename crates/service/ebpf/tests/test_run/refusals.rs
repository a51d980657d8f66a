//! Which refusals are answered, and how many.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::test_run::harness::{Bench, DROP, REDIRECT, families, run};
use crate::test_run::packets::{ETHERNET, Kind, fragment, init, is_ipv6, packet};

fn transport(packet: &[u8]) -> usize {
    ETHERNET + if is_ipv6(packet) { 40 } else { 20 }
}

/// Changes a word of a packet of TCP, and its checksum with it.
fn with_word(mut packet: Vec<u8>, at: usize, word: u16) -> Vec<u8> {
    let checksum = transport(&packet) + 16;
    let read = |bytes: &[u8], at: usize| u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    // RFC 1624: HC' = ~(~HC + ~m + m').
    let sum = (0xffff ^ read(&packet, checksum)) + (0xffff ^ read(&packet, at)) + u32::from(word);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = u16::try_from((sum & 0xffff) + (sum >> 16)).expect("it is folded");
    packet[at..at + 2].copy_from_slice(&word.to_be_bytes());
    packet[checksum..checksum + 2].copy_from_slice(&(!sum).to_be_bytes());
    packet
}

#[track_caller]
fn check(bench: &Bench, sent: &[u8], action: i32, about: &str) {
    assert_eq!(bench.arrive(sent).action, action, "{about}");
}

fn client(text: &str, port: u16) -> SocketAddr {
    (text.parse::<IpAddr>().expect("an address"), port).into()
}

/// One client gets a few answers, whatever it sends; the next gets its own; and all together get no more than the node gives.
#[test]
fn answers_are_limited() {
    run("limited", |bench| {
        let [it, other] = families();
        let begin = Instant::now();
        let answers = |clients: &mut dyn Iterator<Item = SocketAddr>, to, kind| {
            let sent = clients.map(|from| packet(kind, from, to));
            sent.filter(|it| bench.arrive(it).action == REDIRECT)
                .count() as u128
        };
        let one = answers(&mut (0..1000).map(|_| it.client), it.empty, Kind::Syn);
        let grown = begin.elapsed().as_millis() / 10 + 1;
        assert!((20..=20 + grown).contains(&one), "{one} in {grown}");
        let next = answers(
            &mut std::iter::once(other.client),
            other.empty,
            Kind::Datagram,
        );
        assert_eq!(next, 1, "another client");
        let begin = Instant::now();
        let mut many =
            (0..2000_u32).map(|it| (IpAddr::from((0xc612_0001 + it).to_be_bytes()), 1).into());
        let all = answers(&mut many, it.empty, Kind::Datagram);
        let grown = begin.elapsed().as_millis() + 1;
        assert!((1..=50 + grown).contains(&all), "{all} in {grown} ms");
        let open = packet(Kind::Syn, it.client, it.open);
        assert_ne!(bench.arrive(&open).action, DROP, "connections go on");
    });
}

/// The kernel discards these before anything could answer them.
#[test]
fn wrong_checksums_get_no_answer() {
    run("checksums", |bench| {
        for it in families() {
            for kind in [Kind::Syn, Kind::Datagram] {
                let right = packet(kind, it.client, it.empty);
                check(bench, &right, REDIRECT, "right");
                let field = transport(&right) + if kind == Kind::Syn { 16 } else { 6 };
                let mut wrong = right.clone();
                wrong[field] ^= 1;
                check(bench, &wrong, DROP, "a wrong checksum");
                // A pod's packet whose checksum the network card would complete.
                let mut partial = right.clone();
                let pseudo = pseudo_header(&right);
                partial[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
                check(
                    bench,
                    &partial,
                    REDIRECT,
                    "a checksum of addresses and length",
                );
                if !is_ipv6(&right) {
                    let mut wrong = right.clone();
                    wrong[ETHERNET + 10] ^= 1;
                    check(bench, &wrong, DROP, "a wrong checksum of the header");
                }
            }
            let mut none = packet(Kind::Datagram, it.client, it.empty);
            let field = transport(&none) + 6;
            none[field..field + 2].fill(0);
            // RFC 8200, 8.1: IPv6 wants one.
            let action = if is_ipv6(&none) { DROP } else { REDIRECT };
            check(bench, &none, action, "no checksum");
        }
        let [it, _] = families();
        // Its checksum is that of the whole datagram, and the kernel of a machine refuses that.
        let first = fragment(it.client, it.empty, true);
        check(bench, &first, DROP, "a first fragment");
    });
}

/// The checksum of SCTP is that of the whole packet, but for one that a card would complete: it has none.
#[test]
fn wrong_checksums_of_sctp_get_no_answer() {
    run("checksums-sctp", |bench| {
        for it in families() {
            let none = init(it.client, it.empty, 0);
            let right = crc(&none[transport(&none)..]);
            check(bench, &none, REDIRECT, "no checksum yet");
            for (checksum, action) in [(right, REDIRECT), (right ^ 1, DROP), (!right, DROP)] {
                let sent = init(it.client, it.empty, checksum);
                check(bench, &sent, action, "a checksum");
            }
            let sent = init(it.client, it.empty, right);
            check(bench, &sent[..sent.len() - 4], DROP, "a packet that is cut");
        }
    });
}

/// CRC-32C, bit by bit (RFC 9260, appendix A).
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc))
    })
}

/// The sum of addresses, protocol and length, which a sender leaves in the checksum's field.
fn pseudo_header(packet: &[u8]) -> u16 {
    let (addresses, protocol) = if is_ipv6(packet) {
        (&packet[ETHERNET + 8..ETHERNET + 40], packet[ETHERNET + 6])
    } else {
        (&packet[ETHERNET + 12..ETHERNET + 20], packet[ETHERNET + 9])
    };
    let length = packet.len() - transport(packet);
    let words = addresses
        .chunks(2)
        .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])));
    let sum = words.sum::<u32>() + u32::from(protocol) + u32::try_from(length).expect("short");
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).expect("it is folded")
}

/// No machine has these addresses, or it is this one, or many.
#[test]
fn sources_that_are_no_client_get_no_answer() {
    run("sources", |bench| {
        let [four, six] = families();
        let wrong = [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            // A broadcast, and the node's own.
            "192.0.2.255",
            "192.0.2.1",
            // A ClusterIP.
            "10.96.0.1",
        ];
        let wrong_v6 = ["::", "::1", "ff02::1", "2001:db8::1", "fd96::1"];
        let wrong = wrong.iter().map(|it| (it, four.empty));
        for (source, empty) in wrong.chain(wrong_v6.iter().map(|it| (it, six.empty))) {
            for kind in [Kind::Syn, Kind::Datagram] {
                let sent = packet(kind, client(source, 40_000), empty);
                check(bench, &sent, DROP, source);
            }
        }
        for it in [four, six] {
            let right = packet(Kind::Syn, it.client, it.empty);
            check(bench, &right, REDIRECT, "a neighbour");
            let mut to_all = right.clone();
            to_all[..6].fill(0xff);
            check(bench, &to_all, DROP, "to every machine of the link");
            to_all[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 1]);
            check(bench, &to_all, DROP, "to a group of machines");
            // SYN and RST.
            let reset = with_word(right.clone(), transport(&right) + 12, 0x5006);
            check(bench, &reset, DROP, "a reset");
            let push = with_word(right.clone(), transport(&right) + 12, 0x500a);
            check(bench, &push, REDIRECT, "no reset");
        }
    });
}
