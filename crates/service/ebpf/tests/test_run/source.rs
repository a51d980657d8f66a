//! Which sources pods' packets may have.

use std::net::{IpAddr, SocketAddr};

use sluice_bpf::Prefix;
use sluice_bpf_abi::{Addr, Counter, Flow, ROUTED_PREFIX, RoutedKey, Tuple};

use crate::test_run::harness::{Bench, Family, GO_ON, families, run};
use crate::test_run::packets::{ACK, Kind, Segment, packet, segment};
use crate::test_run::{KINDS, becomes};

/// Pods with these addresses are behind the interface.
fn expect_pods(bench: &mut Bench, back: u32, pods: &[(&str, u32)]) {
    let ifindex = bench.ifindex();
    let maps = bench.maps_mut();
    for (addr, length) in pods {
        let addr = Addr::from(addr.parse::<IpAddr>().expect("an address"));
        let key = RoutedKey {
            interface: back,
            addr,
        };
        let key = Prefix::new(ROUTED_PREFIX + length, key);
        maps.routed.insert(&key, &1).expect("the map takes it");
    }
    let known = maps.interfaces.get(&ifindex).expect("the map is read");
    let mut interface = known.expect("the agent knows the interface");
    interface.back = back;
    let written = maps.interfaces.insert(&ifindex, &interface);
    written.expect("the map takes it");
}

fn entries(bench: &Bench) -> Vec<(Tuple, Flow)> {
    let mut entries = bench.maps().flows.entries().expect("the map is read");
    entries.sort_by_key(|(key, _)| *key);
    entries
}

fn foreign(bench: &Bench) -> u64 {
    let counted = bench.maps().counters.read(Counter::ForeignSource);
    counted.expect("the map is read").into_iter().sum()
}

/// An address next to another one.
fn next(of: SocketAddr) -> SocketAddr {
    let ip = match of.ip() {
        IpAddr::V4(ip) => IpAddr::from((ip.to_bits() + 1).to_be_bytes()),
        IpAddr::V6(ip) => IpAddr::from((ip.to_bits() + 1).to_be_bytes()),
    };
    (ip, of.port()).into()
}

/// It passes as it is, and changes nothing.
#[track_caller]
fn is_refused(bench: &Bench, sent: &[u8]) {
    let (before, counted) = (entries(bench), foreign(bench));
    let made = bench.arrive(sent);
    assert_eq!((made.action, &made.packet[..]), (GO_ON, sent));
    assert_eq!(entries(bench), before);
    assert_eq!(foreign(bench), counted + 1);
}

#[track_caller]
fn is_led(bench: &Bench, it: &Family, kind: Kind, from: SocketAddr) {
    let sent = packet(kind, from, it.open);
    let made = bench.arrive(&sent).packet;
    becomes(&sent, &made, from, it.endpoint);
}

/// Only sources that are routed back there open a connection: those of the pods, and what is routed to a pod.
#[test]
fn pods_have_their_own_sources() {
    run("sources", |bench| {
        // Number of the bridge.
        let back = 77;
        let pods = [
            ("192.0.2.7", 128),
            ("198.51.100.0", 96 + 24),
            ("2001:db8::7", 128),
            ("fd77::", 64),
        ];
        expect_pods(bench, back, &pods);
        for (it, routed) in families().iter().zip(["198.51.100.200", "fd77::1:2:3:4"]) {
            let routed: IpAddr = routed.parse().expect("an address");
            for kind in KINDS {
                let others = packet(kind, next(it.client), it.open);
                is_refused(bench, &others);
                let refused = packet(kind, next(it.client), it.empty);
                is_refused(bench, &refused);
                is_led(bench, it, kind, it.client);
                is_led(bench, it, kind, (routed, 1234).into());
                // What is of no Service is nobody's business.
                let counted = foreign(bench);
                let other = packet(kind, next(it.client), (it.node, 443).into());
                assert_eq!(bench.arrive(&other).packet, other);
                assert_eq!(foreign(bench), counted);
            }
        }
        // Routes through another interface say nothing here.
        expect_pods(bench, back + 1, &[]);
        is_refused(
            bench,
            &packet(Kind::Syn, families()[0].client, families()[0].open),
        );
        // Where no pods are, sources are not looked at.
        expect_pods(bench, 0, &[]);
        is_led(bench, &families()[0], Kind::Syn, next(families()[0].client));
    });
}

/// A pod neither ends nor begins anew the connection of somebody else, whatever the numbers. Data passes: its numbers are
/// looked at.
#[test]
fn pods_end_no_connection_of_others() {
    run("ends", |bench| {
        for it in families() {
            expect_pods(bench, 0, &[]);
            for kind in [Kind::Syn, Kind::Data] {
                is_led(bench, &it, kind, it.client);
            }
            let ifindex = bench.ifindex();
            expect_pods(bench, ifindex, &[("192.0.2.8", 128), ("2001:db8::8", 128)]);
            for kind in [Kind::Fin, Kind::Syn, Kind::Accept] {
                is_refused(bench, &packet(kind, it.client, it.open));
            }
            is_led(bench, &it, Kind::Data, it.client);
            is_led(bench, &it, Kind::Syn, next(it.client));
            is_led(bench, &it, Kind::Fin, next(it.client));
        }
    });
}

/// A pod does not answer a client in the endpoint's place: what seems to know another connection takes nothing from the one
/// that the client opens.
#[test]
fn pods_answer_for_themselves() {
    run("answers", |bench| {
        for it in families() {
            expect_pods(bench, 0, &[]);
            let syn = packet(Kind::Syn, it.client, it.open);
            bench.leave(&bench.arrive(&syn).packet);
            let before = entries(bench);
            let ifindex = bench.ifindex();
            expect_pods(bench, ifindex, &[("192.0.2.8", 128), ("2001:db8::8", 128)]);
            let unknown = Segment {
                flags: ACK,
                sequence: 3_000_000,
                acknowledged: 2_000_000,
                window: 500,
                ..Segment::default()
            };
            let forged = segment(it.endpoint, it.client, unknown);
            let counted = foreign(bench);
            becomes(&forged, &bench.leave(&forged).packet, it.open, it.client);
            assert_eq!(foreign(bench), counted + 1);
            let keys = |all: &[(Tuple, Flow)]| -> Vec<(Tuple, u8)> {
                all.iter().map(|it| (it.0, it.1.kind)).collect()
            };
            assert_eq!(keys(&entries(bench)), keys(&before));
            // The endpoint's own is believed: the one to the Service is to get another port.
            expect_pods(bench, 0, &[]);
            bench.leave(&forged);
            assert!(entries(bench).len() < before.len());
        }
    });
}
