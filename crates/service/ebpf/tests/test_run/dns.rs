//! The node's own DNS server beside the programs: it is whoever has the owner's socket.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use sluice_bpf_abi::{Addr, Dns};

use crate::test_run::becomes;
use crate::test_run::harness::{Bench, Family, GO_ON, families, run};
use crate::test_run::packets::{Kind, packet};

const OWNER_PORT: u16 = 54;

/// The server has the addresses of the open Services, and loopback has them.
fn serve(bench: &mut Bench, for_this_node: bool) {
    let mut dns = Dns {
        port: 80,
        owner_port: OWNER_PORT.into(),
        for_this_node: [for_this_node.into(); 4],
        ..Dns::default()
    };
    for (index, it) in families().iter().enumerate() {
        dns.addresses[index] = Addr::from(it.open.ip());
        let more = match it.open {
            SocketAddr::V4(_) => "/32 dev lo",
            SocketAddr::V6(_) => "/128 dev lo nodad",
        };
        ip(&format!("address add {}{more}", it.open.ip()));
    }
    ip("link set lo up");
    bench.set_dns(&dns);
}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).status();
    assert!(done.expect("ip runs").success(), "ip {words}");
}

/// From here on the queries to an address are wanted.
fn want(ip: IpAddr) -> UdpSocket {
    UdpSocket::bind((ip, OWNER_PORT)).expect("the address is here")
}

#[track_caller]
fn is_led(bench: &Bench, kind: Kind, family: &Family, client: SocketAddr) {
    let sent = packet(kind, client, family.open);
    let made = bench.arrive(&sent);
    assert_eq!(made.action, GO_ON, "{kind:?}");
    becomes(&sent, &made.packet, client, family.endpoint);
}

#[track_caller]
fn passes(bench: &Bench, kind: Kind, from: SocketAddr, to: SocketAddr) {
    let sent = packet(kind, from, to);
    for made in [bench.arrive(&sent), bench.leave(&sent)] {
        assert_eq!((made.action, &made.packet), (GO_ON, &sent), "{kind:?}");
    }
}

/// Another client on the same machine.
fn beside(client: SocketAddr) -> SocketAddr {
    SocketAddr::new(client.ip(), client.port() + 1)
}

#[test]
fn queries_pass_while_the_owner_lives() {
    run("dns", |bench| {
        serve(bench, false);
        for it in families() {
            // A socket of all addresses is somebody else's.
            let other = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, OWNER_PORT));
            for kind in [Kind::Syn, Kind::Datagram] {
                is_led(bench, kind, &it, it.client);
            }
            drop(other);
            let owner = want(it.open.ip());
            // Also those from a port that another server had answers for.
            passes(bench, Kind::Datagram, it.client, it.open);
            passes(bench, Kind::Datagram, beside(it.client), it.open);
            passes(bench, Kind::Syn, beside(it.client), it.open);
            // A connection that was led goes on.
            is_led(bench, Kind::Data, &it, it.client);
            drop(owner);
            for kind in [Kind::Syn, Kind::Datagram] {
                is_led(bench, kind, &it, beside(it.client));
            }
        }
    });
}

#[test]
fn other_machines_are_not_answered_at_a_cluster_ip() {
    run("dns-others", |bench| {
        serve(bench, true);
        for it in families() {
            let _owner = want(it.open.ip());
            is_led(bench, Kind::Datagram, &it, it.client);
            is_led(bench, Kind::Syn, &it, it.client);
        }
    });
}

/// The kernel takes the address of a query to the node itself as the source of that query. A port of a ClusterIP that
/// no Service has is refused to everybody else.
#[test]
fn replies_to_the_address_itself_pass() {
    run("dns-replies", |bench| {
        serve(bench, true);
        for it in families() {
            let itself = SocketAddr::new(it.open.ip(), 40_000);
            for kind in [Kind::Data, Kind::Datagram] {
                passes(bench, kind, it.open, itself);
            }
        }
    });
}

#[test]
fn a_connection_outlives_the_owner() {
    run("dns-connections", |bench| {
        serve(bench, true);
        for it in families() {
            let patience = Duration::from_secs(10);
            let owner = want(it.open.ip());
            let listener = TcpListener::bind(it.open).expect("the address is here");
            let connect = |patience| TcpStream::connect_timeout(&it.open, patience);
            let mut client = connect(patience).expect("the server listens");
            let (mut server, _) = listener.accept().expect("a client came");
            drop(owner);
            client.write_all(b"?").expect("it is open");
            let set = server.set_read_timeout(Some(patience));
            set.expect("the timeout is not zero");
            let mut byte = [0];
            server.read_exact(&mut byte).expect("the byte comes");
            assert_eq!(byte, *b"?");
            // Another one goes where nobody answers.
            let other = connect(Duration::from_millis(100));
            assert!(other.is_err(), "{other:?}");
        }
    });
}
