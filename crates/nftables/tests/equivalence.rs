//! The ruleset means what the plan says: the outcome of any packet in the rendered objects is the
//! fate that `Plan::lookup` gives it, on random clusters.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_core::backend::Backend;
use sluice_core::lookup::{Fate, HostAddresses, Packet};
use sluice_core::plan::{Plan, Planner};
use sluice_core::testing::{arbitrary_events, arbitrary_packet, arbitrary_settings, host};
use sluice_nftables::trace::{Outcome, outcomes};
use sluice_nftables::{Counting, Key, Nftables, Object, render_plan};

fn expected(plan: &Plan, packet: &Packet, host: &HostAddresses) -> BTreeSet<Outcome> {
    let fate = plan.lookup(packet, host);
    match &fate {
        Fate::Balance { pool, .. } => {
            let endpoints = pool.endpoints().iter();
            let outcome = |it: &sluice_core::plan::PoolEndpoint| Outcome::Translated {
                to: it.addr,
                masqueraded: fate.masquerades(packet, it.addr.ip(), host),
            };
            endpoints.map(outcome).collect()
        }
        Fate::Drop(_) => [Outcome::Dropped].into(),
        Fate::Reject(_) => [Outcome::Rejected].into(),
        Fate::NotService => [Outcome::Untouched].into(),
    }
}

/// Names in rules lead to objects that exist.
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
        let mut planner = Planner::new(settings);
        events.into_iter().for_each(|it| planner.absorb(it));
        planner.replan();
        let plan = planner.plan();
        let objects = render_plan(plan, Counting::Nothing);
        references_hold(&objects);
        let host = host();
        for packet in &packets {
            let seen = outcomes(&objects, packet, &host);
            let fate = plan.lookup(packet, &host);
            prop_assert_eq!(seen, expected(plan, packet, &host), "{:?}\n{:?}", packet, fate);
        }
    }

    /// Only keys that say so may be rendered by more than one service port.
    #[test]
    fn objects_of_service_ports_are_their_own(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
    ) {
        let mut planner = Planner::new(settings);
        events.into_iter().for_each(|it| planner.absorb(it));
        planner.replan();
        let mut owners: BTreeMap<Key, Object> = BTreeMap::new();
        for port in planner.plan().ports.values() {
            let mut own = BTreeSet::new();
            for (key, object) in sluice_nftables::render_port(port) {
                prop_assert!(own.insert(key.clone()) || Nftables::is_shared(&key), "{} twice", key);
                if let Some(other) = owners.insert(key.clone(), object.clone()) {
                    prop_assert!(Nftables::is_shared(&key), "{} of two ports", key);
                    prop_assert_eq!(other, object, "{} differs", key);
                }
            }
        }
    }
}
