//! The rules mean what the plan says: the outcome of any packet in the text that is loaded is the
//! verdict that `Plan::lookup` gives it, on random clusters.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_iptables::{Accounting, Conntrack, Iptables, Key, Object, render_plan, text};
use sluice_model::{IpFamily, LocalAddresses};
use sluice_plan::Event;
use sluice_plan::lookup::Packet;
use sluice_plan::settings::Settings;
use sluice_plan::state::HostAddresses;
use sluice_plan::testing::{self, arbitrary_events, arbitrary_packet, arbitrary_settings, host};
use sluice_plan::{Plan, Planner};
use sluice_plane::{Scale, Scene};
use sluice_reconcile::Backend;
use sluice_tracers::chance::planned;
use sluice_tracers::xtables::{NO_SETS, Outcome, World, flaws, outcomes};
use sluice_xtables::parse::{Ruleset, play};

fn planner(settings: Settings, events: Vec<Event>) -> Planner {
    let addresses = Event::LocalAddresses(LocalAddresses {
        all: host(),
        default_route: Vec::new(),
    });
    testing::planner(settings, [addresses].into_iter().chain(events))
}

/// What the kernel would hold, of IPv4 and IPv6.
fn rulesets(plan: &Plan, accounting: Accounting) -> BTreeMap<IpFamily, Ruleset> {
    let objects = render_plan(plan, Conntrack::Strict, accounting);
    let scripts = text::script(&objects).into_iter();
    let rulesets = scripts.map(|(family, script)| {
        let mut ruleset = Ruleset::new();
        play(&mut ruleset, &script);
        (family, ruleset)
    });
    rulesets.collect()
}

fn expected(plan: &Plan, packet: &Packet, host: &HostAddresses) -> BTreeSet<Outcome> {
    match plan.lookup(packet, host).verdict {
        // The guard against packets to loopback, which the kernel calls martians.
        None if is_martian(packet) => [Outcome::Dropped].into(),
        _ => planned(plan, packet, host),
    }
}

fn is_martian(packet: &Packet) -> bool {
    let to_loopback = packet.destination.is_ipv4() && packet.destination.is_loopback();
    to_loopback && !packet.source.is_loopback()
}

/// kube-proxy masquerades whoever reaches itself by address alone, also a remote endpoint whose
/// packet came here by chance; the plan only those of this node. For a remote one both are right:
/// its answer to itself never comes here unless it is masqueraded.
fn forgiven(seen: Outcome, packet: &Packet, expected: &BTreeSet<Outcome>) -> Outcome {
    match seen {
        Outcome::Translated { to, .. } if to.ip() == packet.source => {
            let same = expected
                .iter()
                .find(|it| matches!(it, Outcome::Translated { to: it, .. } if *it == to));
            same.copied().unwrap_or(seen)
        }
        seen => seen,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn rules_agree_with_the_plan(
        settings in arbitrary_settings(),
        localhost_node_ports in any::<bool>(),
        accounting in prop::sample::select(vec![Accounting::Off, Accounting::On]),
        events in arbitrary_events(),
        packets in prop::collection::vec(arbitrary_packet(), 1..40),
    ) {
        let settings = Settings { localhost_node_ports, ..settings };
        let planner = planner(settings, events);
        let plan = planner.plan();
        let rulesets = rulesets(plan, accounting);
        let host = host();
        for rules in rulesets.values() {
            prop_assert_eq!(flaws(rules), vec![]);
        }
        for packet in &packets {
            let rules = &rulesets[&IpFamily::of(&packet.destination)];
            let world = World { rules, host: &host, members: NO_SETS };
            let lookup = plan.lookup(packet, &host);
            let expected = expected(plan, packet, &host);
            let seen = outcomes(world, packet);
            let seen: BTreeSet<Outcome> =
                seen.into_iter().map(|it| forgiven(it, packet, &expected)).collect();
            prop_assert_eq!(seen, expected, "{:?}\n{:?}", packet, lookup);
        }
    }

    /// Only keys that say so may be rendered by more than one service port.
    #[test]
    fn objects_of_service_ports_are_their_own(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
    ) {
        let planner = planner(settings, events);
        let node = planner.plan().node.clone();
        let scene = Scene { node, scale: Scale::Large };
        let mut owners: BTreeMap<Key, Object> = BTreeMap::new();
        for port in planner.plan().ports.values() {
            let mut own = BTreeSet::new();
            for (key, object) in sluice_iptables::render_port(&scene, port, Accounting::On) {
                prop_assert!(own.insert(key.clone()) || Iptables::is_shared(&key), "{} twice", key);
                if let Some(other) = owners.insert(key.clone(), object.clone()) {
                    prop_assert!(Iptables::is_shared(&key), "{} of two ports", key);
                    prop_assert_eq!(other, object, "{} differs", key);
                }
            }
        }
    }
}
