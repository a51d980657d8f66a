//! The plan is a function of the objects.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Event;
use crate::issue::Issue;
use crate::settings::Settings;
use crate::testing::{arbitrary_events, arbitrary_settings, deletion, planner};
use sluice_model::Reference;

type Ports = BTreeMap<PortKey, Arc<PortPlan>>;
type HealthChecks = BTreeMap<NamespacedName, HealthCheck>;
type Product = (Ports, NodePlan, HealthChecks, Vec<Issue>);

/// All that a planner makes of the objects. Claims show in the frontends of ports and in issues.
fn product(planner: &Planner) -> Product {
    let plan = planner.plan();
    let issues = planner.issues().collect();
    let checks = plan.health_checks.clone();
    (plan.ports.clone(), plan.node.clone(), checks, issues)
}

/// The objects after the events, each with its last event.
fn final_objects(events: &[Event]) -> BTreeMap<Reference, Event> {
    let mut objects = BTreeMap::new();
    for event in events {
        match event.reference() {
            Some(key) if event.is_deletion() => {
                objects.remove(&key);
            }
            Some(key) => {
                objects.insert(key, event.clone());
            }
            None => {}
        }
    }
    objects
}

/// The events in another order, those of one object as they were.
fn shuffled(events: &[Event], choices: &[usize]) -> Vec<Event> {
    let mut queues: BTreeMap<Option<Reference>, std::collections::VecDeque<Event>> =
        BTreeMap::new();
    for event in events {
        queues
            .entry(event.reference())
            .or_default()
            .push_back(event.clone());
    }
    let mut choices = choices.iter().cycle();
    let mut all = Vec::new();
    while !queues.is_empty() {
        let choice = choices.next().copied().unwrap_or(0) % queues.len();
        let key = queues.keys().nth(choice).cloned().expect("it is in range");
        let queue = queues.get_mut(&key).expect("its key is there");
        let event = queue.pop_front().expect("no queue is empty");
        // A repeated event says nothing new.
        if choice.is_multiple_of(3) {
            all.push(event.clone());
        }
        all.push(event);
        if queue.is_empty() {
            queues.remove(&key);
        }
    }
    all
}

fn patch(ports: &mut Ports, changes: &Changes) {
    for (key, change) in &changes.ports {
        assert_ne!(change.old, change.new, "a change changes something");
        assert_eq!(ports.get(key), change.old.as_ref(), "it starts at what was");
        match &change.new {
            Some(new) => ports.insert(key.clone(), new.clone()),
            None => ports.remove(key),
        };
    }
}

/// The answers that readers keep until the revision changes.
fn answers(planner: &Planner) -> String {
    let services = inventory::services(planner, "");
    let nodes = topology::nodes(planner);
    let issues: Vec<_> = planner.issues().collect();
    format!("{services:?} {nodes:?} {issues:?} {:?}", planner.plan())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_answer_changes_with_the_revision_alone(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
    ) {
        let mut planner = Planner::new(settings);
        let mut known = (planner.revision(), answers(&planner));
        for event in events {
            planner.absorb(event);
            let absorbed = (planner.revision(), answers(&planner));
            prop_assert!(absorbed.0 > known.0 || absorbed.1 == known.1);
            planner.replan();
            known = (planner.revision(), answers(&planner));
            prop_assert!(known.0 > absorbed.0 || known.1 == absorbed.1);
        }
        planner.replan();
        let last = planner.revision();
        planner.replan();
        prop_assert_eq!(planner.revision(), last, "nothing was left to plan");
    }

    #[test]
    fn a_plan_depends_on_the_objects_alone(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
        choices in prop::collection::vec(0usize..64, 1..32),
    ) {
        let fresh = planner(settings.clone(), final_objects(&events).into_values());
        let at_once = planner(settings.clone(), events.clone());
        prop_assert_eq!(product(&at_once), product(&fresh));
        let other_order = planner(settings, shuffled(&events, &choices));
        prop_assert_eq!(product(&other_order), product(&fresh));
    }

    #[test]
    fn changes_say_exactly_what_changed(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
        pauses in prop::collection::vec(any::<bool>(), 24),
    ) {
        let mut planner = Planner::new(settings.clone());
        let mut ports = Ports::new();
        let mut node = NodePlan::default();
        for (index, event) in events.iter().enumerate() {
            planner.absorb(event.clone());
            if pauses[index] {
                continue;
            }
            let changes = planner.replan();
            patch(&mut ports, &changes);
            prop_assert_eq!(&ports, &planner.plan().ports);
            prop_assert_eq!(changes.node, planner.plan().node != node);
            node = planner.plan().node.clone();
            let scratch = self::scratch(&settings, &events[..=index]);
            prop_assert_eq!(product(&planner), scratch);
            prop_assert!(planner.replan().is_empty());
        }
    }

    /// Planning in parts gives the same plan, and no part has a frontend or a ClusterIP twice.
    #[test]
    fn parts_are_consistent_and_come_to_the_whole(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
        works in prop::collection::vec(1usize..12, 24),
    ) {
        let mut planner = Planner::new(settings.clone());
        let mut ports = Ports::new();
        let mut issues = BTreeMap::new();
        let mut part = |planner: &mut Planner, work| {
            let changes = planner.replan_part(work);
            patch(&mut ports, &changes);
            assert_eq!(&ports, &planner.plan().ports);
            for (name, change) in changes.issues {
                let known = issues.insert(name, change.new);
                assert_eq!(known.unwrap_or_default(), change.old);
            }
            let mut seen = std::collections::HashSet::new();
            for port in ports.values() {
                assert!(port.owned_cluster_ip.is_none_or(|it| seen.insert(Err(it))));
                assert!(port.frontends.iter().all(|it| seen.insert(Ok(it.frontend))));
            }
        };
        for (event, work) in events.iter().zip(works) {
            planner.absorb(event.clone());
            part(&mut planner, work);
        }
        while planner.is_dirty() {
            part(&mut planner, 1);
        }
        prop_assert_eq!(product(&planner), scratch(&settings, &events));
        let no_node = planner.issues().filter(|it| it.service.is_none()).count();
        let told = issues.values().map(Vec::len).sum::<usize>();
        prop_assert_eq!(planner.issues().count(), told + no_node);
    }

    #[test]
    fn every_frontend_has_one_owner_and_every_balance_its_pool(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
    ) {
        let planner = planner(settings, events);
        let plan = planner.plan();
        let mut owners = std::collections::BTreeSet::new();
        let mut frontends = std::collections::BTreeSet::new();
        for (key, port) in &plan.ports {
            prop_assert_eq!(key, &port.key);
            prop_assert!(!port.frontends.is_empty() || port.owned_cluster_ip.is_some());
            if let Some(guard) = port.owned_cluster_ip {
                prop_assert!(owners.insert(guard));
            }
            for it in &port.frontends {
                prop_assert!(frontends.insert(it.frontend));
                prop_assert_eq!(plan.claims.owner(&it.frontend), Some(key));
                let verdicts = match it.route {
                    Route::Internal(verdict) | Route::External(verdict) => vec![verdict],
                    Route::ExternalLocal { far } => vec![far, Verdict::Balance(Scope::Cluster)],
                };
                for verdict in verdicts {
                    if let Verdict::Balance(scope) = verdict {
                        prop_assert!(port.pool(scope).is_some());
                    }
                }
            }
        }
    }

    /// A state from which everything was deleted is as new.
    #[test]
    fn nothing_is_left_of_what_is_gone(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
    ) {
        let objects = final_objects(&events).into_values();
        let mut planner = planner(settings, events);
        for object in objects {
            planner.absorb(deletion(&object));
        }
        let _ = planner.replan();
        prop_assert!(planner.plan().ports.is_empty());
        prop_assert_eq!(planner.state().services().count(), 0);
        let of_node = planner.issues().all(|it| it.service.is_none());
        prop_assert!(of_node, "there is no node, and nothing else is wrong");
    }
}

fn scratch(settings: &Settings, events: &[Event]) -> Product {
    product(&planner(
        settings.clone(),
        final_objects(events).into_values(),
    ))
}
