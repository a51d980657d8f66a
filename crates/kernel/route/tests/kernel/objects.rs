//! Addresses, routes, rules and neighbours, as `ip` shows them.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};

use ipnet::IpNet;
use sluice_netlink::Family;
use sluice_route::{
    Address, Connection, Hop, Kind, Mac, Neighbour, Object, Route, RouteKind, Rule, Scope,
    Settings, State,
};

use crate::netns::{self, program};

const UP: Settings<'static> = Settings {
    index: None,
    mac: None,
    mtu: None,
    master: None,
    up: Some(true),
    namespace: None,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

#[track_caller]
fn shows(command: &str, wanted: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let shown = program("ip", &words, "");
    assert!(
        shown.contains(wanted),
        "{command}: no {wanted:?} in {shown}"
    );
}

/// A connection, and the index of `x`, which has a cable, 10.0.0.1/24 and fd00::1/64.
fn machine() -> (Connection, u32) {
    let mut connection = Connection::open().unwrap();
    let kind = Kind::Veth {
        peer: "y",
        settings: Settings::default(),
    };
    connection.create("x", &kind, &UP).unwrap();
    for name in ["y", "lo"] {
        connection.set(name, &UP).unwrap();
    }
    let index = connection.index("x").unwrap();
    for address in ["10.0.0.1/24", "fd00::1/64"] {
        connection.add(&Address::new(index, net(address))).unwrap();
    }
    (connection, index)
}

/// Adds an object, and compares it with `ip` and with the listing; then adds it again, replaces it, and deletes it
/// twice.
#[track_caller]
fn comes_and_goes<O: Object + PartialEq + std::fmt::Debug>(
    connection: &mut Connection,
    object: &O,
    command: &str,
    wanted: &str,
) {
    connection.add(object).unwrap();
    shows(command, wanted);
    let all: Vec<O> = connection.list().unwrap();
    assert!(all.contains(object), "{object:?} is not in {all:#?}");
    let taken = connection.add(object).unwrap_err();
    assert!(taken.already_exists() && !taken.is_missing(), "{taken}");
    assert!(
        taken
            .to_string()
            .starts_with(&format!("add {object}: File exists")),
        "{taken}"
    );
    connection.replace(object).unwrap();
    let all: Vec<O> = connection.list().unwrap();
    assert_eq!(all.iter().filter(|it| *it == object).count(), 1, "{all:#?}");
    assert!(connection.delete(object).unwrap());
    assert!(!connection.delete(object).unwrap(), "it is gone");
    connection.replace(object).unwrap();
    assert!(connection.delete(object).unwrap());
}

#[test]
fn addresses_come_and_go() {
    netns::run(|| {
        let (mut connection, index) = machine();
        let host = Address {
            scope: Scope::HOST,
            metric: 77,
            ..Address::new(index, net("10.1.0.1/16"))
        };
        let deprecated = Address {
            is_deprecated: true,
            ..Address::new(index, net("fd01::1/64"))
        };
        for (address, wanted) in [
            (
                Address::new(index, ip("10.0.1.1")),
                "inet 10.0.1.1/32 scope global x",
            ),
            (host, "inet 10.1.0.1/16 metric 77 scope host x"),
            (
                Address::new(index, ip("fd02::1")),
                "inet6 fd02::1/128 scope global nodad",
            ),
            (deprecated, "inet6 fd01::1/64 scope global nodad deprecated"),
        ] {
            comes_and_goes(&mut connection, &address, "addr show dev x", wanted);
        }
        let nowhere = Address::new(999, ip("10.0.1.1"));
        assert!(connection.add(&nowhere).unwrap_err().is_missing());
    });
}

#[test]
fn routes_come_and_go() {
    netns::run(|| {
        let (mut connection, index) = machine();
        let six = Route {
            metric: 1024,
            ..Route::default_via(index, ip("fd00::9"))
        };
        let onlink = Hop {
            onlink: true,
            ..Hop::via(index, ip("192.0.2.1"))
        };
        let sourced = Route {
            source: Some(ip("10.0.0.1")),
            table: 4711,
            metric: 50,
            protocol: 200,
            mtu: Some(1400),
            advertised_mss: Some(1300),
            ..Route::new(net("10.2.0.0/16"), Hop::on(index))
        };
        let both = Route {
            hops: vec![
                Hop {
                    weight: 3,
                    ..Hop::via(index, ip("10.0.0.2"))
                },
                Hop::via(index, ip("10.0.0.3")),
            ],
            ..Route::new(net("10.3.0.0/16"), Hop::via(index, ip("10.0.0.2")))
        };
        let local = Route {
            kind: RouteKind::LOCAL,
            table: 100,
            scope: Scope::HOST,
            ..Route::new(net("0.0.0.0/0"), Hop::on(1))
        };
        for (route, wanted) in [
            (
                Route::default_via(index, ip("10.0.0.9")),
                "default via 10.0.0.9 dev x",
            ),
            (
                Route::new(net("10.1.0.0/16"), onlink),
                "10.1.0.0/16 via 192.0.2.1 dev x onlink",
            ),
            (
                sourced,
                "10.2.0.0/16 dev x table 4711 proto 200 scope link src 10.0.0.1 metric 50 mtu 1400 advmss 1300",
            ),
            (both, "nexthop via 10.0.0.2 dev x weight 3"),
            (local, "local default dev lo table 100 scope host"),
            (
                Route::new(net("10.7.0.0/16"), Hop::via(index, ip("fd00::7"))),
                "10.7.0.0/16 via inet6 fd00::7 dev x",
            ),
        ] {
            comes_and_goes(&mut connection, &route, "-4 route show table all", wanted);
        }
        comes_and_goes(
            &mut connection,
            &six,
            "-6 route",
            "default via fd00::9 dev x metric 1024",
        );
        let lost = Route::new(net("10.5.0.0/16"), Hop::via(index, ip("192.0.2.1")));
        let error = connection.add(&lost).unwrap_err().to_string();
        let wanted = "add route 10.5.0.0/16 via 192.0.2.1: Network is unreachable (Nexthop has invalid gateway)";
        assert_eq!(error, wanted);
    });
}

#[test]
fn rules_come_and_go() {
    netns::run(|| {
        let (mut connection, _) = machine();
        let narrow = Rule {
            from: Some(net("10.0.0.0/8")),
            to: Some(net("10.9.0.0/16")),
            mark: Some((0x4000, 0x4000)),
            input: Some("x".to_owned()),
            protocol: 200,
            ..Rule::new(Family::Ipv4, 100, 4711)
        };
        let wanted =
            "100:\tfrom 10.0.0.0/8 to 10.9.0.0/16 fwmark 0x4000/0x4000 iif x lookup 4711 proto 200";
        comes_and_goes(&mut connection, &narrow, "rule", wanted);
        let suppressing = Rule {
            suppressed_prefix: Some(0),
            inverted: true,
            output: Some("x".to_owned()),
            ..Rule::new(Family::Ipv6, 200, 254)
        };
        let wanted = "200:\tnot from all oif x lookup main suppress_prefixlength 0";
        comes_and_goes(&mut connection, &suppressing, "-6 rule", wanted);
    });
}

/// The sender's address decides which table a packet looks at.
#[test]
fn a_rule_leads_packets_to_its_table() {
    netns::run(|| {
        let (mut connection, index) = machine();
        connection
            .add(&Address::new(index, ip("10.0.0.7")))
            .unwrap();
        let far = net("192.0.2.0/24");
        connection
            .add(&Route::new(far, Hop::via(index, ip("10.0.0.2"))))
            .unwrap();
        // `RTN_PROHIBIT`.
        let elsewhere = Route {
            kind: RouteKind(8),
            hops: Vec::new(),
            table: 7,
            ..Route::new(far, Hop::via(index, ip("10.0.0.2")))
        };
        connection.add(&elsewhere).unwrap();
        let rule = Rule {
            from: Some(ip("10.0.0.7").into()),
            ..Rule::new(Family::Ipv4, 10, 7)
        };
        let send = |from: &str| {
            let socket = UdpSocket::bind((ip(from), 0)).unwrap();
            socket.send_to(b"x", "192.0.2.1:7").map_err(|it| it.kind())
        };
        assert_eq!(send("10.0.0.7"), Ok(1));
        connection.add(&rule).unwrap();
        assert_eq!(send("10.0.0.7"), Err(ErrorKind::PermissionDenied));
        assert_eq!(send("10.0.0.1"), Ok(1));
        assert!(connection.delete(&rule).unwrap());
        assert_eq!(send("10.0.0.7"), Ok(1));
    });
}

#[test]
fn neighbours_come_and_go() {
    netns::run(|| {
        let (mut connection, index) = machine();
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        for address in ["10.0.0.9", "fd00::9"] {
            let neighbour = Neighbour::permanent(index, ip(address), mac);
            let wanted = format!("{address} dev x lladdr 02:00:00:00:00:09 PERMANENT");
            connection.add(&neighbour).unwrap();
            shows("neigh", &wanted);
            assert!(connection.list::<Neighbour>().unwrap().contains(&neighbour));
            assert!(connection.add(&neighbour).unwrap_err().already_exists());
            let moved = Neighbour::permanent(index, ip(address), Mac([2, 0, 0, 0, 0, 10]));
            connection.replace(&moved).unwrap();
            shows(
                "neigh",
                &format!("{address} dev x lladdr 02:00:00:00:00:0a PERMANENT"),
            );
            assert!(connection.delete(&moved).unwrap());
            // The kernel keeps the dead entry while something refers to it.
            let left: Vec<Neighbour> = connection.list().unwrap();
            let left = left.iter().find(|it| it.ip == ip(address));
            assert!(left.is_none_or(|it| it.state == State::FAILED), "{left:?}");
        }
        let proxy = Neighbour {
            mac: None,
            is_proxy: true,
            ..Neighbour::permanent(index, ip("10.0.0.8"), mac)
        };
        connection.replace(&proxy).unwrap();
        shows("neigh show proxy", "10.0.0.8 dev x");
        assert!(connection.delete(&proxy).unwrap());
        assert!(!connection.delete(&proxy).unwrap());
    });
}
