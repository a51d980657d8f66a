//! Whose packet is it? Connections with the same addresses and ports at the endpoint, and sockets of the node.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use sluice_bpf_abi::{PortRange, node_flags};
use sluice_lab::eventually;

use super::becomes;
use super::harness::{Bench, Family, GO_ON, REDIRECT, families, run};
use super::packets::{ACK, Kind, RST, SYN, Segment, packet, read, segment};

/// Limits of what the kernel does soon.
const DEADLINE: Duration = Duration::from_secs(10);

/// A client's SYN.
const FIRST: Segment = Segment {
    flags: SYN,
    sequence: 7_000,
    acknowledged: 0,
    window: 500,
    scale: None,
    payload: b"",
};
/// The endpoint accepts it.
const ACCEPT: Segment = Segment {
    flags: SYN | ACK,
    sequence: 90_000,
    acknowledged: 7_001,
    ..FIRST
};
/// The endpoint takes it for a packet of another connection: it says what it waits for (RFC 9293, 3.10.7.4).
const UNKNOWN: Segment = Segment {
    flags: ACK,
    sequence: 3_000_000,
    acknowledged: 2_000_000,
    ..FIRST
};

/// The packet goes on as it is.
#[track_caller]
fn passes(made: &sluice_ebpf::Trial, sent: &[u8]) {
    assert_eq!((made.action, &*made.packet), (GO_ON, sent));
}

/// The packet goes on from another port of its client, which is returned.
#[track_caller]
fn from_another_port(made: &sluice_ebpf::Trial, sent: &[u8]) -> SocketAddr {
    let before = read(sent).expect("it is whole");
    let source = read(&made.packet).expect("it is whole").from;
    assert_eq!(made.action, GO_ON);
    assert_eq!(source.ip(), before.from.ip());
    assert_ne!(source.port(), before.from.port());
    becomes(sent, &made.packet, source, before.to);
    source
}

/// A client whose address and port are those of its connection to the Service dials the endpoint itself.
#[test]
fn a_client_dials_the_service_and_its_endpoint() {
    run("owners", |bench| {
        for it in families() {
            let direct = packet(Kind::Datagram, it.client, it.endpoint);
            passes(&bench.arrive(&direct), &direct);
            let sent = packet(Kind::Datagram, it.client, it.open);
            let led = bench.arrive(&sent).packet;
            assert_eq!(led, direct);
            // It may arrive again before it leaves.
            passes(&bench.arrive_again(&led), &led);
            passes(&bench.leave(&led), &led);
            for _ in 0..2 {
                let made = bench.arrive(&direct);
                let source = from_another_port(&made, &direct);
                passes(&bench.leave(&made.packet), &made.packet);
                let answer = packet(Kind::Datagram, it.endpoint, source);
                let made = bench.leave(&answer).packet;
                becomes(&answer, &made, it.endpoint, it.client);
            }
            let answer = packet(Kind::Datagram, it.endpoint, it.client);
            let made = bench.leave(&answer).packet;
            becomes(&answer, &made, it.open, it.client);
            // Another port is nobody's.
            let other = SocketAddr::new(it.client.ip(), it.client.port() + 1);
            let direct = packet(Kind::Datagram, other, it.endpoint);
            passes(&bench.arrive(&direct), &direct);
        }
    });
}

/// A client has dialled the endpoint itself, and dials the Service from the same port. The endpoint tells by its answer that
/// it has that connection: the one to the Service gets another port.
#[test]
fn a_client_dials_the_endpoint_and_its_service() {
    run("owners-first", |bench| {
        bench.change_node(|it| it.flags |= node_flags::CARRIES_ALL);
        for it in families() {
            let data = |from, to| packet(Kind::Data, from, to);
            let [asks, answers] = [(it.client, it.endpoint), (it.endpoint, it.client)];
            for (from, to) in [asks, answers] {
                let sent = data(from, to);
                passes(&bench.arrive(&sent), &sent);
                passes(&bench.leave(&sent), &sent);
            }
            let syn = segment(it.client, it.open, FIRST);
            let led = bench.arrive(&syn).packet;
            becomes(&syn, &led, it.client, it.endpoint);
            passes(&bench.leave(&led), &led);
            // The client sends the SYN again when it gets this.
            let sent = segment(it.endpoint, it.client, UNKNOWN);
            becomes(&sent, &bench.leave(&sent).packet, it.open, it.client);
            let reset = Segment {
                flags: RST,
                sequence: UNKNOWN.acknowledged,
                ..FIRST
            };
            let sent = segment(it.client, it.open, reset);
            passes(&bench.arrive(&sent), &sent);
            for _ in 0..2 {
                let sent = segment(it.endpoint, it.client, UNKNOWN);
                passes(&bench.leave(&sent), &sent);
                let sent = data(asks.0, asks.1);
                passes(&bench.arrive(&sent), &sent);
                passes(&bench.leave(&sent), &sent);
            }
            let led = bench.arrive(&syn).packet;
            let source = read(&led).expect("it is whole").from;
            assert_ne!(source.port(), it.client.port());
            becomes(&syn, &led, source, it.endpoint);
            let accept = segment(it.endpoint, source, ACCEPT);
            let made = bench.leave(&accept).packet;
            becomes(&accept, &made, it.open, it.client);
        }
    });
}

/// Of other first answers the connection to the Service is the owner: of one that accepts it or resets it, of one that
/// acknowledges its SYN, and of one that comes after these.
#[test]
fn an_endpoint_answers_what_it_got() {
    run("owners-answers", |bench| {
        for it in families() {
            let reset = Segment {
                flags: RST | ACK,
                ..ACCEPT
            };
            let early = Segment {
                flags: ACK,
                ..ACCEPT
            };
            for (port, answers) in
                (it.client.port()..).zip([vec![ACCEPT, UNKNOWN], vec![reset], vec![early]])
            {
                let client = SocketAddr::new(it.client.ip(), port);
                let led = bench.arrive(&segment(client, it.open, FIRST)).packet;
                bench.leave(&led);
                for answer in answers {
                    let sent = segment(it.endpoint, client, answer);
                    becomes(&sent, &bench.leave(&sent).packet, it.open, client);
                }
            }
        }
    });
}

/// The same of a socket of the node.
#[test]
fn the_node_dials_the_service_and_its_endpoint() {
    run("owners-node", |bench| {
        for it in families() {
            for kind in [Kind::Syn, Kind::Datagram] {
                let sent = packet(kind, it.client, it.open);
                let led = bench.send(&sent);
                assert_eq!(led.action, REDIRECT);
                let direct = packet(kind, it.client, it.endpoint);
                let made = bench.send(&direct);
                let source = from_another_port(&made, &direct);
                assert_eq!(from_another_port(&bench.send(&direct), &direct), source);
                let answer = packet(Kind::Data, it.endpoint, source);
                let answer = match kind {
                    Kind::Syn => answer,
                    _ => packet(kind, it.endpoint, source),
                };
                let made = bench.arrive(&answer);
                assert_eq!(made.action, GO_ON);
                becomes(&answer, &made.packet, it.endpoint, it.client);
                let answer = packet(kind, it.endpoint, it.client);
                assert_eq!(bench.arrive(&answer).action, REDIRECT, "from the frontend");
            }
        }
    });
}

/// A connection to elsewhere leaves from the number of a NodePort, which netfilter or a process chose. Answers are its own.
#[test]
fn answers_do_not_go_to_a_frontend() {
    run("owners-ports", |bench| {
        bench.change_node(|it| it.flags |= node_flags::CARRIES_ALL);
        for it in families() {
            let elsewhere = SocketAddr::new(it.client.ip(), 443);
            for (first, later) in [(Kind::Syn, Kind::Data), (Kind::Datagram, Kind::Datagram)] {
                for out in [Bench::leave, Bench::send] {
                    let sent = packet(first, it.node_port, elsewhere);
                    passes(&out(bench, &sent), &sent);
                    let answer = packet(later, elsewhere, it.node_port);
                    passes(&bench.arrive(&answer), &answer);
                }
            }
            // Who was not asked is a client.
            let sent = packet(Kind::Data, it.client, it.node_port);
            assert_eq!(bench.arrive(&sent).action, REDIRECT, "a reset");
            let sent = packet(Kind::Datagram, it.client, it.node_port);
            becomes(&sent, &bench.arrive(&sent).packet, it.client, it.endpoint);
        }
    });
}

/// What is sent from other addresses, or other ports, takes no entry.
#[test]
fn what_nobody_could_take_is_not_entered() {
    run("owners-others", |bench| {
        for it in families() {
            let elsewhere = SocketAddr::new(it.client.ip(), 443);
            let pod = SocketAddr::new(it.endpoint.ip(), it.node_port.port());
            let other_port = SocketAddr::new(it.node, it.node_port.port() + 1);
            for (from, out) in [
                (pod, Bench::leave as fn(&Bench, &[u8]) -> _),
                (other_port, Bench::leave),
                (other_port, Bench::send),
            ] {
                let sent = packet(Kind::Datagram, from, elsewhere);
                passes(&out(bench, &sent), &sent);
            }
        }
        let entries = bench.maps_mut().flows.entries().expect("they are listed");
        assert_eq!(entries, []);
    });
}

/// A connection to the endpoint comes from the address and port that masquerade another one.
#[test]
fn a_port_that_masquerades_is_used_by_others() {
    run("owners-masquerade", |bench| {
        for it in families() {
            let mut port = it.client.port();
            for out in [Bench::leave, Bench::send] {
                for kind in [Kind::Syn, Kind::Datagram] {
                    let source = masqueraded(bench, &it, it.client, kind);
                    let direct = packet(kind, source, it.endpoint);
                    let made = out(bench, &direct);
                    let other = from_another_port(&made, &direct);
                    let answer = packet(Kind::Datagram, it.endpoint, other);
                    if kind == Kind::Datagram {
                        becomes(&answer, &bench.arrive(&answer).packet, it.endpoint, source);
                    }
                    let answer = packet(kind, it.endpoint, source);
                    becomes(
                        &answer,
                        &bench.arrive(&answer).packet,
                        it.endpoint,
                        it.client,
                    );
                }
                // What has ended has no answers.
                port += 1;
                let client = SocketAddr::new(it.client.ip(), port);
                let source = masqueraded(bench, &it, client, Kind::Syn);
                bench.arrive(&packet(Kind::Accept, it.endpoint, source));
                let end = packet(Kind::Fin, client, it.masqueraded);
                bench.leave(&bench.arrive(&end).packet);
                bench.arrive(&packet(Kind::Fin, it.endpoint, source));
                let direct = packet(Kind::Syn, source, it.endpoint);
                passes(&out(bench, &direct), &direct);
                let answer = packet(Kind::Data, it.endpoint, source);
                passes(&bench.arrive(&answer), &answer);
            }
        }
    });
}

/// A direct connection got another port, which may be another one's when it has ended. The next one from its own port gets
/// a port anew, and the old one is free.
#[test]
fn a_port_is_given_back() {
    run("owners-back", |bench| {
        for it in families() {
            for out in [Bench::leave, Bench::send] {
                let source = masqueraded(bench, &it, it.client, Kind::Syn);
                let dial = || {
                    let direct = packet(Kind::Syn, source, it.endpoint);
                    let other = from_another_port(&out(bench, &direct), &direct);
                    // It sends the SYN again.
                    assert_eq!(from_another_port(&out(bench, &direct), &direct), other);
                    other
                };
                let accepts = |other| {
                    let accept = packet(Kind::Accept, it.endpoint, other);
                    becomes(&accept, &bench.arrive(&accept).packet, it.endpoint, source);
                };
                let first = dial();
                accepts(first);
                let end = packet(Kind::Fin, source, it.endpoint);
                becomes(&end, &out(bench, &end).packet, first, it.endpoint);
                let second = dial();
                assert_ne!(second, first);
                accepts(second);
                let late = packet(Kind::Data, it.endpoint, first);
                passes(&bench.arrive(&late), &late);
            }
        }
    });
}

/// The address and port with which a connection leaves.
fn masqueraded(bench: &Bench, it: &Family, client: SocketAddr, kind: Kind) -> SocketAddr {
    let arrived = bench.arrive(&packet(kind, client, it.masqueraded)).packet;
    let left = bench.leave(&arrived).packet;
    read(&left).expect("it is whole").from
}

/// Ports that are in use are not chosen, and those of ended connections are, before one is refused.
#[test]
fn ports_are_looked_for() {
    run("owners-search", |bench| {
        bench.set_ports(PortRange {
            first: 2_001,
            last: 2_030,
        });
        for it in families() {
            ip(&format!("address add {} dev lo", it.node));
            let in_use = UdpSocket::bind((it.node, 2_015)).expect("the address is here");
            let mut chosen: Vec<_> = (0..29).map(|port| connection(bench, &it, port)).collect();
            chosen.sort_unstable();
            let wanted: Vec<_> = (2_001..=2_030).filter(|it| *it != 2_015).collect();
            let found = chosen.iter().flatten().copied();
            assert_eq!(found.collect::<Vec<u16>>(), wanted);
            assert_eq!(connection(bench, &it, 29), None, "all are in use");
            drop(in_use);
            assert_eq!(connection(bench, &it, 30), Some(2_015));
        }
    });
}

/// A further connection of UDP to the endpoint: the port with which it is masqueraded.
fn connection(bench: &Bench, it: &Family, number: u16) -> Option<u16> {
    let client = SocketAddr::new(it.client.ip(), 10_000 + number);
    let sent = packet(Kind::Datagram, client, it.masqueraded);
    let made = bench.leave(&bench.arrive(&sent).packet);
    let left = read(&made.packet).expect("it is whole");
    (made.action == GO_ON).then(|| left.from.port())
}

/// A socket of the node gets what its peer sends to the address and port of a frontend.
#[test]
fn sockets_get_what_is_theirs() {
    run("owners-sockets", |bench| {
        bench.change_node(|it| it.flags |= node_flags::CARRIES_ALL);
        ip("link set lo up");
        for it in families() {
            let client = if it.client.is_ipv4() {
                "127.0.0.2:0"
            } else {
                "[::1]:0"
            };
            ip(&format!("address add {} dev lo", it.open.ip()));
            // The programs would lead it to the endpoint.
            bench.change_node(|it| it.flags |= node_flags::WAITS);
            let listener = TcpListener::bind(it.open).expect("the address is here");
            // The kernel enters the route of an address of IPv6 a little later.
            let connect = || TcpStream::connect_timeout(&it.open, DEADLINE).ok();
            let stream = eventually(DEADLINE, connect).expect("it listens");
            let (_server, peer) = listener.accept().expect("a client came");
            bench.change_node(|it| it.flags &= !node_flags::WAITS);
            drop(listener);
            let sent = packet(Kind::Data, peer, it.open);
            passes(&bench.arrive(&sent), &sent);
            drop(stream);
            let other = UdpSocket::bind(client).expect("the address is here");
            let peer = other.local_addr().expect("it is bound");
            let socket = UdpSocket::bind(it.open).expect("the address is here");
            let sent = packet(Kind::Datagram, peer, it.open);
            let led = packet(Kind::Datagram, it.client, it.open);
            let made = bench.arrive(&led).packet;
            becomes(&led, &made, it.client, it.endpoint);
            socket.connect(peer).expect("it has a route");
            passes(&bench.arrive(&sent), &sent);
        }
    });
}

fn ip(words: &str) {
    let mut command = Command::new("ip");
    let done = command.args(words.split(' ')).args(nodad(words)).status();
    assert!(done.expect("ip runs").success(), "ip {words}");
}

/// An address of IPv6 is in use at once.
fn nodad(words: &str) -> Option<&'static str> {
    (words.starts_with("address") && words.contains("::")).then_some("nodad")
}
