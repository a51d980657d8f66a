//! The contents of the maps mean what the plan says: what the programs do with any packet is the verdict of
//! `Plan::lookup`, on random clusters.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_ebpf::evaluate::{Fate, client, evaluate};
use sluice_ebpf::{AddressKind, Ebpf, Facts, Key, Object, render_plan};
use sluice_model::LocalAddresses;
use sluice_plan::lookup::{Client, Packet};
use sluice_plan::settings::{DirectReturn, Settings};
use sluice_plan::state::HostAddresses;
use sluice_plan::testing::{arbitrary_events, arbitrary_packet, arbitrary_settings, host, planner};
use sluice_plan::{Event, Plan, PortKey};
use sluice_plane::testing::{Fake, Shape as _};
use sluice_plane::{Scale, Scene};
use sluice_reconcile::{Backend, Reconciler};
use sluice_tracers::chance::{Outcome, planned};

use crate::parts::Ports;

fn outcomes(
    plan: &Plan,
    objects: &BTreeMap<Key, Object>,
    packet: &Packet,
    host: &HostAddresses,
) -> BTreeSet<Outcome> {
    let Object::Node(node) = &objects[&Key::Node] else {
        panic!("the settings are there");
    };
    let family = plan.node.family(sluice_model::IpFamily::of(&packet.source));
    // The agent tells the programs which interfaces are pods' by their names.
    let is_pod = family.local_traffic.as_ref().is_some_and(|it| {
        let by_range = matches!(it, sluice_model::LocalTraffic::From(_));
        !by_range && it.matches(packet.source, packet.interface.as_deref())
    });
    let evaluation = evaluate(objects, packet, client(node, packet, is_pod));
    let evaluation = evaluation.expect("no kernel is asked");
    let outcomes = evaluation.fates.iter().map(|fate| match *fate {
        Fate::Endpoint {
            to, masqueraded, ..
        } => Outcome::Translated {
            to,
            // What is delivered here leaves nowhere, where it would be masqueraded.
            masqueraded: masqueraded && !(packet.interface.is_some() && host.contains(&to.ip())),
        },
        Fate::EmptySlot(slot) => panic!("slot {slot} is empty"),
        Fate::Dropped => Outcome::Dropped,
        Fate::Rejected => Outcome::Rejected,
        Fate::Untouched => Outcome::Untouched,
    });
    outcomes.collect()
}

/// The elements that no Service has.
fn standing(plan: &Plan) -> BTreeMap<Key, Object> {
    let plan = Plan {
        ports: BTreeMap::new(),
        ..plan.clone()
    };
    render_plan(&plan, &Facts::default())
}

/// Packets that arrive have no address of this node as their source: the kernel drops them (martians).
fn can_be(packet: &Packet, host: &HostAddresses) -> bool {
    packet.interface.is_some() != host.contains(&packet.source)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn maps_agree_with_the_plan(
        settings in arbitrary_settings(),
        direct_return in prop::sample::select(&[DirectReturn::Off, DirectReturn::Annotated, DirectReturn::All][..]),
        events in arbitrary_events(),
        packets in prop::collection::vec(arbitrary_packet(), 1..40),
    ) {
        let settings = Settings { direct_return, ..settings };
        // The agent tells the plan the machine's addresses, which the maps list.
        let addresses = Event::LocalAddresses(LocalAddresses {
            all: host(),
            default_route: Vec::new(),
        });
        let planner = planner(settings, events.into_iter().chain([addresses]));
        let plan = planner.plan();
        let objects = render_plan(plan, &Facts::default());
        let host = host();
        for packet in packets.iter().filter(|it| can_be(it, &host)) {
            let seen = outcomes(plan, &objects, packet, &host);
            let lookup = plan.lookup(packet, &host);
            let mut planned = planned(plan, packet, &host);
            // Maglev leaves out endpoints of weight 0, where others have more.
            if lookup.found.is_some_and(|(port, _)| port.algorithm.is_some()) {
                prop_assert!(!seen.is_empty() && seen.is_subset(&planned), "{:?}", packet);
                planned = seen.clone();
            }
            prop_assert_eq!(seen, planned, "{:?}\n{:?}", packet, lookup);
        }
    }

    /// A large difference is written in parts. After each of them a packet goes where it went before, or where it is to go.
    #[test]
    fn parts_are_as_before_or_as_after(
        settings in arbitrary_settings(),
        before in arbitrary_events(),
        after in arbitrary_events(),
        packets in prop::collection::vec(arbitrary_packet(), 1..20),
    ) {
        let planned = |events: Vec<Event>| planner(settings.clone(), events).plan().clone();
        let (before, after) = (planned(before), planned(after));
        let rendered = |plan: &Plan| {
            let ports = plan.ports.values().flat_map(|it| Ports::render(it));
            standing(plan).into_iter().chain(ports).collect::<BTreeMap<Key, Object>>()
        };
        let (objects, wanted) = (rendered(&before), rendered(&after));
        let host = host();
        // What belongs to no Service is written first.
        let is_of_node = |key: &Key| matches!(key, Key::Node | Key::Address(AddressKind::NodePorts, _));
        let of_node = |objects: &BTreeMap<Key, Object>| -> Vec<(Key, Object)> {
            let all = objects.iter().filter(|(key, _)| is_of_node(key));
            all.map(|(key, object)| (key.clone(), object.clone())).collect()
        };
        let is_same_node = of_node(&objects) == of_node(&wanted);
        let packets = if is_same_node { packets } else { Vec::new() };
        let fate = |objects: &_, packet: &_| -> BTreeSet<Outcome> {
            let all = outcomes(&after, objects, packet, &host).into_iter();
            // Who masquerades a client of an address that becomes another kind of address may do so for both.
            let all = all.map(|it| match it {
                Outcome::Translated { to, .. } => Outcome::Translated { to, masqueraded: false },
                it => it,
            });
            all.collect()
        };
        // A slot gets another endpoint of its service port before the frontends that change otherwise, too, have their turn.
        let of_slots = |packet: &Packet| -> BTreeSet<Outcome> {
            let mut mixed = objects.clone();
            let endpoints = wanted.iter().filter(|(key, _)| matches!(key, Key::Endpoint(..)));
            mixed.extend(endpoints.map(|(key, object)| (key.clone(), object.clone())));
            fate(&mixed, packet)
        };
        let right = |packet: &Packet| -> BTreeSet<Outcome> {
            let served = fate(&objects, packet).into_iter().chain(fate(&wanted, packet));
            served.chain(of_slots(packet)).collect()
        };
        let right: Vec<_> = packets.iter().map(right).collect();
        let memory = Fake::<Ports>::default();
        memory.0.borrow_mut().is_strict = true;
        let mut reconciler = Reconciler::new(memory.clone());
        let scene = |plan: &Plan| Scene { node: plan.node.clone(), scale: Scale::Small };
        let ports: BTreeSet<PortKey> = before.ports.keys().chain(after.ports.keys()).cloned().collect();
        let written = reconciler.sync(&scene(&before), &before.ports, &ports, usize::MAX);
        prop_assert!(written.is_ok());
        let mut written = reconciler.sync(&scene(&after), &after.ports, &ports, 1);
        loop {
            let count = written.map(|it| it.added + it.replaced + it.deleted);
            prop_assert!(count.is_ok_and(|it| it <= 1));
            let mut objects = standing(&after);
            objects.extend(memory.0.borrow().objects.clone());
            for (packet, right) in packets.iter().zip(&right) {
                let seen = fate(&objects, packet);
                prop_assert!(seen.is_subset(right), "{:?}: {:?}, not {:?}", packet, seen, right);
            }
            if !reconciler.has_begun() {
                prop_assert_eq!(objects, wanted);
                break;
            }
            written = reconciler.go_on(1);
        }
    }

    /// Only keys that say so may be rendered by more than one service port.
    #[test]
    fn objects_of_service_ports_are_their_own(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
    ) {
        let planner = planner(settings, events);
        let mut owners: BTreeMap<Key, Object> = BTreeMap::new();
        for (service, port) in (1..).zip(planner.plan().ports.values()) {
            let mut own = BTreeSet::new();
            for (key, object) in sluice_ebpf::render_port(port, service, &Facts::default()) {
                prop_assert!(own.insert(key.clone()) || Ebpf::is_shared(&key), "{} twice", key);
                if let Some(other) = owners.insert(key.clone(), object.clone()) {
                    prop_assert!(Ebpf::is_shared(&key), "{} of two ports", key);
                    prop_assert_eq!(other, object, "{} differs", key);
                }
            }
        }
    }
}

/// The classes of clients have the order of the maps.
#[test]
fn clients_are_numbered_as_in_the_maps() {
    let classes = [Client::Node, Client::LocalPod, Client::Other];
    let numbers = [
        sluice_bpf_abi::Client::Node,
        sluice_bpf_abi::Client::LocalPod,
        sluice_bpf_abi::Client::Other,
    ];
    for (class, number) in classes.into_iter().zip(numbers) {
        assert_eq!(class as usize, number as usize);
    }
}
