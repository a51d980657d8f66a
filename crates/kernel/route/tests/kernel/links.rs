//! Interfaces and their addresses, as `ip` sees them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use sluice_netlink::{Errno, RequestError};
use sluice_route::{
    Address, AddressChange, Addresses, Connection, Kind, Link, Settings, addresses, link,
};

use crate::netns::{self, program};

fn bridge() -> Link {
    program("ip", &["link", "add", "vips", "type", "bridge"], "");
    link("vips").unwrap().unwrap()
}

fn all(ips: &[IpAddr], change: fn(IpAddr) -> AddressChange) -> Vec<AddressChange> {
    ips.iter().copied().map(change).collect()
}

#[test]
fn interfaces_are_found() {
    netns::run(|| {
        assert_eq!(link("vips").unwrap(), None);
        let made = bridge();
        assert_eq!(made.kind.as_deref(), Some("bridge"));
        let loopback = link("lo").unwrap().unwrap();
        assert_eq!(loopback.kind, None);
        assert_ne!(made.index, loopback.index);
    });
}

#[test]
fn a_name_that_is_taken_is_not_made_again() {
    netns::run(|| {
        bridge();
        let mut connection = Connection::open().unwrap();
        match connection.ensure("vips", &Kind::Dummy, &Settings::default()) {
            Ok(made) => assert!(!made),
            // Looked at before the name is: this kernel has no such interfaces.
            Err(error) => {
                let wanted = "create dummy interface vips: Operation not supported";
                assert!(error.to_string().starts_with(wanted), "{error}");
                assert!(
                    error
                        .to_string()
                        .ends_with("(the kernel has no module dummy)"),
                    "{error}"
                );
            }
        }
    });
}

/// More than one datagram of them, on an interface that is down, as kube-proxy leaves it.
#[test]
fn thousands_of_addresses_come_and_go() {
    netns::run(|| {
        let index = bridge().index;
        let v4 = (0..1500_u16).map(|it| IpAddr::from([10, 96, (it / 250) as u8, (it % 250) as u8]));
        let v6 = (1..500_u16).map(|it| IpAddr::from([0xfd00, 0x10, 0x96, 0, 0, 0, 0, it]));
        let ips: Vec<IpAddr> = v4.chain(v6).collect();
        let mut addresses = Addresses::open().unwrap();
        for _ in 0..2 {
            let refused = addresses
                .apply(index, &all(&ips, AddressChange::Add))
                .unwrap()
                .refused;
            assert!(refused.is_empty(), "{refused:?}");
        }
        let listed: BTreeSet<IpAddr> = addresses_of(index).iter().map(|it| it.ip).collect();
        assert_eq!(listed, ips.iter().copied().collect());
        let shown = program("ip", &["-o", "addr", "show", "dev", "vips"], "");
        assert!(
            shown.contains("inet 10.96.0.1/32 scope global vips"),
            "{shown}"
        );
        assert!(
            shown.contains("inet6 fd00:10:96::1/128 scope global nodad"),
            "{shown}"
        );
        let local = program("ip", &["route", "get", "10.96.0.1"], "");
        assert!(local.starts_with("local 10.96.0.1 dev lo"), "{local}");
        for _ in 0..2 {
            let refused = addresses
                .apply(index, &all(&ips[1..], AddressChange::Delete))
                .unwrap()
                .refused;
            assert!(refused.is_empty(), "{refused:?}");
        }
        let listed: Vec<IpAddr> = addresses_of(index).iter().map(|it| it.ip).collect();
        assert_eq!(listed, ips[..1]);
    });
}

/// An address as kube-proxy leaves it: the source of packets for which no other address is better.
#[test]
fn a_preferred_address_is_deprecated_by_adding_it() {
    netns::run(|| {
        let index = bridge().index;
        let ip: IpAddr = "fd00:10:96::1".parse().unwrap();
        let add = ["address", "add", "fd00:10:96::1", "dev", "vips", "nodad"];
        program("ip", &add, "");
        let is_deprecated = || {
            let found = addresses_of(index);
            found.iter().map(|it| it.is_deprecated).collect::<Vec<_>>()
        };
        assert_eq!(is_deprecated(), [false]);
        let mut addresses = Addresses::open().unwrap();
        let applied = addresses.apply(index, &[AddressChange::Add(ip)]).unwrap();
        assert!(
            applied.refused.is_empty() && applied.late.is_none(),
            "{applied:?}"
        );
        assert_eq!(is_deprecated(), [true]);
        let shown = program("ip", &["-o", "address", "show", "dev", "vips"], "");
        assert!(
            shown.contains("fd00:10:96::1/128 scope global nodad deprecated"),
            "{shown}"
        );
    });
}

/// The kernel acknowledges an IPv6 address before it accepts packets to it.
#[test]
fn an_address_is_reached_as_soon_as_it_is_added() {
    netns::run(|| {
        let index = bridge().index;
        let mut addresses = Addresses::open().unwrap();
        // Whatever else the routes say of them meanwhile.
        for (route, net) in [("blackhole", 1), ("prohibit", 2), ("unreachable", 3)] {
            let net = format!("fd00:10:96::{net}00/120");
            program("ip", &["-6", "route", "add", route, &net], "");
        }
        for last in 1..1000_u16 {
            let pair = [
                IpAddr::from([10, 96, (last / 250) as u8, (last % 250) as u8]),
                IpAddr::from([0xfd00, 0x10, 0x96, 0, 0, 0, 0, last]),
            ];
            let changes = all(&pair, AddressChange::Add);
            let mut applied = addresses.apply(index, &changes).unwrap();
            // A busy machine's work queue may need more than the time of one call; an address that is there is no error.
            let deadline = Instant::now() + Duration::from_secs(60);
            while applied.late.is_some() && Instant::now() < deadline {
                applied = addresses.apply(index, &changes).unwrap();
            }
            assert!(
                applied.refused.is_empty() && applied.late.is_none(),
                "{applied:?}"
            );
            for ip in pair {
                let any: IpAddr = match ip {
                    IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0)).unwrap();
                let dialled = socket.connect((ip, 80));
                dialled.unwrap_or_else(|error| panic!("{ip}: {error}"));
            }
        }
    });
}

/// Where no route makes the address the machine's own, the wait ends after a second.
#[test]
fn an_address_that_no_route_is_local_to_is_named() {
    netns::run(|| {
        let index = bridge().index;
        // The kernel uses its rules only when another program has added one.
        program(
            "ip",
            &["-6", "rule", "add", "pref", "9", "table", "main"],
            "",
        );
        program("ip", &["-6", "rule", "del", "table", "local"], "");
        let ips = ["fd00::1", "fd00::2"].map(|it| it.parse().unwrap());
        let mut addresses = Addresses::open().unwrap();
        let applied = addresses.apply(index, &all(&ips, AddressChange::Add));
        let late = applied.unwrap().late.map(|it| it.to_string());
        assert_eq!(late.as_deref(), Some("no local route to fd00::1 after 1s"));
    });
}

#[test]
fn each_refused_address_is_named() {
    netns::run(|| {
        let index = bridge().index;
        program("sysctl", &["-qw", "net.ipv6.conf.vips.disable_ipv6=1"], "");
        let ips: Vec<IpAddr> = ["10.0.0.1", "fd00::1", "10.0.0.2", "fd00::2"]
            .map(|it| it.parse().unwrap())
            .to_vec();
        let mut addresses = Addresses::open().unwrap();
        let refused = addresses
            .apply(index, &all(&ips, AddressChange::Add))
            .unwrap()
            .refused;
        let at: Vec<usize> = refused.iter().map(|it| it.index).collect();
        assert_eq!(at, [1, 3]);
        let error = refused[0].error.to_string();
        assert!(
            error.starts_with("add address fd00::1: Permission denied"),
            "{error}"
        );
        assert_eq!(addresses_of(index).len(), 2);
        let gone = addresses
            .apply(999, &all(&ips[..1], AddressChange::Add))
            .unwrap()
            .refused;
        let is_nodev = |error: &RequestError| error.errno() == Some(Errno::ENODEV);
        assert!(is_nodev(&gone[0].error), "{}", gone[0].error);
        assert!(addresses.apply(index, &[]).unwrap().refused.is_empty());
    });
}

/// Scope host: an interface without an address of its own does not take it as the source of its packets.
#[test]
fn an_address_of_this_machine_alone_is_recognised_and_lent_to_no_interface() {
    netns::run(|| {
        program("ip", &["link", "set", "lo", "up"], "");
        let lo = link("lo").unwrap().unwrap().index;
        let ips: [IpAddr; 2] =
            ["169.254.20.10", "fd00:169:254:20::10"].map(|it| it.parse().unwrap());
        let own = ips.map(|ip| AddressChange::AddOwn {
            ip,
            label: "lo:own",
            metric: 4711,
        });
        let mut addresses = Addresses::open().unwrap();
        for _ in 0..2 {
            let applied = addresses.apply(lo, &own).unwrap();
            assert!(applied.refused.is_empty() && applied.late.is_none());
        }
        let found = addresses_of(lo);
        let ours: BTreeSet<IpAddr> = found
            .iter()
            .filter(|it| it.metric == 4711)
            .map(|it| it.ip)
            .collect();
        assert_eq!(ours, BTreeSet::from(ips));
        let of = |ip: IpAddr| found.iter().find(|it| it.ip == ip).copied().unwrap();
        assert!(of(ips[1]).is_deprecated);
        assert_eq!(of(IpAddr::V4(Ipv4Addr::LOCALHOST)).metric, 0);

        program(
            "ip",
            &["link", "add", "x", "type", "veth", "peer", "name", "y"],
            "",
        );
        for end in ["x", "y"] {
            program("ip", &["link", "set", end, "up"], "");
        }
        program("ip", &["route", "add", "10.244.0.5", "dev", "x"], "");
        let route = program("ip", &["route", "get", "10.244.0.5"], "");
        assert!(!route.contains("169.254.20.10"), "{route}");

        let applied = addresses
            .apply(lo, &ips.map(AddressChange::Delete))
            .unwrap();
        assert!(applied.refused.is_empty());
        assert!(addresses_of(lo).iter().all(|it| it.metric == 0));
    });
}

#[test]
fn interfaces_are_deleted_by_name() {
    netns::run(|| {
        program("ip", &["link", "add", "kube", "type", "bridge"], "");
        let mut connection = Connection::open().unwrap();
        assert!(connection.delete_link("kube").unwrap());
        assert!(!connection.delete_link("kube").unwrap(), "gone already");
        let links = program("ip", &["-o", "link"], "");
        assert!(!links.contains("kube"), "{links}");
    });
}

/// Every address of one interface.
#[track_caller]
fn addresses_of(interface: u32) -> Vec<Address> {
    let mut all = addresses().unwrap();
    all.retain(|it| it.interface == interface);
    all
}
