//! Tests that announcements are written as Events.

use std::sync::Arc;
use std::sync::mpsc::channel;

use sluice_miniapi::{Fault, MiniApi, Options, Verb};
use sluice_model::Announcement;
use sluice_model::{NamespacedName, Node, Reference, Service};
use sluice_source::apiserver;

use crate::apiserver::cluster::{client, cluster};
use crate::support::{NODE, service_object};

fn announcement(about: Reference, note: &str) -> Announcement {
    Announcement {
        about,
        is_warning: true,
        reason: "FailedToStartServiceHealthcheck",
        action: "Listen",
        note: note.to_owned(),
    }
}

fn web(note: &str) -> Announcement {
    announcement(
        Reference::to::<Service>(NamespacedName::new("shop", "web")),
        note,
    )
}

/// Sends these announcements and waits until they are written or lost.
fn record(api: &MiniApi, announcements: Vec<Announcement>) {
    let (client, _files) = client(api);
    let (sender, receiver) = channel();
    let recorder = apiserver::record(&client, NODE.into(), receiver, Arc::new(|_| ())).unwrap();
    announcements
        .into_iter()
        .for_each(|it| sender.send(it).unwrap());
    drop(sender);
    recorder.join().unwrap();
}

#[test]
fn events_are_written() {
    let api = cluster(Options::default());
    api.put(service_object("shop/web", 80)).unwrap();
    let of_node = announcement(Reference::cluster_scoped::<Node>(&NODE.into()), "");
    record(
        &api,
        vec![web("port 30000: \u{1b} in use"), web("other"), of_node],
    );
    let events = api.events();
    assert_eq!(events.len(), 3, "{events:?}");
    let of = |namespace: &str| {
        let of = events
            .iter()
            .filter(|it| it["metadata"]["namespace"] == namespace);
        of.cloned().collect::<Vec<_>>()
    };
    assert_eq!(of("shop").len(), 2);
    assert_eq!(of("default")[0]["involvedObject"]["uid"], NODE);
    for event in of("shop") {
        assert_eq!(event["involvedObject"]["name"], "web");
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["reportingInstance"], NODE);
    }
}

#[test]
fn repeated_announcements_are_one_event() {
    let api = cluster(Options::default());
    record(&api, (0..100).map(|_| web("the same")).collect());
    assert_eq!(api.events().len(), 1);
}

#[test]
fn failures_stop_nothing() {
    for fault in [
        Fault::Forbidden,
        Fault::InternalError,
        Fault::NotFound,
        Fault::Html(503),
    ] {
        let api = cluster(Options::default());
        api.inject(fault.on(Verb::Write, "").once());
        record(&api, vec![web("lost"), web("written")]);
        assert_eq!(api.events().len(), 1);
    }
    let api = cluster(Options::default());
    let (client, _files) = client(&api);
    api.stop().unwrap();
    let (sender, receiver) = channel();
    let recorder = apiserver::record(&client, NODE.into(), receiver, Arc::new(|_| ())).unwrap();
    sender.send(web("lost")).unwrap();
    drop(sender);
    recorder.join().unwrap();
}
