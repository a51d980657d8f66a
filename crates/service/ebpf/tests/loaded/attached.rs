//! Which interfaces have programs, and what the programs know about them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sluice_bpf_abi::{Addr, Interface, interface_flags};
use sluice_ebpf::{Maps, Programs};
use sluice_lab::eventually;
use sluice_route::link;

use crate::loaded::world::{SOON, attached, count_at, ip, programs_at, run};

fn row(programs: &Programs, interface: &str) -> Option<Interface> {
    let index = link(interface).unwrap()?.index;
    programs.maps().interfaces.get(&index).unwrap()
}

fn described(programs: &Programs, interface: &str, is_wanted: impl Fn(&Interface) -> bool) {
    let found = eventually(SOON, || row(programs, interface).filter(&is_wanted));
    assert!(found.is_some(), "{:?}", row(programs, interface));
}

#[test]
fn every_wanted_interface_has_both_programs() {
    run("wanted", |_, root| {
        ip("link add no1 type veth peer name other");
        let _programs = attached(root);
        for name in ["lo", "east", "west"] {
            assert!(programs_at(name).is_some(), "{name}");
        }
        assert_eq!(count_at("no1"), 0);
    });
}

#[test]
fn an_interface_that_appears_later_gets_programs() {
    run("later", |_, root| {
        let programs = attached(root);
        ip("link add pod1 type veth peer name other");
        assert!(eventually(SOON, || programs_at("pod1")).is_some());
        described(&programs, "pod1", |it| {
            it.flags == interface_flags::POD | interface_flags::SEEN
        });
        described(&programs, "east", |it| it.flags == interface_flags::SEEN);
        let index = link("pod1").unwrap().unwrap().index;
        ip("link delete pod1");
        let is_gone = || {
            let known = programs.maps().interfaces.get(&index).unwrap();
            let pin = programs
                .pins()
                .links()
                .join(format!("sluice_ingress-{index}"));
            (known.is_none() && !pin.exists()).then_some(())
        };
        assert!(eventually(SOON, is_gone).is_some());
    });
}

#[test]
fn a_renamed_interface_keeps_its_programs() {
    run("renamed", |_, root| {
        let programs = attached(root);
        let before = programs_at("east").unwrap();
        ip("link set east name pod2");
        described(&programs, "pod2", |it| {
            it.flags == interface_flags::POD | interface_flags::SEEN
        });
        ip("link set pod2 name east");
        described(&programs, "east", |it| it.flags == interface_flags::SEEN);
        assert_eq!(programs_at("east"), Some(before));
    });
}

/// A packet that arrives while an agent starts again is not looked for a second time where it leaves.
#[test]
fn the_next_agent_knows_at_once_what_programs_see() {
    run("again", |_, root| {
        ip("link add br0 type bridge");
        ip("link set east master br0");
        let flags_of = |maps: &Maps| {
            let all = maps.interfaces.entries().unwrap().into_iter();
            let flags: BTreeMap<u32, u32> = all.map(|(index, it)| (index, it.flags)).collect();
            flags
        };
        let mut programs = attached(root);
        let wanted = flags_of(programs.maps());
        let is_seen = |it: &u32| it & interface_flags::SEEN != 0;
        assert!(
            wanted.values().filter(|it| is_seen(it)).count() >= 4,
            "{wanted:?}"
        );
        let maps = Maps::open(programs.pins()).unwrap();
        let has_ended = AtomicBool::new(false);
        let others = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut others = Vec::new();
                while !has_ended.load(Ordering::Relaxed) {
                    let flags = flags_of(&maps);
                    if flags != wanted {
                        others.push(flags);
                    }
                }
                others
            });
            for _ in 0..3 {
                drop(programs);
                programs = attached(root);
            }
            has_ended.store(true, Ordering::Relaxed);
            reader.join().unwrap()
        });
        assert_eq!(others, [], "not {wanted:?}");
    });
}

#[test]
fn programs_know_mtu_and_addresses() {
    run("known", |_, root| {
        let programs = attached(root);
        ip("link set east up mtu 1400");
        ip("addr add 169.254.7.7/16 dev east");
        ip("addr add 192.0.2.7/24 dev east");
        ip("addr add 2001:db8::7/64 dev east nodad");
        let v4 = Addr::from("192.0.2.7".parse::<std::net::IpAddr>().unwrap());
        let v6 = Addr::from("2001:db8::7".parse::<std::net::IpAddr>().unwrap());
        described(&programs, "east", |it| {
            it.mtu == 1400 && it.v4 == v4 && it.v6 == v6
        });
    });
}
