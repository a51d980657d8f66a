//! When everything is there, and which problems of the connection are reported.

use std::sync::{Mutex, mpsc};

use sluice_model::{NamespacedName, Node, Notice, Reference};

use super::*;
use crate::hub::{Need, Selection, Wants};
use crate::kinds;
use crate::object::{Event, Object};

// The topics of a proxy, in the order in which it wants them.
const SERVICES: usize = 0;
const SLICES: usize = 1;
const NODE: usize = 2;
const CIDRS: usize = 3;

/// A notice; `None` for an event about an object.
type Said = Option<Notice>;

fn output() -> (Core, mpsc::Receiver<Vec<Said>>) {
    let (sender, batches) = mpsc::channel();
    let sender = Mutex::new(sender);
    let sink = move |it| sender.lock().unwrap().send(it).unwrap();
    let mut core = Core::default();
    let all = Selection::default;
    // Only the notices count.
    let wants = Wants::new(Some)
        .want::<kinds::Service>(all(), Need::Required, |_| None)
        .want::<kinds::EndpointSlice>(all(), Need::Required, |_| None)
        .want::<kinds::Node>(all(), Need::Complete, |_| None)
        .want::<kinds::ServiceCidr>(all(), Need::MayBeAbsent, |_| None);
    core.join(0, wants, Box::new(sink));
    (core, batches)
}

fn node(addresses: &[&str]) -> Event {
    Event::Set(Object::new(Node {
        name: "n".into(),
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        zone: None,
        pod_cidrs: Vec::new(),
        leaving: false,
    }))
}

fn is_synced(batches: &mpsc::Receiver<Vec<Said>>) -> bool {
    batches
        .try_iter()
        .flatten()
        .any(|it| it == Some(Notice::Synced))
}

#[test]
fn synced_comes_after_the_last_list() {
    let (mut output, batches) = output();
    output.send(SERVICES, Vec::new(), true);
    output.send(CIDRS, Vec::new(), true);
    output.send(NODE, vec![node(&["10.0.0.1"])], true);
    assert!(!is_synced(&batches));
    output.send(SLICES, Vec::new(), true);
    assert!(is_synced(&batches));
    output.send(SLICES, Vec::new(), true);
    output.go_on_without(0);
    assert!(!is_synced(&batches), "once");
}

#[test]
fn node_without_addresses_is_waited_for() {
    let (mut output, batches) = output();
    output.send(SERVICES, Vec::new(), true);
    output.send(SLICES, Vec::new(), true);
    output.send(CIDRS, Vec::new(), true);
    output.send(NODE, vec![node(&[])], true);
    assert!(!is_synced(&batches));
    output.send(NODE, vec![node(&["10.0.0.1"])], false);
    assert!(is_synced(&batches));
}

#[test]
fn only_services_and_slices_are_waited_for_without_end() {
    let (mut output, batches) = output();
    output.send(SERVICES, Vec::new(), true);
    output.go_on_without(0);
    assert!(!is_synced(&batches));
    output.send(SLICES, Vec::new(), true);
    assert!(is_synced(&batches));
    let (mut output, batches) = self::output();
    output.send(SERVICES, Vec::new(), true);
    output.send(SLICES, Vec::new(), true);
    assert!(!is_synced(&batches));
    output.go_on_without(0);
    assert!(is_synced(&batches));
}

#[test]
fn stale_resources_are_named_until_they_are_fresh() {
    let (mut output, batches) = output();
    let heard = "2026-01-01T00:00:00Z".parse().unwrap();
    output.report_stale(SERVICES, "refused", heard);
    output.report_stale(SERVICES, "refused", heard);
    output.report_stale(NODE, "refused", heard);
    output.report_stale(SERVICES, "401", heard);
    output.report_fresh(SERVICES);
    output.report_fresh(SERVICES);
    output.report_fresh(NODE);
    let reported: Vec<Vec<String>> = batches
        .try_iter()
        .flatten()
        .map(|it| match it {
            Some(Notice::Problems { origin, problems }) => {
                assert_eq!(&*origin, "API server");
                let since = "stale since 2026-01-01T00:00:00Z: ";
                assert!(problems.iter().all(|it| it.contains(since)), "{problems:?}");
                let reason = |it: &String| it.rsplit(": ").next().unwrap().to_owned();
                problems.iter().map(reason).collect()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let expected: [&[&str]; 5] = [
        &["refused"],
        &["refused", "refused"],
        &["refused", "401"],
        &["refused"],
        &[],
    ];
    assert_eq!(reported, expected);
}

#[test]
fn nothing_is_sent_for_nothing() {
    let (mut output, batches) = output();
    output.send(SERVICES, Vec::new(), false);
    output.send(SERVICES, Vec::new(), true);
    assert!(batches.try_recv().is_err());
    output.send(
        SERVICES,
        vec![Event::Delete(Reference::to::<Node>(NamespacedName::new(
            "", "n",
        )))],
        false,
    );
    assert!(batches.try_recv().is_ok());
}
