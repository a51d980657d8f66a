//! Tests that a monitor reports each change.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use sluice_netlink::Family;
use sluice_route::{
    Address, Bridge, Change, Connection, Followed, Forward, Hop, Kind, Mac, Monitor, Neighbour,
    Notice, Route, Rule, Settings, Wake,
};

use crate::netns;

/// Waits for this notice, and ignores the notices before it.
#[track_caller]
fn hears(monitor: &mut Monitor, wanted: impl Fn(&Notice) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut notices = Vec::new();
    while !notices.iter().any(&wanted) {
        let woken = monitor.next(Some(deadline), &mut notices).unwrap();
        assert_eq!(woken, Wake::Changed, "{notices:#?}");
    }
}

#[test]
fn each_change_is_heard() {
    netns::run(|| {
        let all = [
            Followed::Links,
            Followed::Addresses,
            Followed::Routes,
            Followed::Rules,
            Followed::Neighbours,
        ];
        let mut monitor = Monitor::follow(&all).unwrap();
        let mut connection = Connection::open().unwrap();
        let up = Settings {
            up: Some(true),
            ..Settings::default()
        };
        let bridge = Kind::Bridge(Bridge::default());
        connection.create("br0", &bridge, &up).unwrap();
        hears(
            &mut monitor,
            |it| matches!(it, Notice::Link(Change::Set, link) if link.name == "br0" && link.is_up),
        );
        let index = connection.index("br0").unwrap();
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        let address = Address::new(index, ip);
        connection.add(&address).unwrap();
        hears(&mut monitor, |it| {
            *it == Notice::Address(Change::Set, address)
        });
        let route = Route::new(IpAddr::from([10, 0, 0, 2]), Hop::on(index));
        connection.add(&route).unwrap();
        hears(&mut monitor, |it| {
            *it == Notice::Route(Change::Set, route.clone())
        });
        let rule = Rule::new(Family::Ipv6, 7, 7);
        connection.add(&rule).unwrap();
        hears(&mut monitor, |it| {
            *it == Notice::Rule(Change::Set, rule.clone())
        });
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let neighbour = Neighbour::permanent(index, IpAddr::from([10, 0, 0, 2]), mac);
        connection.add(&neighbour).unwrap();
        hears(&mut monitor, |it| {
            *it == Notice::Neighbour(Change::Set, neighbour)
        });
        let entry = Forward {
            is_own: true,
            state: sluice_route::State::PERMANENT,
            ..Forward::through(index, mac)
        };
        connection.add(&entry).unwrap();
        hears(
            &mut monitor,
            |it| matches!(it, Notice::Forward(Change::Set, it) if it.mac == mac),
        );

        connection.delete(&entry).unwrap();
        hears(
            &mut monitor,
            |it| matches!(it, Notice::Forward(Change::Gone, it) if it.mac == mac),
        );
        connection.delete(&neighbour).unwrap();
        // The kernel first reports that the neighbour failed.
        hears(
            &mut monitor,
            |it| matches!(it, Notice::Neighbour(_, it) if it.ip == neighbour.ip && it.mac.is_none()),
        );
        connection.delete(&rule).unwrap();
        hears(&mut monitor, |it| {
            *it == Notice::Rule(Change::Gone, rule.clone())
        });
        connection.delete(&route).unwrap();
        hears(&mut monitor, |it| {
            *it == Notice::Route(Change::Gone, route.clone())
        });
        connection.delete(&address).unwrap();
        hears(
            &mut monitor,
            |it| matches!(it, Notice::Address(Change::Gone, it) if it.ip == ip),
        );
        connection.delete_link("br0").unwrap();
        hears(
            &mut monitor,
            |it| matches!(it, Notice::Link(Change::Gone, link) if link.name == "br0"),
        );
        let due = monitor.next(Some(Instant::now()), &mut Vec::new()).unwrap();
        assert!(matches!(due, Wake::Due | Wake::Changed));
        monitor.stopper().stop();
        assert_eq!(monitor.next(None, &mut Vec::new()).unwrap(), Wake::Stopped);
    });
}
