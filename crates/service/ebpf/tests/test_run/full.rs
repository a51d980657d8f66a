//! A table of connections that is full, or fills up.

use std::net::{IpAddr, SocketAddr};

use sluice_bpf_abi::{Addr, Allowance, Counter, Flow, STREAM_SECONDS, Tuple, UDP, flow_flags};
use sluice_ebpf::CounterTable;

use crate::test_run::harness::{Bench, DROP, GO_ON, REDIRECT, families, run};
use crate::test_run::packets::{Kind, packet, read};

/// The key of an entry that no packet has.
fn foreign(number: u32) -> Tuple {
    Tuple {
        source: Addr::v4(number),
        ..Tuple::default()
    }
}

/// Fills the table up to so many entries.
fn leave_room(bench: &mut Bench, room: u32) {
    let flows = &mut bench.maps_mut().flows;
    let known = flows.entries().expect("a listing");
    for (key, _) in &known {
        flows.remove(key).expect("it is there");
    }
    for number in 0..flows.capacity() - room {
        flows
            .insert(&foreign(number), &Flow::default())
            .expect("there is room");
    }
}

/// How many entries the table has beside those that fill it.
fn entered(bench: &mut Bench) -> usize {
    let all = bench.maps_mut().flows.entries().expect("a listing");
    let is_foreign = |key: &Tuple| key.protocol == 0;
    all.iter().filter(|(key, _)| !is_foreign(key)).count()
}

fn counted(bench: &Bench, counter: Counter) -> u64 {
    let table = CounterTable::open(bench.pins()).expect("the map is pinned");
    table.read(counter).expect("it is read").iter().sum()
}

/// A connection that has no room for each of its entries leaves none. What is open goes on, and the next that fits is
/// opened.
#[test]
fn a_full_table_refuses_whole_connections() {
    run("full", |bench| {
        let [it, other] = families();
        for kind in [Kind::Syn, Kind::Datagram] {
            for room in 0..3 {
                leave_room(bench, room);
                let before = counted(bench, Counter::FlowsFull);
                let sent = packet(kind, it.client, it.open);
                assert_eq!(bench.arrive(&sent).action, DROP, "{kind:?} {room}");
                assert_eq!(entered(bench), 0, "{kind:?} {room}");
                assert_eq!(counted(bench, Counter::FlowsFull), before + 1);
            }
            leave_room(bench, 3);
            let sent = packet(kind, it.client, it.open);
            assert_eq!(bench.arrive(&sent).action, GO_ON);
            let next = packet(kind, other.client, other.open);
            assert_eq!(bench.arrive(&next).action, DROP);
            assert_eq!(bench.arrive(&sent).action, GO_ON);
            assert_eq!(entered(bench), 3);
        }
    });
}

#[test]
fn a_connection_without_room_for_its_way_back_is_refused() {
    run("way-back", |bench| {
        for it in families() {
            for kind in [Kind::Syn, Kind::Datagram] {
                leave_room(bench, 3);
                let sent = packet(kind, it.client, it.masqueraded);
                let arrived = bench.arrive(&sent);
                assert_eq!(arrived.action, GO_ON);
                // A drop where a packet leaves goes to loopback.
                assert_eq!(bench.leave(&arrived.packet).action, REDIRECT);
                assert_eq!(entered(bench), 0);
                leave_room(bench, 4);
                let arrived = bench.arrive(&sent);
                let left = bench.leave(&arrived.packet);
                let left = read(&left.packet).expect("it is whole");
                assert_eq!(left.from.ip(), it.node);
                assert_eq!(entered(bench), 4);
            }
        }
    });
}

/// A client that is limited opens what it may, and goes on with what it has. Another client, and it later on, is served.
#[test]
fn a_limited_client_opens_what_it_may() {
    run("share", |bench| {
        let [it, _] = families();
        let open = packet(Kind::Datagram, it.client, it.open);
        assert_eq!(bench.arrive(&open).action, GO_ON);
        let addr = Addr::from(it.client.ip());
        let limit = |bench: &mut Bench, until| {
            let limited = Allowance { until, left: 1 };
            let allowances = &mut bench.maps_mut().allowances;
            allowances.insert(&addr, &limited).expect("there is room");
        };
        limit(bench, u32::MAX);
        let from = |ip: IpAddr, port| packet(Kind::Syn, SocketAddr::new(ip, port), it.open);
        assert_eq!(bench.arrive(&from(it.client.ip(), 41_000)).action, GO_ON);
        assert_eq!(bench.arrive(&from(it.client.ip(), 41_001)).action, DROP);
        assert_eq!(counted(bench, Counter::ClientLimit), 1);
        assert_eq!(bench.arrive(&open).action, GO_ON);
        let another = from("192.0.2.8".parse().expect("an address"), 41_000);
        assert_eq!(bench.arrive(&another).action, GO_ON);
        // That time has passed.
        limit(bench, 0);
        for port in [41_001, 41_002] {
            assert_eq!(bench.arrive(&from(it.client.ip(), port)).action, GO_ON);
        }
    });
}

/// Whoever asks twice within a moment has no stream; who goes on does.
#[test]
fn a_client_that_goes_on_has_a_stream() {
    run("stream", |bench| {
        for it in families() {
            let key = Tuple {
                source: it.client.ip().into(),
                destination: it.open.ip().into(),
                source_port: it.client.port(),
                destination_port: it.open.port(),
                protocol: UDP.into(),
            };
            let sent = packet(Kind::Datagram, it.client, it.open);
            let request = |bench: &mut Bench| {
                let found = bench.maps_mut().flows.get(&key).expect("a lookup");
                found.expect("it is entered")
            };
            bench.arrive(&sent);
            let first = request(bench);
            bench.arrive(&sent);
            // A clock that ticks between both does not make two seconds of it.
            assert_eq!(request(bench), first);
            let earlier = Flow {
                seen_seconds: first.seen_seconds - STREAM_SECONDS,
                ..first
            };
            let flows = &mut bench.maps_mut().flows;
            flows.insert(&key, &earlier).expect("it is there");
            bench.arrive(&sent);
            let now = request(bench);
            assert_eq!(now.flags, flow_flags::ESTABLISHED);
            assert!(now.seen_seconds >= first.seen_seconds);
        }
    });
}
