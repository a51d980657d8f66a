//! Changes are seen soon after an outage of the API server: the waits that double would be longer than any test.

use std::thread;
use std::time::Duration;

use sluice_miniapi::{Fault, MiniApi, Options, Verb};
use sluice_source::apiserver::Timeouts;

use crate::apiserver::cluster::{Followed, base_and, client, cluster};
use crate::support::{DEADLINE, service_object};

/// Requests without an answer before the server comes back: ten for each kind. With waits that double, the next one
/// would be due after many minutes.
const UNANSWERED: usize = 40;

/// As in a real cluster, but that a server that is away is tried more often, and that no wait is too long.
fn timeouts() -> Timeouts {
    Timeouts {
        reconnect: Duration::from_millis(100),
        longest_retry: Duration::from_secs(3600),
        ..Timeouts::default()
    }
}

/// Stops a server for a while, and checks that a change is seen once it answers again after some refusals.
#[track_caller]
fn back_soon(options: Options, refusals: usize, before_it_is_back: impl Fn(&MiniApi)) {
    let api = cluster(options);
    let (client, _files) = client(&api);
    let mut source = Followed::with(&client, timeouts());
    source.view.until("synced", |it| it.synced == 1);
    assert!(api.await_watches(4, DEADLINE));
    api.stop().unwrap();
    source.seen.until(UNANSWERED, |(_, code)| code.is_none());
    api.put(service_object("web", 80)).unwrap();
    before_it_is_back(&api);
    api.start_again().unwrap();
    if refusals > 0 {
        api.inject(Fault::Forbidden.on(Verb::Any, "").times(refusals));
        source.seen.until(refusals, |(_, code)| *code == Some(403));
    }
    source.view.expect(&base_and("Service default/web:80"));
    assert!(source.view.deleted.is_empty());
}

#[test]
fn watches_go_on() {
    back_soon(Options::default(), 0, |_| {});
}

#[test]
fn versions_have_expired() {
    // Both wait most of the time.
    thread::scope(|scope| {
        for streaming_lists in [true, false] {
            let options = Options {
                streaming_lists,
                ..Options::default()
            };
            scope.spawn(move || back_soon(options, 0, MiniApi::compact));
        }
    });
}

/// The server answers 403 until its RBAC cache is filled: here twice for each kind.
#[test]
fn permissions_are_not_known_yet() {
    back_soon(Options::default(), 8, |_| {});
}
