//! The ruleset means what the plan says: the outcome of any packet in the rendered objects is the
//! verdict that `Plan::lookup` gives it, on random clusters.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_nftables::{Counting, Key, Nftables, Object, render_plan};
use sluice_plan::testing::{arbitrary_events, arbitrary_packet, arbitrary_settings, host, planner};
use sluice_reconcile::Backend;
use sluice_tracers::chance::planned;
use sluice_tracers::nftables::outcomes;

/// Checks that names in rules lead to objects that exist.
fn references_hold(objects: &BTreeMap<Key, Object>) {
    for (key, object) in objects {
        if let Object::Element(element) = object
            && let sluice_nftables::ElementValue::Goto(chain) = &element.value
        {
            let target = Key::Chain(key.family(), chain.clone());
            assert!(objects.contains_key(&target), "{key} leads to {chain}");
        }
    }
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
