//! When everything is there, and which problems of the connection are reported.

use std::sync::{Mutex, mpsc};

use sluice_model::{Node, ObjectKey};

use super::*;

const NODE: &str = api::Node::OBJECTS;
const CIDRS: &str = api::ServiceCidr::OBJECTS;
const SERVICES: &str = api::Service::OBJECTS;
const SLICES: &str = api::EndpointSlice::OBJECTS;

fn output() -> (Output, mpsc::Receiver<Vec<Event>>) {
    let (sender, batches) = mpsc::channel();
    let sender = Mutex::new(sender);
    let sink = move |it| sender.lock().unwrap().send(it).unwrap();
    let awaited = Awaited {
        required: [SERVICES, SLICES].into(),
        wanted: [NODE, CIDRS].into(),
    };
    (Output::new(Box::new(sink), awaited), batches)
}

fn node(addresses: &[&str]) -> Event {
    Event::Set(Object::Node(Arc::new(Node {
        name: "n".into(),
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        zone: None,
        pod_cidrs: Vec::new(),
        leaving: false,
    })))
}

fn is_synced(batches: &mpsc::Receiver<Vec<Event>>) -> bool {
    batches.try_iter().flatten().any(|it| it == Event::Synced)
}

#[test]
fn synced_comes_after_the_last_list() {
    let (mut output, batches) = output();
    output.send_list(SERVICES, Vec::new());
    output.send_list(CIDRS, Vec::new());
    output.send_list(NODE, vec![node(&["10.0.0.1"])]);
    assert!(!is_synced(&batches));
    output.send_list(SLICES, Vec::new());
    assert!(is_synced(&batches));
    output.send_list(SLICES, Vec::new());
    output.go_on_without();
    assert!(!is_synced(&batches), "once");
}

#[test]
fn node_without_addresses_is_waited_for() {
    let (mut output, batches) = output();
    output.send_list(SERVICES, Vec::new());
    output.send_list(SLICES, Vec::new());
    output.send_list(CIDRS, Vec::new());
    output.send_list(NODE, vec![node(&[])]);
    assert!(!is_synced(&batches));
    output.send_changes(NODE, vec![node(&["10.0.0.1"])]);
    assert!(is_synced(&batches));
}

#[test]
fn only_services_and_slices_are_waited_for_without_end() {
    let (mut output, batches) = output();
    output.send_list(SERVICES, Vec::new());
    output.go_on_without();
    assert!(!is_synced(&batches));
    output.send_list(SLICES, Vec::new());
    assert!(is_synced(&batches));
    let (mut output, batches) = self::output();
    output.send_list(SERVICES, Vec::new());
    output.send_list(SLICES, Vec::new());
    assert!(!is_synced(&batches));
    output.go_on_without();
    assert!(is_synced(&batches));
}

#[test]
fn stale_resources_are_named_until_they_are_fresh() {
    let (mut output, batches) = output();
    output.report_stale(SERVICES, "refused");
    output.report_stale(SERVICES, "refused");
    output.report_stale(NODE, "refused");
    output.report_stale(SERVICES, "401");
    output.report_fresh(SERVICES);
    output.report_fresh(SERVICES);
    output.report_fresh(NODE);
    let reported: Vec<Vec<String>> = batches
        .try_iter()
        .flatten()
        .map(|it| match it {
            Event::Problems { origin, problems } => {
                assert_eq!(&*origin, "API server");
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
    output.send_changes(SERVICES, Vec::new());
    output.send_list(SERVICES, Vec::new());
    assert!(batches.try_recv().is_err());
    output.send_changes(SERVICES, vec![Event::Delete(ObjectKey::Node("n".into()))]);
    assert!(batches.try_recv().is_ok());
}
