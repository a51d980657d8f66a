use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_model::{Change, LocalAddresses, NamespacedName};
use sluice_node::Latest;
use sluice_plan::testing::{arbitrary_events, arbitrary_settings, planner};

use super::*;

/// A version of a slice with this time of change.
fn slice(triggered: i64) -> Event {
    let mut slice = sluice_objects::slice("s", "", "", "");
    slice.triggered = Some(triggered);
    Event::EndpointSlice(Change::Set(Arc::new(slice)))
}

fn problems(origin: &str, problem: &str) -> Event {
    let problems = Some(problem.to_owned()).filter(|it| !it.is_empty());
    Event::Notice(Notice::Problems {
        origin: origin.into(),
        problems: problems.into_iter().collect(),
    })
}

/// Events of every kind, the same subjects again and again.
fn statements() -> impl Strategy<Value = Vec<Event>> {
    let addresses = |last: u8| LocalAddresses {
        all: BTreeSet::from([[10, 0, 0, last].into()]),
        default_route: Vec::new(),
    };
    let others = prop_oneof![
        ("[ab]", "[xy]?").prop_map(|(origin, problem)| problems(&origin, &problem)),
        (1..4_u8).prop_map(move |last| Event::LocalAddresses(addresses(last))),
        Just(Event::SYNCED),
    ];
    let others = proptest::collection::vec(others, 0..8);
    // The same objects twice, so that a deleted one may come back.
    let all = (arbitrary_events(), arbitrary_events(), others);
    let all = all.prop_map(|(first, second, others)| [first, second, others].concat());
    all.prop_shuffle()
}

proptest! {
    /// Whenever the agent takes the waiting events, it comes to the plan of all events.
    #[test]
    fn the_last_event_about_each_object_is_enough(
        settings in arbitrary_settings(),
        events in statements(),
        batches in proptest::collection::vec((1..6_usize, any::<bool>()), 1..20),
    ) {
        let all = planner(settings.clone(), events.clone());
        let mut kept = planner(settings, Vec::new());
        let mut latest: Latest<TimedEvent> = Latest::default();
        let mut take = |latest: &mut Latest<TimedEvent>| {
            let taken = std::mem::take(latest).into_iter();
            taken.for_each(|it| kept.absorb(it.event));
            kept.replan();
        };
        let mut rest = events.into_iter();
        for (size, is_taken) in batches.into_iter().cycle() {
            let batch: Vec<Event> = rest.by_ref().take(size).collect();
            if batch.is_empty() {
                break;
            }
            batch.into_iter().for_each(|it| latest.push(it.into()));
            if is_taken {
                take(&mut latest);
            }
        }
        take(&mut latest);
        prop_assert_eq!(&kept.plan().ports, &all.plan().ports);
        prop_assert_eq!(&kept.plan().node, &all.plan().node);
        prop_assert_eq!(&kept.plan().health_checks, &all.plan().health_checks);
        prop_assert_eq!(kept.is_synced(), all.is_synced());
        prop_assert_eq!(kept.issues().collect::<Vec<_>>(), all.issues().collect::<Vec<_>>());
        let of = |it: &sluice_plan::Planner| -> BTreeMap<_, _> {
            it.problems().map(|(origin, line)| (origin.clone(), line.clone())).collect()
        };
        prop_assert_eq!(of(&kept), of(&all));
        prop_assert_eq!(kept.state().local_addresses(), all.state().local_addresses());
    }
}

/// The changes that remain of these events.
fn latest(events: impl IntoIterator<Item = Event>) -> Vec<TimedEvent> {
    let latest: Latest<TimedEvent> = events.into_iter().map(TimedEvent::from).collect();
    latest.into_iter().collect()
}

#[test]
fn what_waits_is_as_much_as_there_are_subjects() {
    let round = |round| [slice(round), problems("a", "x"), Event::SYNCED];
    let changes = latest((0..10_000).flat_map(round));
    let events: Vec<&Event> = changes.iter().map(|it| &it.event).collect();
    let last = [slice(9_999), problems("a", "x"), Event::SYNCED];
    assert_eq!(events, last.iter().collect::<Vec<_>>());
    // The oldest changes have waited longest.
    assert_eq!(changes[0].earlier, (0..64).collect::<Vec<_>>());
}

#[test]
fn a_deleted_slice_has_no_earlier_changes() {
    let delete = || Event::EndpointSlice(Change::Delete(NamespacedName::new("default", "s")));
    let changes = latest([slice(1), delete(), slice(2), slice(3)]);
    assert_eq!(
        (&changes[0].event, &*changes[0].earlier),
        (&slice(3), &[2][..])
    );
    let changes = latest([slice(1), slice(2), delete()]);
    assert_eq!(
        (&changes[0].event, &*changes[0].earlier),
        (&delete(), &[][..])
    );
}
