//! The ruleset means what the plan says: the outcome of any packet in the rendered objects is the
//! verdict that `Plan::lookup` gives it, on random clusters.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_nftables::{
    ChainName, Counting, ElementValue, Key, Nftables, Object, SetName, render_plan,
};
use sluice_plan::testing::{arbitrary_events, arbitrary_packet, arbitrary_settings, host, planner};
use sluice_plan::{Event, Plan, PortKey};
use sluice_plane::testing::Fake;
use sluice_plane::{Scale, Scene};
use sluice_reconcile::{Backend, Reconciler};
use sluice_tracers::chance::{Outcome, planned};
use sluice_tracers::nftables::outcomes;

use crate::parts::Ports;

/// Checks that names in rules lead to objects that exist.
fn references_hold(objects: &BTreeMap<Key, Object>) {
    assert_eq!(loose_ends(objects).next(), None);
}

/// Elements whose chains do not exist, with these.
pub(crate) fn loose_ends(
    objects: &BTreeMap<Key, Object>,
) -> impl Iterator<Item = (&Key, &ChainName)> {
    let ends = objects.iter().filter_map(|(key, object)| {
        if let Object::Element(element) = object
            && let ElementValue::Goto(chain) = &element.value
        {
            Some((key, chain))
        } else {
            None
        }
    });
    ends.filter(|(key, chain)| !objects.contains_key(&Key::Chain(key.family(), (*chain).clone())))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn rendered_objects_agree_with_the_plan(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
        packets in prop::collection::vec(arbitrary_packet(), 1..40),
    ) {
        let planner = planner(settings, events);
        let plan = planner.plan();
        let objects = render_plan(plan, Counting::Nothing);
        references_hold(&objects);
        let host = host();
        for packet in &packets {
            let seen = outcomes(&objects, packet, &host);
            let lookup = plan.lookup(packet, &host);
            prop_assert_eq!(seen, planned(plan, packet, &host), "{:?}\n{:?}", packet, lookup);
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
        let planned = |events| planner(settings.clone(), events).plan().clone();
        let rendered = |plan: &Plan| render_plan(plan, Counting::Nothing);
        // Who is a local client, and where NodePorts answer, follows the node before any frontend changes.
        let is_of_node = |it: &&Event| matches!(it, Event::Node(_));
        let services = before.iter().filter(|it| !is_of_node(it));
        let between = planned(services.chain(after.iter().filter(is_of_node)).cloned().collect());
        let plans = [planned(before), between, planned(after)];
        let rendered = plans.each_ref().map(rendered);
        let [before, _, after] = &rendered;
        let host = host();
        let fate = |objects: &_, packet: &_| -> BTreeSet<Outcome> {
            let all = outcomes(objects, packet, &host).into_iter();
            // Who masquerades a client of an address that becomes another kind of address may do so for both.
            let fate = all.map(|it| match it {
                Outcome::Translated { to, .. } => Outcome::Translated { to, masqueraded: false },
                it => it,
            });
            fate.collect()
        };
        // Ranges of Services come after their frontends, and go before them.
        let ranges = |objects: &BTreeMap<Key, Object>| -> Vec<Key> {
            let is_range = |it: &&Key| matches!(it, Key::Element(_, SetName::ServiceCidrs, _));
            objects.keys().filter(is_range).cloned().collect()
        };
        let unserved = (ranges(before) != ranges(after)).then_some([Outcome::Untouched, Outcome::Dropped]);
        let right = |packet| -> BTreeSet<Outcome> {
            let served = rendered.iter().flat_map(|it| fate(it, packet));
            served.chain(unserved.into_iter().flatten()).collect()
        };
        let right: Vec<_> = packets.iter().map(right).collect();
        let [before, _, after] = &plans;
        // What belongs to no Service is written first.
        let standing = Plan { ports: BTreeMap::new(), ..after.clone() };
        let standing = render_plan(&standing, Counting::Nothing);
        let memory = Fake::<Ports>::default();
        memory.0.borrow_mut().is_strict = true;
        let mut reconciler = Reconciler::new(memory.clone());
        let scene = |plan: &Plan| Scene { node: plan.node.clone(), scale: Scale::Small };
        let ports: BTreeSet<PortKey> = before.ports.keys().chain(after.ports.keys()).cloned().collect();
        let written = reconciler.sync(&scene(before), &before.ports, &ports, usize::MAX);
        prop_assert!(written.is_ok());
        let mut is_begun = false;
        while !is_begun || reconciler.has_begun() {
            let written = if is_begun {
                reconciler.go_on(1)
            } else {
                reconciler.sync(&scene(after), &after.ports, &ports, 1)
            };
            is_begun = true;
            prop_assert!(written.is_ok());
            let mut objects = standing.clone();
            objects.extend(memory.0.borrow().objects.clone());
            references_hold(&objects);
            for (packet, right) in packets.iter().zip(&right) {
                let seen = fate(&objects, packet);
                prop_assert!(seen.is_subset(right), "{:?}: {:?}, not {:?}", packet, seen, right);
            }
            prop_assert!(reconciler.has_begun() || objects == rendered[2]);
        }
    }

    /// Service ports may render the same object only if its key allows it.
    #[test]
    fn objects_of_service_ports_are_their_own(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
    ) {
        let planner = planner(settings, events);
        let mut owners: BTreeMap<Key, Object> = BTreeMap::new();
        for port in planner.plan().ports.values() {
            let mut own = BTreeSet::new();
            for (key, object) in sluice_nftables::render_port(port) {
                prop_assert!(own.insert(key.clone()) || <Nftables>::is_shared(&key), "{} twice", key);
                if let Some(other) = owners.insert(key.clone(), object.clone()) {
                    prop_assert!(<Nftables>::is_shared(&key), "{} of two ports", key);
                    prop_assert_eq!(other, object, "{} differs", key);
                }
            }
        }
    }
}
