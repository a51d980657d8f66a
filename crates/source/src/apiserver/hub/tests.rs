//! When everything is there, and what is said of the connection.

use std::sync::{Mutex, mpsc};

use sluice_model::{Node, ObjectKey};

use super::*;

fn hub() -> (Hub, mpsc::Receiver<Vec<Event>>) {
    let (sender, batches) = mpsc::channel();
    let sender = Mutex::new(sender);
    let sink = move |it| sender.lock().unwrap().send(it).unwrap();
    (Hub::new(Box::new(sink)), batches)
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
    let (mut hub, batches) = hub();
    hub.list(Resource::Services, Vec::new());
    hub.list(Resource::ServiceCidrs, Vec::new());
    hub.list(Resource::Node, vec![node(&["10.0.0.1"])]);
    assert!(!is_synced(&batches));
    hub.list(Resource::EndpointSlices, Vec::new());
    assert!(is_synced(&batches));
    hub.list(Resource::EndpointSlices, Vec::new());
    hub.grace_over();
    assert!(!is_synced(&batches), "once");
}

#[test]
fn node_without_addresses_is_waited_for() {
    let (mut hub, batches) = hub();
    hub.list(Resource::Services, Vec::new());
    hub.list(Resource::EndpointSlices, Vec::new());
    hub.list(Resource::ServiceCidrs, Vec::new());
    hub.list(Resource::Node, vec![node(&[])]);
    assert!(!is_synced(&batches));
    hub.changes(Resource::Node, vec![node(&["10.0.0.1"])]);
    assert!(is_synced(&batches));
}

#[test]
fn only_services_and_slices_are_waited_for_without_end() {
    let (mut hub, batches) = hub();
    hub.list(Resource::Services, Vec::new());
    hub.grace_over();
    assert!(!is_synced(&batches));
    hub.list(Resource::EndpointSlices, Vec::new());
    assert!(is_synced(&batches));
    let (mut hub, batches) = self::hub();
    hub.list(Resource::Services, Vec::new());
    hub.list(Resource::EndpointSlices, Vec::new());
    assert!(!is_synced(&batches));
    hub.grace_over();
    assert!(is_synced(&batches));
}

#[test]
fn stale_resources_are_named_until_they_are_fresh() {
    let (mut hub, batches) = hub();
    hub.stale(Resource::Services, "refused");
    hub.stale(Resource::Services, "refused");
    hub.stale(Resource::Node, "refused");
    hub.stale(Resource::Services, "401");
    hub.fresh(Resource::Services);
    hub.fresh(Resource::Services);
    hub.fresh(Resource::Node);
    let told: Vec<Vec<String>> = batches
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
    assert_eq!(told, expected);
}

#[test]
fn nothing_is_sent_for_nothing() {
    let (mut hub, batches) = hub();
    hub.changes(Resource::Services, Vec::new());
    hub.list(Resource::Services, Vec::new());
    assert!(batches.try_recv().is_err());
    hub.changes(
        Resource::Services,
        vec![Event::Delete(ObjectKey::Node("n".into()))],
    );
    assert!(batches.try_recv().is_ok());
}
