use std::collections::BTreeSet;

use super::*;

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
fn each_says_in_one_sentence_what_it_shows() {
    let mut seen = BTreeSet::new();
    for Scenario {
        name, about, steps, ..
    } in all()
    {
        assert!(
            about.ends_with('.') && !about.contains("  "),
            "{name}: {about}"
        );
        assert!(seen.insert(about), "{name}: said before: {about}");
        let checks = steps.iter().filter(|it| matches!(it, Step::Check(_)));
        assert!(checks.count() > 0, "{name}: checks nothing");
    }
}

#[test]
fn the_plan_agrees_with_every_scenario() {
    for scenario in all() {
        consult(&scenario);
    }
}
