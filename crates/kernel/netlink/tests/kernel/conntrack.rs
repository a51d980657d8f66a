//! Connections are found by the dialled destination, and deleted.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use sluice_netlink::Family;
use sluice_netlink::conntrack::{Conntrack, Flow, FlowFilter};

use crate::netns;

const UDP: u8 = 17;

/// Switches connection tracking on and the loopback up.
fn prepare() {
    netns::program("ip", &["link", "set", "lo", "up"], "");
    let table = |family: &str| {
        format!(
            "add table {family} x; add chain {family} x c {{ type filter hook output priority 0; }}; add rule {family} x c ct state new accept\n"
        )
    };
    netns::program("nft", &["-f", "-"], &(table("ip") + &table("ip6")));
}

/// Sends one datagram to each address and answers none.
fn dial(from: &str, to: &[SocketAddr]) {
    let client = UdpSocket::bind((from, 0)).unwrap();
    for address in to {
        let _server = UdpSocket::bind(address).ok();
        client.send_to(b"x", address).unwrap();
    }
}

fn filter(family: Family) -> FlowFilter {
    FlowFilter {
        family,
        destination: None,
        protocol: None,
        destination_port: None,
    }
}

fn destinations(flows: &[Flow]) -> Vec<SocketAddr> {
    let mut all: Vec<_> = flows
        .iter()
        .map(|it| SocketAddr::new(it.original.dst, it.original.dst_port))
        .collect();
    all.sort();
    all
}

/// Dials four destinations and lists them in every way.
#[track_caller]
fn check(family: Family, from: &'static str, one: &'static str, two: &'static str) {
    netns::run(move || {
        prepare();
        let (one, two): (IpAddr, IpAddr) = (one.parse().unwrap(), two.parse().unwrap());
        let all = [(one, 53), (one, 80), (two, 53), (two, 80)].map(SocketAddr::from);
        dial(from, &all);
        let mut conntrack = Conntrack::open().unwrap();
        let mut list = |filter: FlowFilter| destinations(&conntrack.flows(&filter).unwrap());
        let any = filter(family);
        let udp = FlowFilter {
            protocol: Some(UDP),
            ..any
        };
        let pick = |indexes: &[usize]| indexes.iter().map(|it| all[*it]).collect::<Vec<_>>();

        assert_eq!(list(udp), pick(&[0, 1, 2, 3]));
        assert_eq!(
            list(FlowFilter {
                destination: Some(two),
                ..any
            }),
            pick(&[2, 3])
        );
        assert_eq!(
            list(FlowFilter {
                destination: Some(one),
                ..udp
            }),
            pick(&[0, 1])
        );
        assert_eq!(
            list(FlowFilter {
                destination_port: Some(53),
                ..udp
            }),
            pick(&[0, 2])
        );
        assert_eq!(
            list(FlowFilter {
                destination_port: Some(53),
                ..any
            }),
            pick(&[0, 2])
        );
        assert_eq!(
            list(FlowFilter {
                destination: Some(two),
                destination_port: Some(80),
                ..udp
            }),
            pick(&[3])
        );
        assert_eq!(
            list(FlowFilter {
                destination: Some(two),
                destination_port: Some(1),
                ..udp
            }),
            []
        );
        assert_eq!(
            list(FlowFilter {
                protocol: Some(6),
                ..any
            }),
            []
        );
        let other = if family == Family::Ipv4 {
            "fd00::1"
        } else {
            "10.0.0.1"
        };
        assert_eq!(
            list(FlowFilter {
                destination: other.parse().ok(),
                ..any
            }),
            []
        );
    });
}

#[test]
fn connections_are_listed_by_destination() {
    check(Family::Ipv4, "127.0.0.1", "127.0.0.2", "127.0.0.3");
}

#[test]
fn ipv6_connections_are_listed_by_destination() {
    netns::run(|| {
        prepare();
        let all = [53, 80].map(|port| SocketAddr::new("::1".parse().unwrap(), port));
        dial("::1", &all);
        let mut conntrack = Conntrack::open().unwrap();
        let udp = FlowFilter {
            protocol: Some(UDP),
            ..filter(Family::Ipv6)
        };
        let mut list = |filter: FlowFilter| destinations(&conntrack.flows(&filter).unwrap());
        assert_eq!(list(udp), all);
        assert_eq!(
            list(FlowFilter {
                destination: "::1".parse().ok(),
                ..udp
            }),
            all
        );
        assert_eq!(
            list(FlowFilter {
                destination: "::1".parse().ok(),
                destination_port: Some(80),
                ..udp
            }),
            all[1..]
        );
        assert_eq!(
            list(FlowFilter {
                destination: "::2".parse().ok(),
                ..udp
            }),
            []
        );
        assert_eq!(list(filter(Family::Ipv4)), []);
    });
}

#[test]
fn both_directions_are_listed() {
    netns::run(|| {
        prepare();
        let all = [53, 80].map(|port| SocketAddr::from(([127, 0, 0, 2], port)));
        dial("127.0.0.1", &all);
        let mut conntrack = Conntrack::open().unwrap();
        let flows = conntrack.flows(&filter(Family::Ipv4)).unwrap();
        assert_eq!(destinations(&flows), all);
        let mut shown = Vec::new();
        for family in [Family::Ipv4, Family::Ipv6] {
            let shown = |it| shown.push(it);
            conntrack.for_each_flow(family, shown).unwrap();
        }
        assert_eq!(destinations(&shown), all);
        for flow in &flows {
            assert_eq!(flow.original.src, flow.reply.dst);
            assert_eq!(flow.original.dst_port, flow.reply.src_port);
            assert_eq!((flow.original.protocol, flow.zone), (UDP, 0));
            assert!(flow.id.is_some());
        }
    });
}

#[test]
fn deleting_removes_one_connection_once() {
    for (family, from, to) in [
        (Family::Ipv4, "127.0.0.1", "127.0.0.2"),
        (Family::Ipv6, "::1", "::1"),
    ] {
        netns::run(move || {
            prepare();
            let to: IpAddr = to.parse().unwrap();
            dial(from, &[53, 80].map(|port| SocketAddr::new(to, port)));
            let mut conntrack = Conntrack::open().unwrap();
            let dns = FlowFilter {
                protocol: Some(UDP),
                destination_port: Some(53),
                ..filter(family)
            };
            let flow = conntrack.flows(&dns).unwrap()[0];
            let stranger = Flow {
                id: flow.id.map(|it| it ^ 1),
                ..flow
            };
            conntrack.delete(&stranger).unwrap();
            assert_eq!(
                conntrack.flows(&dns).unwrap().len(),
                1,
                "another id is another connection"
            );
            conntrack.delete(&flow).unwrap();
            conntrack.delete(&flow).unwrap();
            let rest = conntrack
                .flows(&FlowFilter {
                    protocol: Some(UDP),
                    ..filter(family)
                })
                .unwrap();
            assert_eq!(destinations(&rest), [SocketAddr::new(to, 80)]);
        });
    }
}
