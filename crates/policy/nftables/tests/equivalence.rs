//! The rules do with every packet what the plan says.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use proptest::prelude::*;
use sluice_model::{IpFamily, Protocol};
use sluice_nft::rule::{Action, Field, Match, Sense, Side};
use sluice_nft::testing::Fake;
use sluice_policy_nftables::{
    Aside, Chain, ChainName, Entry, Key, Object, Rule, SetName, render, standing,
};
use sluice_policy_plan::lookup::{Decision, Packet, audited, lookup};
use sluice_policy_plan::testing::{deletions, events, packets, parse, worlds};
use sluice_policy_plan::{Direction, Outcome, Plan, PortRange};
use sluice_reconcile::{Backend as _, Delta, Parts as _};

use crate::common::{Enforced, GROUP};

type Objects = BTreeMap<Key, Object>;

fn objects(plan: &Plan) -> Objects {
    let families = IpFamily::ALL.into_iter();
    let all = families.flat_map(|family| {
        let pieces = plan.values().flat_map(move |it| render(family, it));
        standing(family, Some(GROUP)).into_iter().chain(pieces)
    });
    all.collect()
}

/// What the rules show to listeners of nflog, by its text.
type Logged = RefCell<BTreeSet<String>>;

/// Whether a packet passes the hook forward: the base chains by priority, each ended by the first verdict.
fn passes(objects: &Objects, packet: &Packet, logged: &Logged) -> bool {
    let family = IpFamily::of(&packet.source);
    let mut bases: Vec<&Chain> = Vec::new();
    for (key, object) in objects {
        if let (Key::Chain(..), Object::Chain(chain)) = (key, object)
            && key.family() == family
            && chain.hook.is_some()
        {
            bases.push(chain);
        }
    }
    bases.sort_by_key(|it| it.hook.unwrap().priority);
    bases
        .iter()
        .all(|it| run(objects, packet, it, logged) != Some(false))
}

/// The verdict of a chain: accepted, dropped, or none at its end.
fn run(objects: &Objects, packet: &Packet, chain: &Chain, logged: &Logged) -> Option<bool> {
    for rule in &chain.rules {
        if !rule.matches.iter().all(|it| matches(objects, packet, it)) {
            continue;
        }
        match act(objects, packet, rule, logged) {
            Step::Next => {}
            Step::Leave => return None,
            Step::End(verdict) => return Some(verdict),
        }
    }
    None
}

enum Step {
    Next,
    Leave,
    End(bool),
}

fn act(objects: &Objects, packet: &Packet, rule: &Rule, logged: &Logged) -> Step {
    let follow = |name: &ChainName| {
        let key = Key::Chain(IpFamily::of(&packet.source), name.clone());
        match objects.get(&key) {
            Some(Object::Chain(chain)) => run(objects, packet, chain, logged),
            other => panic!("{key} is {other:?}"),
        }
    };
    for action in &rule.actions {
        match action {
            Action::Count | Action::Remember(..) => {}
            Action::Log { prefix, group } => {
                assert_eq!(*group, GROUP);
                logged.borrow_mut().insert(prefix.to_string());
            }
            Action::Accept => return Step::End(true),
            Action::Drop => return Step::End(false),
            Action::Return => return Step::Leave,
            Action::Jump(name) => {
                if let Some(verdict) = follow(name) {
                    return Step::End(verdict);
                }
            }
            Action::Goto(name) => return follow(name).map_or(Step::Leave, Step::End),
            Action::Verdict(fields, map) => {
                let Some(Object::Element(found)) = find(objects, packet, fields, map) else {
                    continue;
                };
                let verdict = follow(found.goto.as_ref().unwrap());
                return verdict.map_or(Step::Leave, Step::End);
            }
            other => panic!("no rule of policies does {other:?}"),
        }
    }
    Step::Next
}

fn matches(objects: &Objects, packet: &Packet, condition: &Match<SetName>) -> bool {
    match condition {
        // The packet is the first of its connection.
        Match::State(_) => false,
        // It comes from a pod or another machine.
        Match::Interface(Sense::Is, _) => false,
        Match::Protocol(number) => packet
            .port
            .is_some_and(|(protocol, _)| protocol.number() == *number),
        Match::Port(Side::Destination, port) => packet.port.is_some_and(|(_, it)| it == *port),
        // No connection was cut.
        Match::In(Sense::Is, _, SetName::Cut) => false,
        // No packet of this pair was logged before.
        Match::In(Sense::IsNot, _, SetName::Logged(..)) => true,
        Match::In(Sense::IsNot, fields, set) => find(objects, packet, fields, set).is_none(),
        Match::In(Sense::Is, fields, set) => find(objects, packet, fields, set).is_some(),
        other => panic!("no rule of policies asks {other:?}"),
    }
}

/// The element of a set that a packet finds.
fn find<'a>(
    objects: &'a Objects,
    packet: &Packet,
    fields: &[Field],
    set: &SetName,
) -> Option<&'a Object> {
    let family = IpFamily::of(&packet.source);
    assert!(
        objects.contains_key(&Key::Set(family, set.clone())),
        "{set}"
    );
    let address = |side: &Side| match side {
        Side::Source => packet.source,
        Side::Destination => packet.destination,
    };
    let is_it = |entry: &Entry| match (fields, entry) {
        ([Field::Address(side)], Entry::Address(it)) => *it == address(side),
        ([Field::Address(side)], Entry::Prefix(it)) => it.contains(&address(side)),
        ([Field::Address(first), Field::Address(second)], Entry::Itself(it)) => {
            [first, second].map(address) == [*it; 2]
        }
        ([Field::Address(side), Field::Port(_)], Entry::Port(it, port)) => {
            *it == address(side) && packet.port.is_some_and(|(_, it)| it == *port)
        }
        ([Field::Protocol, Field::Port(_)], Entry::Ports(range)) => has_port(range, packet.port),
        other => panic!("{set}: {other:?}"),
    };
    let first = Key::Element(
        family,
        set.clone(),
        Entry::Address(IpAddr::from([0, 0, 0, 0])),
    );
    let mut elements = objects.range(first..).map_while(|(key, object)| match key {
        Key::Element(of, it, entry) if (*of, it) == (family, set) => Some((entry, object)),
        _ => None,
    });
    elements
        .find(|(entry, _)| is_it(entry))
        .map(|(_, object)| object)
}

fn has_port(range: &PortRange, port: Option<(Protocol, u16)>) -> bool {
    port.is_some_and(|(protocol, port)| range.contains(protocol, port))
}

/// What listeners are to see of a packet: the ingress rules of one that egress rules drop are not asked.
fn to_be_logged(plan: &Plan, packet: &Packet, decision: &Decision) -> BTreeSet<String> {
    let mut expected = BTreeSet::new();
    for (direction, reason) in [
        (Direction::Egress, &decision.egress),
        (Direction::Ingress, &decision.ingress),
    ] {
        if !audited(plan, packet, direction).is_empty() {
            expected.insert(format!("{} {direction}", Outcome::Audited));
        }
        if !reason.is_allowed() {
            expected.insert(format!("{} {direction}", Outcome::Dropped));
            break;
        }
    }
    expected
}

/// Whether each packet passes.
fn verdicts(objects: &Objects) -> Vec<bool> {
    let verdict = |it| passes(objects, &it, &Logged::default());
    packets().map(verdict).collect()
}

/// The same writes in a list of objects.
fn carry_out(objects: &mut Objects, delta: &Delta<Key, Object>) {
    for key in &delta.delete {
        assert!(objects.remove(key).is_some(), "{key} is there");
        if let Key::Set(family, set) = key {
            objects.retain(
                |key, _| !matches!(key, Key::Element(of, it, _) if (of, it) == (family, set)),
            );
        }
    }
    objects.extend(delta.add.iter().chain(&delta.replace).cloned());
}

/// A pod that very many policies are about.
#[test]
fn one_of_many_policies_is_a_small_change() {
    let policy = |it: usize| {
        let peer = ["from=/app=a", "from=/app=b", "from=10.0.1.0/24"][it % 3];
        format!(
            "np a/p{it} ingress pods=app=web {peer} port=tcp:{}\n",
            80 + it % 3
        )
    };
    let pods = "ns a team=red\npod a/web n1 10.0.0.1 app=web\npod a/other n2 10.0.1.2 app=a\n";
    let mut text = pods.to_owned();
    text.extend((0..300).map(policy));
    let mut enforced = Enforced::on(Fake::new());
    enforced.set(&parse(&text));
    let check = |enforced: &Enforced<Fake>| {
        let plan = enforced.planner.plan();
        let objects = objects(plan);
        for packet in packets() {
            let passes = passes(&objects, &packet, &Logged::default());
            assert_eq!(passes, lookup(plan, &packet).is_allowed(), "{packet:?}");
        }
    };
    enforced.tables.backend_mut().take_cost();
    enforced.change(&events(&parse(&policy(301))));
    // In both families: a chain with the groups, one with those of a group, the policy itself.
    let cost = enforced.tables.backend_mut().take_cost();
    assert!(cost < 1_000, "{cost}");
    check(&enforced);
    assert!(enforced.resync().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn rules_do_what_the_plan_says(world in worlds()) {
        let mut enforced = Enforced::on(Fake::new());
        enforced.set(&world);
        let plan = enforced.planner.plan();
        let objects = objects(plan);
        for packet in packets() {
            let decision = lookup(plan, &packet);
            let logged = Logged::default();
            let passes = passes(&objects, &packet, &logged);
            prop_assert_eq!(passes, decision.is_allowed(), "{:?}: {:?}", packet, decision);
            let expected = to_be_logged(plan, &packet, &decision);
            prop_assert_eq!(logged.into_inner(), expected, "{:?}: {:?}", packet, decision);
        }
    }

    /// After any change the tables are those of a fresh start, each transaction is one that the kernel takes, and a
    /// restart finds nothing to write.
    #[test]
    fn changes_lead_to_the_same_tables(before in worlds(), after in worlds()) {
        let mut enforced = Enforced::on(Fake::new());
        enforced.set(&before);
        enforced.change(&deletions(&before, &after));
        enforced.set(&after);
        let report = enforced.resync();
        prop_assert!(report.is_empty(), "{report:?}");
    }
}

proptest! {
    // Each has every packet after every part.
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// However small the parts of a difference are, packets are treated as before until one of them, and from then on as
    /// they are to be.
    #[test]
    fn parts_switch_at_one_moment(before in worlds(), after in worlds()) {
        let mut enforced = Enforced::on(Fake::new());
        enforced.set(&before);
        let mut held = objects(enforced.planner.plan());
        let was = verdicts(&held);
        for event in deletions(&before, &after).iter().chain(&events(&after)) {
            enforced.planner.absorb(event);
        }
        let wanted = objects(enforced.planner.plan());
        let will_be = verdicts(&wanted);
        let delta = Delta::between(held.clone(), wanted.clone().into_iter().collect());
        let mut parts = Aside::of(delta);
        let mut has_switched = false;
        while let Some(part) = parts.next(1) {
            enforced.tables.backend_mut().apply(&part).unwrap();
            carry_out(&mut held, &part);
            let now = verdicts(&held);
            has_switched |= now != was;
            prop_assert_eq!(&now, if has_switched { &will_be } else { &was });
        }
        prop_assert_eq!(held, wanted);
        prop_assert!(enforced.resync().is_empty());
    }
}
