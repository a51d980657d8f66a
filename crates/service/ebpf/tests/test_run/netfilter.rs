//! Packets of connections that netfilter translates, or opens.

use std::net::SocketAddr;

use sluice_bpf_abi::{Flow, FlowKind, TCP, Tuple, UDP, flow_flags, node_flags};

use crate::test_run::harness::{Bench, Family, GO_ON, families, run};
use crate::test_run::packets::{Kind, packet, read};
use crate::test_run::{KINDS, becomes};

#[track_caller]
fn pass(bench: &Bench, packet: &[u8]) {
    for made in [bench.arrive(packet), bench.leave(packet)] {
        assert_eq!((made.action, &made.packet[..]), (GO_ON, packet));
    }
}

#[test]
fn programs_that_wait_open_nothing() {
    run("wait", |bench| {
        for it in families() {
            bench.change_node(|it| it.flags |= node_flags::WAITS);
            for to in [it.open, it.masqueraded, it.empty, it.unallocated] {
                for kind in KINDS {
                    pass(bench, &packet(kind, it.client, to));
                }
            }
            bench.change_node(|it| it.flags &= !node_flags::WAITS);
            let sent = packet(Kind::Syn, it.client, it.open);
            becomes(&sent, &bench.arrive(&sent).packet, it.client, it.endpoint);
            // What they opened goes on.
            bench.change_node(|it| it.flags |= node_flags::WAITS);
            let sent = packet(Kind::Data, it.client, it.open);
            becomes(&sent, &bench.arrive(&sent).packet, it.client, it.endpoint);
            bench.change_node(|it| it.flags &= !node_flags::WAITS);
        }
    });
}

fn tuple(protocol: u8, from: SocketAddr, to: SocketAddr) -> Tuple {
    Tuple {
        source: from.ip().into(),
        destination: to.ip().into(),
        source_port: from.port(),
        destination_port: to.port(),
        protocol: protocol.into(),
    }
}

/// Netfilter translates a connection of the client to the first frontend, without masquerading.
fn enter_netfilters(bench: &mut Bench, protocol: u8, it: &Family) {
    let flow = |from: SocketAddr, to: SocketAddr, kind: FlowKind| Flow {
        source: from.ip().into(),
        destination: to.ip().into(),
        source_port: from.port(),
        destination_port: to.port(),
        kind: kind as u8,
        flags: flow_flags::NETFILTER | flow_flags::ESTABLISHED,
        ..Flow::default()
    };
    for (from, to, flow) in [
        (
            it.client,
            it.open,
            flow(it.client, it.endpoint, FlowKind::Request),
        ),
        (
            it.client,
            it.endpoint,
            flow(it.client, it.endpoint, FlowKind::Forwarded),
        ),
        (
            it.endpoint,
            it.client,
            flow(it.open, it.client, FlowKind::Reply),
        ),
    ] {
        let written = bench
            .maps_mut()
            .flows
            .insert(&tuple(protocol, from, to), &flow);
        written.expect("the map takes the entry");
    }
}

#[test]
fn what_netfilter_translates_is_left_alone() {
    run("left", |bench| {
        bench.change_node(|it| it.flags |= node_flags::CARRIES_ALL);
        for it in families() {
            enter_netfilters(bench, TCP, &it);
            enter_netfilters(bench, UDP, &it);
            for kind in [Kind::Syn, Kind::Data, Kind::Datagram] {
                pass(bench, &packet(kind, it.client, it.open));
            }
            for kind in [Kind::Accept, Kind::Data, Kind::Datagram] {
                pass(bench, &packet(kind, it.endpoint, it.client));
            }
            // Another port of the same client.
            let other = SocketAddr::new(it.client.ip(), it.client.port() + 1);
            for kind in [Kind::Syn, Kind::Data, Kind::Datagram] {
                let sent = packet(kind, other, it.open);
                becomes(&sent, &bench.arrive(&sent).packet, other, it.endpoint);
            }
        }
    });
}

/// Netfilter remembers what both sides have ended: the answers of the new connection must not be those of the old one.
#[test]
fn what_begins_anew_is_the_programs_with_another_port() {
    run("anew", |bench| {
        for it in families() {
            enter_netfilters(bench, TCP, &it);
            pass(bench, &packet(Kind::Fin, it.client, it.open));
            pass(bench, &packet(Kind::Fin, it.endpoint, it.client));
            let sent = packet(Kind::Syn, it.client, it.open);
            let made = bench.arrive(&sent).packet;
            let source = read(&made).expect("it is whole").from;
            assert_eq!(source.ip(), it.client.ip());
            assert_ne!(source.port(), it.client.port());
            becomes(&sent, &made, source, it.endpoint);
            let answer = packet(Kind::Accept, it.endpoint, source);
            becomes(&answer, &bench.leave(&answer).packet, it.open, it.client);
        }
    });
}

/// Netfilter, or a socket of the node, opens a connection to the endpoint with the port that a masqueraded one had. While the
/// client of that one has not ended it, a forged answer takes nothing from it.
#[test]
fn an_endpoint_accepts_anothers_connection() {
    run("accepts", |bench| {
        for it in families() {
            let arrived = bench
                .arrive(&packet(Kind::Syn, it.client, it.masqueraded))
                .packet;
            let source = read(&bench.leave(&arrived).packet)
                .expect("it is whole")
                .from;
            let [accept, data, fin] =
                [Kind::Accept, Kind::Data, Kind::Fin].map(|kind| packet(kind, it.endpoint, source));
            let ours = |answer: &Vec<u8>| {
                becomes(answer, &bench.arrive(answer).packet, it.endpoint, it.client);
            };
            // It is this one's while it is open, also the endpoint's last packets.
            [&accept, &data, &fin, &accept, &data]
                .into_iter()
                .for_each(ours);
            let end = packet(Kind::Fin, it.client, it.masqueraded);
            bench.leave(&bench.arrive(&end).packet);
            [&data, &fin].into_iter().for_each(ours);
            for answer in [&accept, &data] {
                pass(bench, answer);
            }
        }
    });
}
