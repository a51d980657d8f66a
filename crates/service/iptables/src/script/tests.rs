use std::collections::BTreeMap;

use proptest::prelude::*;
use sluice_plan::Event;
use sluice_plan::Planner;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{self, arbitrary_events, arbitrary_settings};
use sluice_xtables::parse::{Ruleset, play};
use sluice_xtables::programs::{Listing, Variant};
use std::net::IpAddr;

use ipnet::IpNet;
use sluice_xtables::rule::{ChainName, Match, Sense, Target};

use super::*;
use crate::accounts::Accounting;
use crate::layout::Conntrack;
use crate::{observe, render_plan};

type Objects = BTreeMap<Key, Object>;
/// A kernel without kernel.
type Kernel = BTreeMap<IpFamily, Ruleset>;

/// The scripts of all families.
fn text(delta: &Delta<Key, Object>, present: &Present) -> String {
    let scripts = scripts(delta, present, Variant::Nft.largest_step());
    scripts.iter().map(|(_, it)| it.text()).collect()
}

fn carry_out(kernel: &mut Kernel, delta: &Delta<Key, Object>, present: &mut Present) {
    for (family, script) in scripts(delta, present, Variant::Nft.largest_step()) {
        play(kernel.entry(family).or_default(), &script.text());
    }
    present.written(delta);
}

fn observed(kernel: &Kernel) -> Objects {
    let mut objects = Objects::new();
    for (family, ruleset) in kernel {
        let listing = Listing {
            rules: ruleset.clone(),
            ..Listing::default()
        };
        observe::objects(*family, listing, &BTreeSet::new(), &mut objects);
    }
    objects
}

fn absorb(planner: &mut Planner, events: Vec<Event>) -> Vec<(Key, Object)> {
    events.into_iter().for_each(|it| planner.absorb(it));
    planner.replan();
    render_plan(planner.plan(), Conntrack::Strict, Accounting::On)
}

proptest! {
    /// Law: applying the delta between held and desired objects leaves the desired objects, and
    /// observing finds them.
    #[test]
    fn what_is_carried_out_is_observed(
        settings in arbitrary_settings(),
        first in arbitrary_events(),
        second in arbitrary_events(),
    ) {
        let mut planner = Planner::new(settings);
        let (mut kernel, mut present) = (Kernel::new(), Present::default());
        let mut believed = Objects::new();
        for events in [first, second] {
            let desired = absorb(&mut planner, events);
            let delta = Delta::between(believed.clone(), desired.clone());
            carry_out(&mut kernel, &delta, &mut present);
            believed = desired.into_iter().collect();
            prop_assert_eq!(observed(&kernel), believed.clone());
        }
        let delta = Delta::between(believed, Vec::new());
        carry_out(&mut kernel, &delta, &mut present);
        prop_assert_eq!(observed(&kernel), Objects::new());
    }
}

fn large_cluster(endpoints: u8) -> Vec<Event> {
    let services = (0..100).flat_map(|number: u8| {
        let name = format!("default/s{number}");
        let pool: Vec<_> = (0..endpoints)
            .map(|it| format!("10.244.{number}.{it}:80@"))
            .collect();
        let mut events = vec![testing::service(&format!(
            "{name} 10.96.0.{number} :80@{} LoadBalancer lb=203.0.113.{number} ranges=10.0.0.0/8 \
             etp=local",
            30_000 + u32::from(number)
        ))];
        events.extend(testing::endpoints(&name, &pool.join(" ")));
        events
    });
    services.collect()
}

/// Every chain that a rule leads to.
fn led_to(ruleset: &Ruleset) -> BTreeSet<(Table, ChainName)> {
    let rules = ruleset.iter().flat_map(|((table, _), rules)| {
        let jumps = rules.iter().filter_map(Rule::jump);
        jumps.map(|to| (*table, *to))
    });
    rules.collect()
}

/// Law: after each step every chain that a rule leads to is the old or the new one.
#[test]
fn what_is_cut_leaves_every_step_right() {
    let (few, many) = (large_cluster(9), large_cluster(10));
    let mut planner = Planner::new(Settings::for_node("node-a"));
    let mut ruleset = Ruleset::new();
    let (mut believed, mut present) = (Objects::new(), Present::default());
    let mut steps = 0;
    for events in [Some(few), Some(many), None] {
        let desired = events.map_or(Vec::new(), |it| absorb(&mut planner, it));
        let delta = Delta::between(believed.clone(), desired.clone());
        let text = scripts(&delta, &present, Variant::Nft.largest_step())[0]
            .1
            .text();
        let (before, mut after) = (ruleset.clone(), ruleset.clone());
        play(&mut after, &text);
        for step in text.split_inclusive("COMMIT\n") {
            assert!(step.lines().count() > 2, "{step}");
            let chains = step.lines().filter(|it| it.starts_with(':')).count();
            assert!(chains <= 510, "{chains} in one step");
            play(&mut ruleset, step);
            steps += 1;
            for to in led_to(&ruleset) {
                let there = ruleset.get(&to);
                assert!(there.is_some(), "{to:?} is missing");
                let is_right = [&before, &after].iter().any(|it| it.get(&to) == there);
                assert!(is_right, "{to:?}: {there:?}");
            }
        }
        assert!(ruleset == after);
        present.written(&delta);
        believed = desired.into_iter().collect();
    }
    assert!(steps > 10, "{steps}");
}

fn place(chain: &str) -> ChainId {
    ChainId {
        family: IpFamily::V4,
        table: Table::Filter,
        chain: ChainName::new(chain),
    }
}

fn jump(comment: &str, to: &str) -> Rule {
    Rule::when([Match::comment(comment)], Target::Jump(ChainName::new(to)))
}

#[test]
fn of_jumps_what_is_at_the_end_stays() {
    let key = Key::Jumps(place("FORWARD"));
    let rules = |names: &[&str]| names.iter().map(|it| jump(it, "A")).collect::<Vec<_>>();
    let present = Present {
        lists: [(key.clone(), rules(&["x", "b", "c"]))].into(),
        ..Present::default()
    };
    let delta = Delta {
        replace: vec![(key, Object::Rules(rules(&["a", "b", "c"]).into()))],
        ..Delta::default()
    };
    let expected = "*filter\n-D FORWARD -m comment --comment x -j A\n\
                    -I FORWARD -m comment --comment a -j A\nCOMMIT\n";
    assert_eq!(text(&delta, &present), expected);
}

#[test]
fn rules_come_in_their_order_before_a_tail() {
    let of = |host: u8| {
        let to = Match::Destination(Sense::Is, IpNet::from(IpAddr::from([10, 0, 0, host])));
        Rule::when([to], Target::Reject)
    };
    let rule = |host| {
        (
            Key::Rule(place("SLUICE-CLUSTER-IPS"), of(host).into()),
            Object::Present,
        )
    };
    let delta = Delta {
        add: vec![rule(1), rule(2)],
        delete: vec![rule(3).0],
        ..Delta::default()
    };
    let expected = "*filter\n-D SLUICE-CLUSTER-IPS -d 10.0.0.3 -j REJECT\n\
                    -I SLUICE-CLUSTER-IPS -d 10.0.0.2 -j REJECT\n\
                    -I SLUICE-CLUSTER-IPS -d 10.0.0.1 -j REJECT\nCOMMIT\n";
    assert_eq!(text(&delta, &Present::default()), expected);
}

#[test]
fn a_chain_that_goes_is_emptied_first_and_removed_last() {
    let delta = Delta {
        replace: vec![(
            Key::Chain(place("KUBE-FORWARD")),
            Object::Rules(vec![jump("new", "B")].into()),
        )],
        delete: vec![Key::Chain(place("KUBE-FW-NPX46M4PTMTKRN6Y"))],
        ..Delta::default()
    };
    let expected = "*filter\n:KUBE-FORWARD - [0:0]\n:KUBE-FW-NPX46M4PTMTKRN6Y - [0:0]\n\
                    -A KUBE-FORWARD -m comment --comment new -j B\n\
                    -X KUBE-FW-NPX46M4PTMTKRN6Y\nCOMMIT\n";
    assert_eq!(text(&delta, &Present::default()), expected);
}

#[test]
fn a_chain_that_others_need_is_emptied_and_stays() {
    let chain = |name| Key::Chain(place(name));
    let (needed, other) = ("KUBE-FW-NPX46M4PTMTKRN6Y", "KUBE-FW-XPGD46QRK7WJZT7O");
    let delta = Delta {
        delete: vec![chain(needed), chain(other)],
        ..Delta::default()
    };
    let present = Present {
        needed: [place(needed)].into(),
        ..Present::default()
    };
    let expected = format!("*filter\n:{needed} - [0:0]\n:{other} - [0:0]\n-X {other}\nCOMMIT\n");
    assert_eq!(text(&delta, &present), expected);
}

#[test]
fn nat_is_written_before_filter() {
    let of = |table| {
        let place = ChainId {
            table,
            ..place("KUBE-PROXY-CANARY")
        };
        (Key::Chain(place), Object::Rules(Vec::new().into()))
    };
    let delta = Delta {
        add: [Table::Filter, Table::Nat, Table::Mangle].map(of).into(),
        ..Delta::default()
    };
    let text = text(&delta, &Present::default());
    let tables = text.lines().filter(|it| it.starts_with('*'));
    assert_eq!(tables.collect::<Vec<_>>(), ["*mangle", "*nat", "*filter"]);
}
