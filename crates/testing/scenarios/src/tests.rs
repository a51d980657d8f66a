use std::collections::BTreeSet;

use sluice_plan::PortPlan;
use sluice_plane::testing::{Fake, Shape};

use super::testbed::Testbed;
use super::*;

/// The scenario of this name; `None` when there is none.
fn named(name: &str) -> Option<Scenario> {
    all().into_iter().find(|it| it.name == name)
}

#[test]
fn names_are_unique_and_many() {
    let all = all();
    let names: BTreeSet<_> = all.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), all.len());
    assert!(names.len() >= 75, "only {} scenarios", names.len());
    assert!(named("cluster_ip::hairpin").is_some());
    assert!(named("cluster_ip::nothing").is_none());
}

#[test]
fn each_has_one_sentence_of_its_own() {
    let mut seen = BTreeSet::new();
    for Scenario {
        name, about, steps, ..
    } in all()
    {
        assert!(
            about.ends_with('.') && !about.contains("  "),
            "{name}: {about}"
        );
        assert!(
            seen.insert(about),
            "{name}: same sentence as another scenario: {about}"
        );
        let checks = steps.iter().filter(|it| matches!(it, Step::Check(_)));
        assert!(checks.count() > 0, "{name}: checks nothing");
    }
}

#[test]
fn the_plan_agrees_with_every_scenario() {
    for scenario in all() {
        run_on_plan(&scenario);
    }
}

/// The objects of a data plane that reports success and writes nothing.
#[derive(Clone, Debug, Default)]
struct Nothing;

impl Shape for Nothing {
    type Key = String;
    type Object = ();

    const PART: usize = usize::MAX;

    fn render(_: &PortPlan) -> Vec<(String, ())> {
        Vec::new()
    }
}

#[test]
fn packets_notice_a_data_plane_that_does_nothing() {
    sluice_lab::require_netns!();
    let scenario = cluster_ip::refused_without_slices();
    let failed = std::panic::catch_unwind(|| {
        let mut testbed = Testbed::build(&scenario).expect("this machine can build a lab");
        packets::run_on(&mut testbed, &scenario, |_| Fake::<Nothing>::default());
    });
    let payload = failed.expect_err("no rule refuses");
    let message = payload
        .downcast_ref::<String>()
        .expect("failures are texts");
    for part in ["at once", "router saw", "no endpoint", "rules of node-a"] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
}

#[test]
fn run_all_names_every_failed_scenario() {
    sluice_lab::require_netns!();
    let list = ["cluster_ip::pods_directly", "cluster_ip::single_endpoint"];
    let list: Vec<Scenario> = list.iter().filter_map(|it| named(it)).collect();
    let failed = std::panic::catch_unwind(|| run_all(&list, |_| Fake::<Nothing>::default()));
    let payload = failed.expect_err("no endpoint answers at a ClusterIP");
    let message = payload.downcast_ref::<String>();
    let wanted = "scenarios failed: cluster_ip::pods_directly, cluster_ip::single_endpoint";
    assert_eq!(message.map(String::as_str), Some(wanted));
}

#[test]
fn parts_are_the_whole() {
    let mut names: Vec<_> = (0..3)
        .flat_map(|it| part(it, 3))
        .map(|it| it.name)
        .collect();
    let mut all: Vec<_> = all().iter().map(|it| it.name).collect();
    names.sort_unstable();
    all.sort_unstable();
    assert_eq!(names, all);
    assert_eq!(beginning_with(&["ports::sctp"]).len(), 2);
}
