//! Each path of the programs with packets of bytes: `BPF_PROG_TEST_RUN`.

mod beside_rules;
mod dns;
mod full;
mod harness;
mod netfilter;
mod older;
mod owners;
mod packets;
mod refusals;
mod source;
mod tunnel;
mod window;

use std::cell::RefCell;
use std::net::SocketAddr;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluice_bpf_abi::node_flags;

use harness::{Bench, DROP, GO_ON, REDIRECT, families, run};
use packets::{
    ETHERNET, Kind, PAYLOAD, Read, fragment, is_ipv6, packet, read, shortest, unfragmentable,
    with_options,
};

const KINDS: [Kind; 2] = [Kind::Syn, Kind::Datagram];

/// The packet is the same but for these addresses, and its checksums are right.
#[track_caller]
fn becomes(before: &[u8], after: &[u8], from: SocketAddr, to: SocketAddr) {
    let wanted = Read {
        from,
        to,
        ..read(before).expect("it was whole")
    };
    assert_eq!(read(after).as_ref(), Some(&wanted));
    assert_eq!(before.len(), after.len());
    assert_eq!(before[..ETHERNET], after[..ETHERNET]);
}

#[test]
fn a_connection_is_led_and_its_answers_come_from_the_frontend() {
    run("led", |bench| {
        for it in families() {
            for kind in [Kind::Syn, Kind::Data, Kind::Datagram] {
                let sent = packet(kind, it.client, it.open);
                let made = bench.arrive(&sent);
                assert_eq!(made.action, GO_ON, "{kind:?}");
                becomes(&sent, &made.packet, it.client, it.endpoint);
                let out = bench.leave(&made.packet);
                assert_eq!(out.action, GO_ON);
                assert_eq!(out.packet, made.packet);
                let answer = packet(kind, it.endpoint, it.client);
                assert_eq!(bench.arrive(&answer).packet, answer);
                let made = bench.leave(&answer);
                assert_eq!(made.action, GO_ON);
                becomes(&answer, &made.packet, it.open, it.client);
            }
        }
    });
}

#[test]
fn a_masqueraded_connection_leaves_from_the_node() {
    run("masqueraded", |bench| {
        for it in families() {
            for kind in KINDS {
                let sent = packet(kind, it.client, it.masqueraded);
                let arrived = bench.arrive(&sent).packet;
                becomes(&sent, &arrived, it.client, it.endpoint);
                let left = bench.leave(&arrived).packet;
                let source = read(&left).expect("it is whole").from;
                assert_eq!(source.ip(), it.node);
                assert!(
                    matches!(source.port(), 1024..=29_999 | 61_000..),
                    "{source}"
                );
                becomes(&arrived, &left, source, it.endpoint);
                let answer = packet(kind, it.endpoint, source);
                let arrived = bench.arrive(&answer).packet;
                becomes(&answer, &arrived, it.endpoint, it.client);
                let left = bench.leave(&arrived).packet;
                becomes(&arrived, &left, it.masqueraded, it.client);
            }
        }
    });
}

#[test]
fn what_has_no_endpoint_is_refused() {
    run("refused", |bench| {
        for it in families() {
            let sent = packet(Kind::Syn, it.client, it.empty);
            let made = bench.arrive(&sent);
            assert_eq!(made.action, REDIRECT);
            let reset = read(&made.packet).expect("it is whole");
            assert_eq!((reset.from, reset.to), (it.empty, it.client));
            // The number of the SYN, and one.
            assert_eq!(reset.reset, Some(1001));
            assert!(reset.is_right);
            let made = bench.arrive(&packet(Kind::Datagram, it.client, it.empty));
            assert_eq!(made.action, REDIRECT);
            assert_eq!(read(&made.packet), None, "it is an ICMP error");
        }
    });
}

#[test]
fn an_address_of_no_service_is_dropped_and_others_pass() {
    run("passes", |bench| {
        for it in families() {
            for kind in KINDS {
                let sent = packet(kind, it.client, it.unallocated);
                assert_eq!(bench.arrive(&sent).action, DROP);
                let other = packet(kind, it.client, (it.node, 443).into());
                for made in [bench.arrive(&other), bench.leave(&other)] {
                    assert_eq!(made.action, GO_ON);
                    assert_eq!(made.packet, other);
                }
            }
            // Of a connection that somebody else carries.
            let sent = packet(Kind::Data, it.client, it.masqueraded);
            assert_eq!(bench.arrive(&sent).packet, sent);
        }
    });
}

/// A packet of TCP in the middle of a connection that no entry knows, once netfilter has none of these any more: the
/// frontend resets it with the number that the packet acknowledges, and enters nothing. Nearly the same packets pass.
#[test]
fn an_unknown_connection_is_reset() {
    run("unknown", |bench| {
        bench.change_node(|it| it.flags |= node_flags::CARRIES_ALL);
        for it in families() {
            for kind in [Kind::Data, Kind::Fin] {
                for frontend in [it.open, it.masqueraded] {
                    let made = bench.arrive(&packet(kind, it.client, frontend));
                    assert_eq!(made.action, REDIRECT, "{kind:?}");
                    let reset = read(&made.packet).expect("it is whole");
                    assert_eq!((reset.from, reset.to), (frontend, it.client));
                    assert!(reset.is_right && reset.payload.is_empty(), "{reset:?}");
                    assert_eq!(reset.reset, Some(0));
                    let header = &made.packet[made.packet.len() - 20..];
                    assert_eq!(header[4..8], 77_u32.to_be_bytes(), "its number");
                    assert_eq!(header[12..14], [0x50, 4], "no options, RST alone");
                }
            }
            // A reset, and a packet that acknowledges nothing.
            for flags in [4, 0] {
                let mut sent = packet(Kind::Data, it.client, it.open);
                let at = sent.len() - PAYLOAD.len() - 7;
                sent[at] = flags;
                let made = bench.arrive(&sent);
                assert_eq!((made.action, &made.packet), (GO_ON, &sent), "{flags}");
            }
        }
        let entries = bench.maps_mut().flows.entries().expect("the map is read");
        assert!(entries.is_empty(), "{entries:?}");
    });
}

/// What the node sends to its own address has the length that loopback takes: routers may fragment it on the way to the
/// endpoint. What leaves elsewhere, or is of TCP, stays as its sender wants it.
#[test]
fn own_datagrams_may_be_fragmented() {
    run("own", |bench| {
        let [it, _] = families();
        let flags = |packet: &[u8]| {
            (
                packet[ETHERNET + 4..ETHERNET + 6].to_vec(),
                packet[ETHERNET + 6],
            )
        };
        let datagram = packet(Kind::Datagram, it.client, it.open);
        for id in [0, 0x1234] {
            let sent = unfragmentable(&datagram, id);
            let (id, _) = flags(&sent);
            let made = bench.leave_through_loopback(&sent);
            assert_eq!(made.action, REDIRECT);
            let (new, may_not) = flags(&made.packet);
            assert_eq!(may_not, 0);
            assert!(new != [0, 0] && (new == id || id == [0, 0]), "{new:?}");
            let after = read(&made.packet).expect("it is whole");
            assert!(after.is_right, "{after:?}");
            let made = bench.leave(&sent);
            assert_eq!(flags(&made.packet), (id, 0x40));
        }
        let sent = unfragmentable(&packet(Kind::Syn, it.client, it.open), 7);
        let made = bench.leave_through_loopback(&sent);
        assert_eq!(flags(&made.packet), flags(&sent));
    });
}

/// Whoever goes on from the same port after a reset has a connection that did not end.
#[test]
fn a_port_is_used_again() {
    run("again", |bench| {
        for it in families() {
            bench.arrive(&packet(Kind::Syn, it.client, it.open));
            bench.leave(&packet(Kind::Accept, it.endpoint, it.client));
            bench.arrive(&packet(Kind::Fin, it.client, it.open));
            bench.leave(&packet(Kind::Fin, it.endpoint, it.client));
            for kind in [Kind::Syn, Kind::Data] {
                let sent = packet(kind, it.client, it.open);
                becomes(&sent, &bench.arrive(&sent).packet, it.client, it.endpoint);
            }
        }
    });
}

/// A client dials the endpoint itself from the port of a connection to the Service that has ended: nothing of that
/// one touches the new one's answers.
#[test]
fn an_ended_connection_gives_way() {
    run("way", |bench| {
        for it in families() {
            bench.arrive(&packet(Kind::Syn, it.client, it.open));
            for kind in [Kind::Syn, Kind::Data, Kind::Fin] {
                bench.leave(&bench.arrive(&packet(kind, it.client, it.open)).packet);
                bench.leave(&packet(kind, it.endpoint, it.client));
            }
            let direct = packet(Kind::Syn, it.client, it.endpoint);
            assert_eq!(bench.arrive(&direct).packet, direct);
            assert_eq!(bench.leave(&direct).packet, direct);
            let answer = packet(Kind::Data, it.endpoint, it.client);
            assert_eq!(bench.leave(&answer).packet, answer);
        }
    });
}

#[test]
fn options_and_fragments() {
    run("options", |bench| {
        let [it, _] = families();
        let sent = with_options(it.client, it.open);
        let made = bench.arrive(&sent);
        becomes(&sent, &made.packet, it.client, it.endpoint);
        // A later fragment has no ports; the first said which they are.
        let later = fragment(it.client, it.open, false);
        let first = bench.arrive(&fragment(it.client, it.open, true));
        let made = bench.arrive(&later);
        assert_eq!((first.action, made.action), (GO_ON, GO_ON));
        let endpoint = it.endpoint.ip().to_string().parse::<std::net::Ipv4Addr>();
        let endpoint = endpoint.expect("an address").octets();
        for packet in [&first.packet, &made.packet] {
            assert_eq!(packet[ETHERNET + 16..ETHERNET + 20], endpoint);
        }
        // What follows the addresses is payload here.
        assert_eq!(made.packet[ETHERNET + 20..], later[ETHERNET + 20..]);
    });
}

/// A datagram without a checksum gets none.
#[test]
fn no_checksum_stays_none() {
    run("sum", |bench| {
        let [it, _] = families();
        let mut sent = packet(Kind::Datagram, it.client, it.open);
        sent[ETHERNET + 26..ETHERNET + 28].fill(0);
        let made = bench.arrive(&sent).packet;
        assert_eq!(made[ETHERNET + 26..ETHERNET + 28], [0, 0]);
        becomes(&sent, &made, it.client, it.endpoint);
    });
}

/// An endpoint's "port unreachable" reaches the client as the frontend's, about the packet that it sent.
#[test]
fn errors_are_translated() {
    run("errors", |bench| {
        let [it, _] = families();
        let sent = packet(Kind::Datagram, it.client, it.open);
        let inside = bench.arrive(&sent).packet;
        let SocketAddr::V4(client) = it.client else {
            unreachable!("the first family is IPv4");
        };
        let SocketAddr::V4(endpoint) = it.endpoint else {
            unreachable!("the first family is IPv4");
        };
        let mut error = Vec::new();
        let unreachable = etherparse::Icmpv4Type::DestinationUnreachable(
            etherparse::icmpv4::DestUnreachableHeader::Port,
        );
        etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(endpoint.ip().octets(), client.ip().octets(), 60)
            .icmpv4(unreachable)
            .write(&mut error, &inside[ETHERNET..ETHERNET + 28])
            .expect("a buffer grows");
        let made = bench.leave(&error);
        assert_eq!(made.action, GO_ON);
        let ip = &made.packet[ETHERNET..];
        assert_eq!(ip[12..16], [10, 96, 0, 1], "from the frontend");
        let about = &ip[28..];
        assert_eq!(
            about[16..20],
            [10, 96, 0, 1],
            "about a packet to the frontend"
        );
        assert_eq!(about[22..24], 80_u16.to_be_bytes());
        let sum = |bytes: &[u8]| {
            let words = bytes
                .chunks(2)
                .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])));
            let sum: u32 = words.sum();
            (sum & 0xffff) + (sum >> 16)
        };
        assert_eq!(sum(&ip[20..]), 0xffff, "the message's checksum");
        assert_eq!(sum(&about[..20]), 0xffff, "the inner header's checksum");
    });
}

/// Nobody has an IPv6 address that is a mapped one of IPv4.
#[test]
fn packets_with_mapped_addresses_pass() {
    run("mapped", |bench| {
        let mapped = |it: SocketAddr| match it {
            SocketAddr::V4(it) => SocketAddr::new(it.ip().to_ipv6_mapped().into(), it.port()),
            it @ SocketAddr::V6(_) => it,
        };
        let [four, _] = families();
        for kind in KINDS {
            for to in [four.open, four.masqueraded, four.empty, four.unallocated] {
                let sent = packet(kind, mapped(four.client), mapped(to));
                let made = bench.arrive(&sent);
                assert_eq!((made.action, made.packet), (GO_ON, sent));
            }
        }
        let entries = bench.maps().flows.entries().expect("they are listed");
        assert!(entries.is_empty(), "{entries:?}");
    });
}

/// An ICMP error quotes a first fragment that nobody has sent: the later ones of that datagram find no ports by it.
#[test]
fn what_an_error_quotes_is_no_fragment() {
    run("quoted", |bench| {
        let [it, _] = families();
        let (SocketAddr::V4(client), SocketAddr::V4(open)) = (it.client, it.open) else {
            unreachable!("the first family is IPv4");
        };
        let first = fragment(it.client, it.open, true);
        let mut error = Vec::new();
        let unreachable = etherparse::Icmpv4Type::DestinationUnreachable(
            etherparse::icmpv4::DestUnreachableHeader::Port,
        );
        etherparse::PacketBuilder::ethernet2([2; 6], [2, 0, 0, 0, 0, 8])
            .ipv4(open.ip().octets(), client.ip().octets(), 60)
            .icmpv4(unreachable)
            .write(&mut error, &first[ETHERNET..ETHERNET + 28])
            .expect("a buffer grows");
        bench.arrive(&error);
        // It is kept until its first fragment comes.
        let later = fragment(it.client, it.open, false);
        assert_eq!(bench.arrive(&later).action, DROP);
        bench.arrive(&first);
        assert_eq!(bench.arrive(&later).action, GO_ON);
    });
}

/// What every packet has to stand: the program ends with a known action; what it passes on with right checksums
/// had right ones; and only packets of Services change.
fn stands(bench: &Bench, sent: &[u8]) -> Result<(), TestCaseError> {
    // The kernel runs no program with less than an IP header.
    if sent.len() < ETHERNET + shortest(sent) {
        return Ok(());
    }
    let known = read(sent);
    for made in [bench.arrive(sent), bench.leave(sent)] {
        prop_assert!(
            [GO_ON, DROP, REDIRECT].contains(&made.action),
            "{}",
            made.action
        );
        if made.action != GO_ON {
            continue;
        }
        let services: Vec<_> = families()
            .iter()
            .flat_map(|it| [it.open, it.masqueraded])
            .collect();
        match &known {
            Some(it) if it.is_right => {
                let after = read(&made.packet);
                prop_assert!(
                    after.is_some_and(|after| after.is_right && after.payload == it.payload)
                );
            }
            _ => {}
        }
        let ends: Vec<_> = services
            .iter()
            .copied()
            .chain(families().map(|it| it.endpoint))
            .collect();
        let is_ours = known
            .as_ref()
            .is_none_or(|it| ends.contains(&it.from) || ends.contains(&it.to));
        if !is_ours {
            prop_assert_eq!(&made.packet, sent);
        }
    }
    Ok(())
}

/// A packet that ends anywhere.
#[test]
fn truncated_packets() {
    run("truncated", |bench| {
        for it in families() {
            for kind in [Kind::Syn, Kind::Data, Kind::Datagram] {
                let whole = packet(kind, it.client, it.open);
                for length in ETHERNET + 1..whole.len() {
                    stands(bench, &whole[..length]).expect("it stands");
                }
            }
        }
    });
}

/// Packets with any bytes changed, and packets of nothing but chance.
#[test]
fn fuzzed_packets() {
    run("fuzzed", |bench| {
        let bench = RefCell::new(bench);
        let it = families();
        let seed = (0..2_usize, 0..3_usize, 0..3_usize);
        let changes = prop::collection::vec((ETHERNET - 2..120_usize, any::<u8>()), 0..6);
        let chance = prop::collection::vec(any::<u8>(), 20..200);
        let mut runner = TestRunner::new(Config::with_cases(2000));
        let result = runner.run(
            &(seed, changes, chance),
            |((family, kind, way), changes, chance)| {
                let it = it[family];
                let kind = [Kind::Syn, Kind::Data, Kind::Datagram][kind];
                let (from, to) = [
                    (it.client, it.open),
                    (it.client, it.masqueraded),
                    (it.endpoint, it.client),
                ][way];
                let mut sent = packet(kind, from, to);
                for (at, byte) in changes {
                    if let Some(place) = sent.get_mut(at) {
                        *place = byte;
                    }
                }
                let bench = bench.borrow();
                stands(&bench, &sent)?;
                let mut frame = sent[..ETHERNET].to_vec();
                if is_ipv6(&chance) {
                    frame[12..14].copy_from_slice(&0x86dd_u16.to_be_bytes());
                }
                frame.extend(chance);
                stands(&bench, &frame)
            },
        );
        result.expect("every packet stands");
    });
}
