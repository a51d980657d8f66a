//! The plan against a direct reading of the specifications, on random clusters.

mod oracle;

use proptest::prelude::*;
use proptest::sample::Index;
use sluice_model::{Change, NamespacedName, Protocol, Reference, Selector};

use crate::lookup::{Decision, Packet, Reason, audited, lookup};
use crate::testing::{NODE, World, deletions, events, packets, parse, worlds};
use crate::{
    Action, ClusterNetworkPolicy, Content, Direction, Event, Mode, NetworkPolicy, Peer, Piece,
    Plan, Planner, PodSelection, Rule, UnknownPods,
};

fn planner(events: &[Event]) -> Planner {
    let mut planner = Planner::new(NODE.into()).with_unknown_pods(UnknownPods::Drop);
    planner.absorb_all(events);
    planner
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_plan_does_what_the_specifications_say(world in worlds()) {
        let planner = planner(&events(&world));
        for packet in packets() {
            let decision = lookup(planner.plan(), &packet);
            let allowed = (decision.egress.is_allowed(), decision.ingress.is_allowed());
            prop_assert_eq!(allowed, oracle::allowed(&world, &packet), "{:?}: {:?}", packet, decision);
        }
    }

    /// What audit says is what enforcing would do, wherever no other policy decides.
    #[test]
    fn audit_tells_what_would_be_dropped(mut world in worlds()) {
        world.cluster_policies.clear();
        let mut enforcing = world.clone();
        for policy in &mut enforcing.policies {
            policy.mode = Mode::Enforce;
        }
        let planner = planner(&events(&world));
        for packet in packets() {
            let decision = lookup(planner.plan(), &packet);
            let (egress, ingress) = oracle::allowed(&enforcing, &packet);
            for (direction, own, now, then) in [
                (Direction::Egress, packet.source, decision.egress, egress),
                (Direction::Ingress, packet.destination, decision.ingress, ingress),
            ] {
                let found = audited(planner.plan(), &packet, direction);
                let is_decided = !matches!(now, Reason::NotIsolated | Reason::Audited(_));
                if is_decided {
                    prop_assert!(found.is_empty(), "{:?}: {:?} {:?}", packet, now, found);
                } else if !oracle::is_contested(&world, own) {
                    prop_assert_eq!(found.is_empty(), then, "{:?} {}: {:?}", packet, direction, found);
                }
            }
        }
    }

    /// A ClusterNetworkPolicy in audit mode tells of what it would deny if it were enforced, and of nothing else.
    #[test]
    fn audit_of_a_cluster_policy_tells_what_it_would_deny(mut world in worlds(), which in any::<Index>()) {
        for policy in &mut world.policies {
            policy.mode = Mode::Enforce;
        }
        for policy in &mut world.cluster_policies {
            policy.mode = Mode::Enforce;
        }
        prop_assume!(!world.cluster_policies.is_empty());
        let enforcing = planner(&events(&world));
        let which = which.index(world.cluster_policies.len());
        let policy = &mut world.cluster_policies[which];
        policy.mode = Mode::Audit;
        let name = policy.name.clone();
        let audited_by = vec![Reference::cluster_scoped::<ClusterNetworkPolicy>(&name)];
        let planner = planner(&events(&world));
        for packet in packets() {
            let decision = lookup(enforcing.plan(), &packet);
            for (direction, reason) in [(Direction::Egress, decision.egress), (Direction::Ingress, decision.ingress)] {
                let found = audited(planner.plan(), &packet, direction);
                let is_denied = matches!(&reason, Reason::Denied(by, _) if *by == name);
                prop_assert_eq!(&found, if is_denied { &audited_by } else { &[][..] }, "{:?}: {:?}", packet, reason);
            }
        }
    }

    /// Objects come, change and go in any order: what is left decides alone, and every difference is reported.
    #[test]
    fn the_plan_is_a_function_of_the_objects(
        before in worlds(),
        after in worlds(),
        order in prop::collection::vec(any::<Index>(), 200),
    ) {
        let mut planner = planner(&shuffled(events(&before), &order));
        planner.take_changed();
        let old = planner.plan().clone();
        for event in shuffled(turn(&before, &after), &order) {
            planner.absorb(&event);
        }
        let fresh = self::planner(&events(&after));
        prop_assert_eq!(planner.plan(), fresh.plan());
        let changed = planner.take_changed();
        for piece in differences(&old, planner.plan()) {
            prop_assert!(changed.contains(piece), "{piece} changed and is not reported");
        }
    }
}

fn shuffled(mut events: Vec<Event>, order: &[Index]) -> Vec<Event> {
    for (index, with) in order.iter().enumerate().take(events.len()) {
        let with = with.index(events.len());
        events.swap(index, with);
    }
    events
}

/// What turns one world into another.
fn turn(before: &World, after: &World) -> Vec<Event> {
    let mut all = deletions(before, after);
    all.extend(events(after));
    all
}

fn differences<'a>(old: &'a Plan, new: &'a Plan) -> impl Iterator<Item = &'a Piece> {
    let pieces = old.keys().chain(new.keys());
    pieces.filter(|it| old.get(*it) != new.get(*it))
}

/// The decision in a world that [`parse`] reads.
fn decide(objects: &str, source: &str, destination: &str, port: u16) -> Decision {
    let world = parse(objects);
    let planner = planner(&events(&world));
    let packet = Packet {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        port: Some((Protocol::Tcp, port)),
    };
    let decision = lookup(planner.plan(), &packet);
    let allowed = (decision.egress.is_allowed(), decision.ingress.is_allowed());
    assert_eq!(allowed, oracle::allowed(&world, &packet), "{decision:?}");
    decision
}

const PODS: &str = "
    ns a team=red
    ns b team=blue
    pod a/web n1 10.0.0.1 app=web http=80
    pod a/db n1 10.0.0.2 app=db http=81
    pod b/web n2 10.0.1.1 app=web http=81
";

fn check(policies: &str, source: &str, destination: &str, port: u16, expected: &Decision) {
    let objects = format!("{PODS}{policies}");
    let found = decide(&objects, source, destination, port);
    assert_eq!(
        found, *expected,
        "{policies}: {source} to {destination} port {port}"
    );
}

fn np(name: &str) -> NamespacedName {
    NamespacedName::new("a", name)
}

/// The answer for a connection to a pod of this node from elsewhere.
fn ingress(reason: Reason) -> Decision {
    Decision {
        egress: Reason::Elsewhere,
        ingress: reason,
    }
}

/// The answer for a connection of a pod of this node to elsewhere.
fn egress(reason: Reason) -> Decision {
    Decision {
        egress: reason,
        ingress: Reason::Elsewhere,
    }
}

#[test]
fn without_policies_everybody_reaches_everybody() {
    check(
        "",
        "10.0.1.1",
        "10.0.0.1",
        80,
        &ingress(Reason::NotIsolated),
    );
    check(
        "",
        "10.0.0.1",
        "192.0.2.1",
        80,
        &egress(Reason::NotIsolated),
    );
}

#[test]
fn a_policy_without_rules_isolates() {
    let policy = "np a/deny ingress pods=app=web";
    let isolated = Reason::Isolated(vec![np("deny")]);
    check(policy, "10.0.1.1", "10.0.0.1", 80, &ingress(isolated));
    check(
        policy,
        "10.0.1.1",
        "10.0.0.2",
        80,
        &ingress(Reason::NotIsolated),
    );
    check(
        policy,
        "10.0.0.1",
        "192.0.2.1",
        80,
        &egress(Reason::NotIsolated),
    );
}

/// The kernel finds a set by its name in a list of all: thousands of policies would wait for each other's.
#[test]
fn a_single_port_needs_no_set() {
    let text = "pod a/web n1 10.0.0.1 app=web
        np a/web ingress port=tcp:80
        audit b/web egress port=udp:53
        cnp top admin 1 a ingress accept port=tcp:81";
    let planner = planner(&events(&parse(text)));
    let sets = planner
        .plan()
        .keys()
        .filter(|it| matches!(it, Piece::Set(_)));
    assert_eq!(sets.count(), 0);
}

#[test]
fn a_policy_in_audit_mode_changes_nothing() {
    let deny = "audit a/deny ingress pods=app=web";
    let of = |names: &[&str]| {
        let names = names.iter().map(|it| np(it));
        Reason::Audited(names.map(Reference::to::<NetworkPolicy>).collect())
    };
    let audited = of(&["deny"]);
    check(deny, "10.0.1.1", "10.0.0.1", 80, &ingress(audited.clone()));
    check(
        deny,
        "10.0.1.1",
        "10.0.0.2",
        80,
        &ingress(Reason::NotIsolated),
    );
    // What any of them allows would pass.
    let some = format!("{deny}\n audit a/some ingress from=team=blue/app=web port=tcp:80");
    check(
        &some,
        "10.0.1.1",
        "10.0.0.1",
        80,
        &ingress(Reason::NotIsolated),
    );
    let both = of(&["deny", "some"]);
    check(&some, "10.0.1.1", "10.0.0.1", 81, &ingress(both));
    // It opens nothing that another policy closes, and keeps no lower tier from being asked.
    let closed = format!("{some}\n np a/closed ingress");
    let isolated = Reason::Isolated(vec![np("closed")]);
    check(&closed, "10.0.1.1", "10.0.0.1", 80, &ingress(isolated));
    let below = format!("{some}\n cnp base baseline 1 a ingress deny from=10.0.0.0/8");
    let denied = Reason::Denied("base".into(), 0);
    check(&below, "10.0.1.1", "10.0.0.1", 80, &ingress(denied));
    let above = format!("{deny}\n cnp top admin 1 a ingress accept from=10.0.0.0/8");
    let accepted = Reason::Accepted("top".into(), 0);
    check(&above, "10.0.1.1", "10.0.0.1", 80, &ingress(accepted));
    let passed = format!("{deny}\n cnp top admin 1 a ingress pass from=10.0.0.0/8");
    check(&passed, "10.0.1.1", "10.0.0.1", 80, &ingress(audited));
}

#[test]
fn one_of_several_policies_allows() {
    let policies = "np a/deny ingress
        np a/blue ingress pods=app=web from=team=blue/app=web port=tcp:80";
    check(
        policies,
        "10.0.1.1",
        "10.0.0.1",
        80,
        &ingress(Reason::Allowed(np("blue"), 0)),
    );
    let both = Reason::Isolated(vec![np("blue"), np("deny")]);
    check(policies, "10.0.1.1", "10.0.0.1", 81, &ingress(both));
    let deny = Reason::Isolated(vec![np("deny")]);
    check(policies, "10.0.1.1", "10.0.0.2", 80, &ingress(deny));
}

#[test]
fn a_named_port_is_the_destination_s() {
    let policy = "np a/named ingress port=tcp:http";
    check(
        policy,
        "10.0.1.1",
        "10.0.0.1",
        80,
        &ingress(Reason::Allowed(np("named"), 0)),
    );
    check(
        policy,
        "10.0.1.1",
        "10.0.0.2",
        81,
        &ingress(Reason::Allowed(np("named"), 0)),
    );
    let isolated = Reason::Isolated(vec![np("named")]);
    check(policy, "10.0.1.1", "10.0.0.2", 80, &ingress(isolated));
    let policy = "np a/named egress to=team=blue/ port=tcp:http";
    check(
        policy,
        "10.0.0.1",
        "10.0.1.1",
        81,
        &egress(Reason::Allowed(np("named"), 0)),
    );
    let isolated = Reason::Isolated(vec![np("named")]);
    check(
        policy,
        "10.0.0.1",
        "10.0.1.1",
        80,
        &egress(isolated.clone()),
    );
    let policy = "np a/named egress to=0.0.0.0/0 port=tcp:http";
    check(policy, "10.0.0.1", "10.0.1.1", 81, &egress(isolated));
}

#[test]
fn blocks_have_holes_and_pods() {
    let policy = "np a/block egress to=10.0.0.0/8-10.0.1.0/24";
    let isolated = Reason::Isolated(vec![np("block")]);
    check(policy, "10.0.0.1", "10.0.1.1", 80, &egress(isolated));
    check(
        policy,
        "10.0.0.1",
        "10.1.0.1",
        80,
        &egress(Reason::Allowed(np("block"), 0)),
    );
}

#[test]
fn tiers_come_in_their_order() {
    let accept = "cnp first admin 1 a ingress accept from=team=blue/";
    let policies = format!("{accept}\n np a/deny ingress");
    let accepted = Reason::Accepted("first".into(), 0);
    check(&policies, "10.0.1.1", "10.0.0.1", 80, &ingress(accepted));
    let denies = "cnp second admin 0 a ingress deny from=team=blue/ port=tcp:80";
    let policies = format!("{accept}\n{denies}\n np a/deny ingress");
    let denied = Reason::Denied("second".into(), 0);
    check(&policies, "10.0.1.1", "10.0.0.1", 80, &ingress(denied));
    let pass = "cnp second admin 0 a ingress pass from=team=blue/";
    let policies = format!("{accept}\n{pass}\n np a/deny ingress");
    let isolated = Reason::Isolated(vec![np("deny")]);
    check(&policies, "10.0.1.1", "10.0.0.1", 80, &ingress(isolated));
    let baseline = "cnp base baseline 0 a ingress deny from=/";
    let denied = Reason::Denied("base".into(), 0);
    check(baseline, "10.0.1.1", "10.0.0.1", 80, &ingress(denied));
    let policies = format!("{baseline}\n np a/all ingress from=/");
    check(
        &policies,
        "10.0.1.1",
        "10.0.0.1",
        80,
        &ingress(Reason::Allowed(np("all"), 0)),
    );
}

#[test]
fn a_pod_reaches_itself_unless_a_cluster_policy_denies_it() {
    let itself = Decision {
        egress: Reason::NotIsolated,
        ingress: Reason::Itself,
    };
    check("np a/deny ingress", "10.0.0.1", "10.0.0.1", 80, &itself);
    let denied = Decision {
        egress: Reason::NotIsolated,
        ingress: Reason::Denied("all".into(), 0),
    };
    let policy = "cnp all admin 0 a ingress deny from=/";
    check(policy, "10.0.0.1", "10.0.0.1", 80, &denied);
}

#[test]
fn what_concerns_no_pod_of_this_node_is_not_planned() {
    let policies = "np b/deny ingress from=team=red/
        np a/db ingress pods=app=none from=team=blue/";
    let objects = format!("{PODS}{policies}");
    let planner = planner(&events(&parse(&objects)));
    let pieces: Vec<String> = planner.plan().keys().map(ToString::to_string).collect();
    assert_eq!(pieces, ["pod address 10.0.0.1", "pod address 10.0.0.2"]);
}

/// A pod that has ended has no addresses any more, and another one may have them.
#[test]
fn an_address_changes_its_pod() {
    let mut planner = planner(&events(&parse(&format!(
        "{PODS}np a/deny ingress pods=app=web"
    ))));
    let packet = Packet {
        source: "10.0.1.1".parse().expect("an address"),
        destination: "10.0.0.1".parse().expect("an address"),
        port: None,
    };
    assert!(!lookup(planner.plan(), &packet).is_allowed());
    let new = parse("pod a/new n1 10.0.0.1 app=other");
    planner.absorb(&events(&new)[0]);
    let old = NamespacedName::new("a", "web");
    planner.absorb(&Event::Pod(Change::Delete(old)));
    assert_eq!(
        lookup(planner.plan(), &packet),
        ingress(Reason::NotIsolated)
    );
}

#[test]
fn a_reason_names_policies_and_rules() {
    let both = Reason::Isolated(vec![np("a"), np("b")]);
    for (reason, words) in [
        (
            Reason::Allowed(np("web"), 1),
            "allowed by spec.ingress[1] of NetworkPolicy a/web",
        ),
        (
            both,
            "dropped: isolated by NetworkPolicy a/a and a/b, no rule of which matches",
        ),
        (
            Reason::Accepted("all".into(), 0),
            "allowed by spec.ingress[0] of ClusterNetworkPolicy all",
        ),
        (
            Reason::Denied("all".into(), 2),
            "dropped by spec.ingress[2] of ClusterNetworkPolicy all",
        ),
    ] {
        assert_eq!(reason.words(Direction::Ingress), words);
        assert_eq!(reason.is_allowed(), words.starts_with("allowed"));
    }
}

/// An address is free before the last word about its pod is written, and what claims it may lie: what is forbidden for one of
/// the claimants is forbidden.
#[test]
fn an_address_that_several_pods_claim_is_closed_for_each() {
    let check = |pods: &str, policies: &str, expected: &Decision| {
        check(
            &format!("{pods}\n{policies}"),
            "10.0.1.1",
            "10.0.0.1",
            80,
            expected,
        );
    };
    let deny = "np a/deny ingress pods=app=web";
    let isolated = ingress(Reason::Isolated(vec![np("deny")]));
    // Of another node, of this one, and with a name before the other's.
    for pod in [
        "pod b/thief n2 10.0.0.1 app=other",
        "pod a/aaa n1 10.0.0.1 app=other",
    ] {
        check(pod, deny, &isolated);
    }
    check(
        "pod a/aaa n1 10.0.0.1 app=other terminating",
        deny,
        &isolated,
    );
    check(
        "pod a/aaa n1 10.0.0.1 app=other",
        "np a/deny ingress pods=app=web
         np a/open ingress pods=app=other from=/",
        &ingress(Reason::Isolated(vec![np("deny"), np("open")])),
    );
    check(
        "pod b/thief n1 10.0.0.1 app=other",
        "np a/deny ingress pods=app=web
         cnp open admin 0 b ingress accept from=/",
        &isolated,
    );
    // The peer.
    let only_web = "np a/some ingress from=/app=web";
    let allowed = ingress(Reason::Allowed(np("some"), 0));
    let isolated = ingress(Reason::Isolated(vec![np("some")]));
    check("pod a/aaa n2 10.0.1.1 app=other", only_web, &isolated);
    check(
        "pod a/aaa n2 10.0.1.1 app=other terminating",
        only_web,
        &allowed,
    );
    check("pod a/aaa n2 10.0.1.1 app=web", only_web, &allowed);
    check(
        "pod a/aaa n2 10.0.1.1 app=bad",
        "cnp bad admin 0 a ingress deny from=/app=bad",
        &ingress(Reason::Denied("bad".into(), 0)),
    );
}

/// What is over the limit of one policy allows nothing, and needs nothing in the kernel.
#[test]
fn a_policy_has_an_end() {
    let mut world = parse(&format!("{PODS}np a/many ingress"));
    let peer = |index: usize| {
        let text = format!("app=app-{index}");
        let pods = Selector::parse(&text).expect("a selector");
        Peer::Pods(PodSelection::in_namespace(&"a".into(), pods))
    };
    let rule = Rule {
        action: Action::Accept,
        peers: Some((0..3_000).map(peer).collect()),
        ports: None,
    };
    world.policies[0].ingress = Some(vec![rule]);
    let planner = planner(&events(&world));
    let [policies, sets] = [
        |it: &&Piece| matches!(it, Piece::Policy(..)),
        |it: &&Piece| matches!(it, Piece::Set(_)),
    ]
    .map(|which: fn(&&Piece) -> bool| planner.plan().keys().filter(which).count());
    assert_eq!((policies, sets), (1, 1_024));
    let many = Piece::Policy(Direction::Ingress, np("many"));
    let Content::Policy(_, _, plan) = &*planner.plan()[&many] else {
        panic!("the content of a policy is that of a policy");
    };
    assert_eq!((plan.rules.len(), plan.left_out), (1_024, 1_976));
}
