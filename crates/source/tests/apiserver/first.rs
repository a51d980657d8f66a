//! Tests of the first lists.

use std::time::Duration;

use sluice_miniapi::{Fault, Options, Verb};

use crate::apiserver::cluster::{BASE, Followed, base_and, cluster, server};
use crate::support::{DEADLINE, NODE, node_object, service_object, slice_object};

fn paged() -> Options {
    Options {
        streaming_lists: false,
        ..Options::default()
    }
}

#[test]
fn everything_is_listed_and_then_watched() {
    for options in [Options::default(), paged()] {
        let api = cluster(options);
        let mut source = Followed::synced(&api);
        assert_eq!(source.view.brief(), BASE);
        api.put(service_object("web", 80)).unwrap();
        source.view.expect(&base_and("Service default/web:80"));
        api.put(service_object("web", 81)).unwrap();
        source.view.expect(&base_and("Service default/web:81"));
        api.delete("Service", "default", "web").unwrap();
        source.view.expect(BASE);
        assert_eq!(source.view.deleted, ["Service default/web"]);
        assert!(
            source.view.problems.is_empty(),
            "{:?}",
            source.view.problems
        );
        assert_eq!(source.view.synced, 1);
    }
}

#[test]
fn plain_http_and_no_credentials() {
    let api = cluster(Options {
        tls: false,
        ..Options::default()
    });
    assert_eq!(Followed::synced(&api).view.brief(), BASE);
}

#[test]
fn a_server_that_does_not_know_the_field_is_asked_without_it() {
    let api = cluster(Options::default());
    let mut headless = service_object("headless", 80);
    headless["spec"]["clusterIP"] = "None".into();
    api.put(headless).unwrap();
    // Once for the stream, once for the pages.
    api.inject(Fault::UnknownField.on(Verb::Any, "services").times(2));
    let source = Followed::synced(&api);
    let all = base_and("Service default/headless:80");
    assert_eq!(
        source.view.brief(),
        all,
        "the plan leaves headless ones out"
    );
    assert!(source.view.problems.is_empty());
}

#[test]
fn only_what_a_proxy_needs_is_asked_for() {
    let api = cluster(Options::default());
    api.put(node_object("n2", "10.0.0.2")).unwrap();
    let mut headless = service_object("headless", 80);
    headless["spec"]["clusterIP"] = "None".into();
    api.put(headless).unwrap();
    let mut other = service_object("other", 80);
    other["metadata"]["labels"] =
        serde_json::json!({"service.kubernetes.io/service-proxy-name": ""});
    api.put(other).unwrap();
    let mut slice = slice_object("headless-1", "headless", "10.0.0.9");
    slice["metadata"]["labels"]["service.kubernetes.io/headless"] = "".into();
    api.put(slice).unwrap();
    assert_eq!(Followed::synced(&api).view.brief(), BASE);
}

#[test]
fn ten_thousand_objects_come_in_pages() {
    let api = cluster(paged());
    let services = (0..10_000).map(|it| service_object(&format!("s-{it}"), 80));
    api.put_all(services).unwrap();
    let source = Followed::synced(&api);
    assert_eq!(source.view.objects.len(), 10_004);
    let pages = api.requests();
    let pages = pages.iter().filter(|it| it.parameter("continue").is_some());
    assert_eq!(pages.count(), 20);
    assert!(source.view.largest_batch >= 10_001, "one list is one batch");
}

#[test]
fn node_is_waited_for_but_not_for_ever() {
    let api = cluster(Options::default());
    api.delete("Node", "", NODE).unwrap();
    let mut source = Followed::hasty(&api);
    assert_eq!(source.view.objects.len(), 3);
    api.put(node_object(NODE, "10.0.0.1")).unwrap();
    source.view.expect(BASE);
}

#[test]
fn services_are_waited_for_without_end() {
    let api = cluster(Options::default());
    api.inject(Fault::InternalError.on(Verb::Any, "/services"));
    let mut source = Followed::of(&api);
    source
        .view
        .until("problem", |it| it.problems.contains_key("API server"));
    assert!(api.await_requests(DEADLINE, |all| {
        all.iter()
            .filter(|it| it.path.ends_with("/services"))
            .count()
            > 8
    }));
    assert_eq!(source.view.synced, 0);
    api.clear_faults();
    source.view.until("synced", |it| it.synced == 1);
    source.view.until("no problem", |it| it.problems.is_empty());
}

#[test]
fn server_without_service_cidrs_has_none() {
    for fault in [Fault::NotFound, Fault::Forbidden] {
        let api = cluster(Options::default());
        api.inject(fault.on(Verb::Any, "/servicecidrs"));
        let mut source = Followed::synced(&api);
        assert_eq!(source.view.objects.len(), 3);
        assert!(
            source.view.problems.is_empty(),
            "{:?}",
            source.view.problems
        );
        // The source asks again, for instance after an upgrade.
        api.clear_faults();
        source.view.expect(BASE);
    }
}

#[test]
fn empty_first_answers_are_not_believed_at_once() {
    let api = cluster(Options::default());
    api.inject(Fault::NoStreamingLists.on(Verb::Watch, "/services").once());
    api.inject(Fault::EmptyList.on(Verb::List, "/services").times(2));
    let source = Followed::synced(&api);
    assert_eq!(source.view.brief(), BASE);
}

#[test]
fn cluster_that_is_really_empty_is_believed() {
    let api = server(Options::default());
    let source = Followed::hasty(&api);
    assert!(source.view.objects.is_empty());
    let lists = api.requests();
    let lists = lists
        .iter()
        .filter(|it| it.path.ends_with("/services") && !it.is_watch());
    assert_eq!(
        lists.count(),
        2,
        "two consistent reads after the first answer"
    );
}

#[test]
fn server_that_overlooks_streaming_lists_is_asked_for_pages() {
    for fault in [Fault::IgnoresInitialEvents, Fault::NoBookmarks] {
        let api = cluster(Options::default());
        api.inject(fault.on(Verb::Watch, "").times(4));
        let mut source = Followed::synced(&api);
        source.view.expect(BASE);
        assert!(
            source.view.problems.is_empty(),
            "{:?}",
            source.view.problems
        );
    }
}

#[test]
fn what_changes_before_a_list_is_complete_counts() {
    let api = cluster(Options::default());
    api.put(service_object("old", 80)).unwrap();
    api.put(service_object("web", 80)).unwrap();
    api.inject(Fault::LateEnd(3).on(Verb::Watch, "/services").once());
    let mut source = Followed::of(&api);
    assert!(api.await_watches(4, DEADLINE));
    api.delete("Service", "default", "old").unwrap();
    api.put(service_object("web", 81)).unwrap();
    assert_eq!(source.view.synced, 0);
    api.put(service_object("new", 80)).unwrap();
    source.view.until("synced", |it| it.synced == 1);
    let all = base_and("Service default/new:80; Service default/web:81");
    assert_eq!(source.view.brief(), all);
}

#[test]
fn dropping_ends_it() {
    let api = cluster(Options::default());
    let mut source = Followed::synced(&api);
    source.stop();
    assert!(source.view.is_over());
    assert!(api.await_watches(0, DEADLINE));
    // While the server does not answer, too.
    api.mute_connections().unwrap();
    let mut source = Followed::of(&api);
    source.stop();
    assert!(source.view.is_over());
}

#[test]
fn every_request_is_observed() {
    let api = cluster(Options::default());
    let source = Followed::synced(&api);
    source
        .seen
        .until(4, |it| *it == ("GET".to_owned(), Some(200)));
    assert!(api.await_watches(4, Duration::from_secs(20)));
}
