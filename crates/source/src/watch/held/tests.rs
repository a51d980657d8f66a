//! Scripts of changes at milliseconds, and the events that follow.

use std::sync::Arc;

use sluice_model::{NamespacedName, ServiceCidr};

use crate::object::Object;

use super::*;

/// `script`: `10 -a +b` is a change at 10 ms that deletes `a` and sets `b`; `w`: a new file is being
/// written from then on. `expected`: when which events come.
#[track_caller]
fn check(script: &[&str], expected: &[&str]) {
    let (start, mut held, mut said) = (Instant::now(), Held::default(), Vec::new());
    let brief = |at: Instant, events: &[Event]| {
        let at = (at - start).as_millis().to_string();
        let events = events.iter().map(|it| match it {
            Event::Set(object) => format!("+{}", object.reference()),
            Event::Delete(key) => format!("-{key}"),
            other => panic!("{other:?}"),
        });
        let words: Vec<String> = [at].into_iter().chain(events).collect();
        words.join(" ").replace("ServiceCIDR ", "")
    };
    let mut is_writing = false;
    let run_until = |held: &mut Held, is_writing, end: Option<Instant>| {
        let mut said = Vec::new();
        while let Some(due) = (held.due(is_writing)).filter(|it| end.is_none_or(|end| *it < end)) {
            said.push(brief(due, &held.take(is_writing, due)));
        }
        said
    };
    for line in script {
        let (at, change) = line.split_once(' ').unwrap();
        let now = start + Duration::from_millis(at.parse().unwrap());
        said.extend(run_until(&mut held, is_writing, Some(now)));
        let event = |it: &str| {
            let name: Arc<str> = it[1..].into();
            if it.starts_with('+') {
                Event::Set(Object::new(ServiceCidr {
                    name,
                    cidrs: Vec::new(),
                }))
            } else {
                Event::Delete(Reference::to::<ServiceCidr>(NamespacedName::new("", name)))
            }
        };
        match change {
            "w" => is_writing = true,
            _ => {
                let passed = held.pass(change.split(' ').map(event).collect(), now);
                said.extend((!passed.is_empty()).then(|| brief(now, &passed)));
            }
        }
    }
    said.extend(run_until(&mut held, is_writing, None));
    assert_eq!(said, expected);
}

#[test]
fn change_that_takes_nothing_away_goes_at_once() {
    check(&["0 +a", "1 +a +b"], &["0 +a", "1 +a +b"]);
}

#[test]
fn deletion_waits_for_the_object_to_come_back() {
    check(&["0 -a"], &["40 -a"]);
    check(&["0 -a", "30 +a"], &["30 +a"]);
    check(&["0 -a", "50 +a"], &["40 -a", "50 +a"]);
}

#[test]
fn change_with_a_deletion_stays_one_change() {
    check(&["0 -a +b"], &["40 -a +b"]);
    // The latest version counts, once.
    check(&["0 -a +b", "10 +b", "20 +c"], &["10 +b", "20 +c", "40 -a"]);
}

/// Objects of one namespace may belong together.
#[test]
fn only_changes_beside_a_deletion_wait() {
    let namespaced = |namespace: &str, name: &str| {
        Reference::to::<sluice_model::Service>(NamespacedName::new(namespace, name))
    };
    let cidr = Object::new(ServiceCidr {
        name: "c".into(),
        cidrs: Vec::new(),
    });
    let (mut held, now) = (Held::default(), Instant::now());
    let passed = held.pass(
        vec![
            Event::Delete(namespaced("a", "x")),
            Event::Set(cidr.clone()),
        ],
        now,
    );
    assert_eq!(passed, [Event::Set(cidr)]);
}

/// Many are taken in parts, the deletions last.
#[test]
fn many_changes_go_out_in_parts() {
    let (mut held, now) = (Held::default(), Instant::now());
    let name = |it: usize| NamespacedName::new("", format!("{it:05}"));
    let events = (0..LIMIT + 10).map(|it| {
        if it % 3 == 0 {
            Event::Set(Object::new(ServiceCidr {
                name: name(it).name,
                cidrs: Vec::new(),
            }))
        } else {
            Event::Delete(Reference::to::<ServiceCidr>(name(it)))
        }
    });
    assert!(held.pass(events.collect(), now).is_empty());
    let mut taken = Vec::new();
    while let Some(due) = held.due(false) {
        let events = held.take(false, due);
        assert!(!events.is_empty() && events.len() <= LIMIT);
        taken.extend(events);
    }
    assert_eq!(taken.len(), LIMIT + 10);
    let is_set = |it: &Event| matches!(it, Event::Set(_));
    assert!(taken.is_sorted_by_key(|it| !is_set(it)));
}

/// A Service that goes with its slices is never one without endpoints, few of them or many.
#[test]
fn slices_go_after_their_services() {
    for count in [10, LIMIT] {
        let (mut held, now) = (Held::default(), Instant::now());
        let events = (0..count).flat_map(|it| {
            let name = NamespacedName::new("a", format!("{it:05}"));
            let slice = Reference::to::<EndpointSlice>(name.clone());
            [slice, Reference::to::<sluice_model::Service>(name)].map(Event::Delete)
        });
        assert!(held.pass(events.collect(), now).is_empty());
        let mut taken = Vec::new();
        while let Some(due) = held.due(false) {
            taken.extend(held.take(false, due));
        }
        assert_eq!(taken.len(), 2 * count);
        assert!(taken.is_sorted_by_key(|it| Turn::of(it) == Turn::Endpoints));
    }
}

#[test]
fn deletions_without_end_go_out() {
    let script: Vec<String> = (0..10).map(|it| format!("{} -{it}", it * 20)).collect();
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    check(&script, &["80 -0 -1 -2 -3 -4", "180 -5 -6 -7 -8 -9"]);
}

/// Ten files are written one after the other; each gives its last object to the next one.
#[test]
fn objects_that_move_from_file_to_file_are_never_deleted() {
    let line = |it: u32| format!("{} -{} +{it}", it * 30, it + 1);
    let script: Vec<String> = (0..10).map(line).chain(["300 +10".to_owned()]).collect();
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let sets: Vec<String> = (0..10).map(|it| format!("+{it}")).collect();
    let all = format!("340 {}", sets.join(" "));
    check(&script, &["300 +10", &all]);
}

#[test]
fn new_file_is_waited_for() {
    check(&["0 -a", "5 w", "500 +a"], &["500 +a"]);
    check(&["0 -a", "5 w"], &["2000 -a"]);
}
