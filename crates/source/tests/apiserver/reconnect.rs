//! Tests that no object is removed when connections fail and servers come back.

use std::thread;
use std::time::Duration;

use sluice_miniapi::{Cut, Fault, MiniApi, Options, Request, Verb};

use crate::apiserver::cluster::{BASE, Followed, base_and, client, cluster, timeouts};
use sluice_source::apiserver::Timeouts;

use crate::support::{DEADLINE, NODE, node_object, service_object, slice_object};

fn paged() -> Options {
    Options {
        streaming_lists: false,
        ..Options::default()
    }
}

/// Disturbs the server, changes the cluster, and checks that exactly this change is delivered, and that problems are
/// reported and cleared.
#[track_caller]
fn survives(options: Options, harm: impl Fn(&MiniApi)) {
    let api = cluster(options);
    api.put(service_object("old", 1)).unwrap();
    let mut source = Followed::synced(&api);
    assert!(api.await_watches(4, DEADLINE));
    let before = source.view.sets;
    harm(&api);
    api.delete("Service", "default", "old").unwrap();
    api.put(service_object("web", 80)).unwrap();
    api.put(slice_object("web-1", "web", "10.1.0.1")).unwrap();
    source.view.expect(&base_and(
        "Service default/web:80; EndpointSlice default/web-1 10.1.0.1",
    ));
    assert_eq!(source.view.deleted, ["Service default/old"]);
    assert_eq!(source.view.sets, before + 2, "only what is new");
    source.view.until("no problem", |it| it.problems.is_empty());
    assert_eq!(source.view.synced, 1);
}

/// Runs the test for all cases at the same time: each waits for timeouts.
fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let test = &test;
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || test(case));
        }
    });
}

#[test]
fn watches_end_in_every_way() {
    for how in [Cut::End, Cut::Close, Cut::Reset] {
        survives(Options::default(), |api| {
            assert_eq!(api.cut_watches("", how), 4);
        });
    }
}

#[test]
fn server_restarts() {
    for options in [Options::default(), paged()] {
        survives(options, |api| {
            api.stop().unwrap();
            api.start_again().unwrap();
        });
    }
}

#[test]
fn server_is_away_for_a_while() {
    let api = cluster(Options::default());
    let mut source = Followed::synced(&api);
    api.stop().unwrap();
    source.view.until("four stale resources", |it| {
        it.problems
            .get("API server")
            .is_some_and(|it| it.len() == 4)
    });
    let told = source.view.problems["API server"].join("\n");
    assert!(
        told.contains("API server: Services: stale since 20"),
        "{told}"
    );
    source.view.until("the reason is up to date", |it| {
        it.problems["API server"]
            .iter()
            .all(|it| it.contains("Connection refused"))
    });
    assert_eq!(source.view.brief(), BASE, "everything stays");
    api.put(service_object("web", 80)).unwrap();
    api.start_again().unwrap();
    source.view.expect(&base_and("Service default/web:80"));
    source.view.until("no problem", |it| it.problems.is_empty());
    assert!(source.view.deleted.is_empty());
}

#[test]
fn versions_expire() {
    survives(Options::default(), |api| {
        assert_eq!(api.expire_watches(""), 4);
    });
    survives(paged(), |api| {
        assert_eq!(api.expire_watches(""), 4);
    });
    survives(Options::default(), |api| {
        api.inject(Fault::Gone.on(Verb::Watch, "").times(8));
        api.cut_watches("", Cut::Close);
    });
    survives(paged(), |api| {
        api.inject(Fault::GoneEvent.on(Verb::Watch, "").times(8));
        api.cut_watches("", Cut::End);
    });
    // The history is really gone.
    survives(Options::default(), |api| {
        api.refuse_connections().unwrap();
        api.cut_connections(Cut::Reset).unwrap();
        api.compact();
        api.start_again().unwrap();
    });
}

#[test]
fn page_tokens_expire() {
    let api = cluster(paged());
    api.put_all((0..1200).map(|it| service_object(&format!("s-{it}"), 80)))
        .unwrap();
    api.inject(Fault::Gone.on(Verb::Continue, "/services"));
    let source = Followed::synced(&api);
    assert_eq!(source.view.objects.len(), 1204);
    assert!(
        source.view.problems.is_empty(),
        "{:?}",
        source.view.problems
    );
}

#[test]
fn watch_falls_silent() {
    // Stalled in the server: the connection is alive.
    let cases = [(Options::default(), "", 4), (paged(), "/services", 1)];
    at_once(cases, |(options, path, count)| {
        survives(options, |api| assert_eq!(api.stall_watches(path), count));
    });
}

#[test]
fn server_does_not_answer() {
    let silent = |api: &MiniApi| {
        api.inject(Fault::Silence.on(Verb::Any, "").times(6));
        api.cut_watches("", Cut::Reset);
    };
    let mute = |api: &MiniApi| {
        api.mute_connections().unwrap();
        api.cut_connections(Cut::Reset).unwrap();
        api.start_again().unwrap();
    };
    let cases: [&(dyn Fn(&MiniApi) + Sync); 2] = [&silent, &mute];
    at_once(cases, |harm| survives(Options::default(), harm));
}

#[test]
fn answers_trickle() {
    let api = cluster(Options::default());
    let slow = Fault::Slow {
        bytes: 64,
        pause: Duration::from_millis(2),
    };
    api.inject(slow.on(Verb::Any, ""));
    let mut source = Followed::synced(&api);
    source.view.expect(BASE);
    api.put(service_object("web", 80)).unwrap();
    source.view.expect(&base_and("Service default/web:80"));
    assert!(
        source.view.problems.is_empty(),
        "{:?}",
        source.view.problems
    );
}

#[test]
fn errors_of_all_sorts() {
    let faults = [
        Fault::InternalError,
        Fault::Unavailable,
        Fault::TooManyRequests(1),
        Fault::Forbidden,
        Fault::Unauthorized,
        Fault::NotFound,
        Fault::VersionTooLarge,
        Fault::Html(502),
        Fault::EndsAtOnce,
    ];
    at_once(faults, |fault| {
        survives(Options::default(), |api| {
            api.inject(fault.clone().on(Verb::Any, "").times(12));
            api.cut_watches("", Cut::Close);
        });
    });
}

/// A watch that fails at its version each time is replaced by a list.
#[test]
fn watch_that_always_fails_is_replaced_by_a_list() {
    let faults = [
        Fault::InternalError,
        Fault::VersionTooLarge,
        Fault::Forbidden,
        Fault::Html(502),
        Fault::ErrorEvent,
        Fault::Garbage,
        Fault::EndsAtOnce,
        Fault::Cut {
            after: 0,
            how: Cut::Reset,
        },
    ];
    let options = [Options::default(), paged()];
    let cases = options
        .iter()
        .flat_map(|it| faults.iter().map(move |fault| (it, fault)));
    at_once(cases, |(options, fault)| {
        let api = cluster(options.clone());
        let mut source = Followed::synced(&api);
        assert!(api.await_watches(4, DEADLINE));
        api.inject(fault.clone().on(Verb::WatchFrom, ""));
        api.cut_watches("", Cut::Close);
        for port in [80, 81] {
            api.put(service_object("web", port)).unwrap();
            source
                .view
                .expect(&base_and(&format!("Service default/web:{port}")));
        }
        assert!(source.view.deleted.is_empty(), "{fault:?}");
    });
}

/// An answer is soon late, and waited for.
fn impatient() -> Timeouts {
    Timeouts {
        answer: DEADLINE,
        late: Duration::from_millis(50),
        ..timeouts()
    }
}

/// A list whose answer begins late is reported and waited for, not asked for again.
#[test]
fn late_answer_is_reported_and_waited_for() {
    at_once([Options::default(), paged()], |options| {
        let api = cluster(options);
        let list = Fault::Late(Duration::from_millis(300));
        for verb in [Verb::List, Verb::Watch] {
            api.inject(list.clone().on(verb, "/services").once());
        }
        let (client, _files) = client(&api);
        let mut source = Followed::with(&client, impatient());
        source.view.until("a late answer", |it| {
            let mut lines = it.problems.values().flatten();
            lines.any(|it| it.contains("Services: stale since") && it.contains("no answer for"))
        });
        source.view.expect(BASE);
        source.view.until("no problem", |it| it.problems.is_empty());
        let asked = api.requests();
        let lists = asked.iter().filter(|it| {
            it.path.ends_with("/services")
                && it
                    .parameter("resourceVersion")
                    .unwrap_or_default()
                    .is_empty()
        });
        assert!(lists.count() <= 2, "one of each sort: {asked:?}");
    });
}

/// A list whose parts come in time, and whose end does not, is reported and waited for.
#[test]
fn slow_list_is_reported_and_waited_for() {
    let in_pages = Timeouts {
        late: Duration::from_millis(50),
        ..timeouts()
    };
    let in_events = Timeouts {
        silence: Duration::from_millis(50),
        silent_watches: u32::MAX,
        ..timeouts()
    };
    let cases = [
        (paged(), Verb::List, in_pages),
        (Options::default(), Verb::Watch, in_events),
    ];
    at_once(cases, |(options, list, timeouts)| {
        let api = cluster(options);
        let names: Vec<String> = (0..40).map(|it| format!("web-{it}")).collect();
        let services = names.iter().map(|it| service_object(it, 80));
        api.put_all(services).unwrap();
        let slow = Fault::Slow {
            bytes: 64,
            pause: Duration::from_millis(1),
        };
        api.inject(slow.on(list, "/services").once());
        let (client, _files) = client(&api);
        let mut source = Followed::with(&client, timeouts);
        source.view.until("a slow list", |it| {
            let mut lines = it.problems.values().flatten();
            lines.any(|it| it.contains("Services: stale since"))
        });
        source.view.until("synced", |it| it.synced == 1);
        source.view.until("no problem", |it| it.problems.is_empty());
        let asked = api.requests();
        let lists = asked.iter().filter(|it| {
            let version = it.parameter("resourceVersion").unwrap_or_default();
            it.path.ends_with("/services") && version.is_empty()
        });
        assert!(lists.count() <= 2, "one of each sort: {asked:?}");
    });
}

/// The server says nothing on connections that live, and does not answer new requests.
#[test]
fn server_that_falls_silent_is_reported() {
    let api = cluster(Options::default());
    let (client, _files) = client(&api);
    let mut source = Followed::with(&client, impatient());
    source.view.until("synced", |it| it.synced == 1);
    assert!(api.await_watches(4, DEADLINE));
    source.view.until("no problem", |it| it.problems.is_empty());
    api.inject(Fault::Silence.on(Verb::Any, ""));
    assert_eq!(api.stall_watches(""), 4);
    source.view.until("four stale kinds", |it| {
        let told = it.problems.get("API server");
        told.is_some_and(|it| it.iter().filter(|it| it.contains("no answer")).count() == 4)
    });
    assert_eq!(source.view.brief(), BASE, "everything stays");
}

/// Quiet watches are replaced by watches, not by lists, and are no problem.
#[test]
fn quiet_watches_are_opened_again() {
    let api = cluster(Options {
        bookmarks: DEADLINE,
        ..Options::default()
    });
    let (client, _files) = client(&api);
    let timeouts = Timeouts {
        silence: Duration::from_millis(100),
        silent_watches: u32::MAX,
        ..timeouts()
    };
    let mut source = Followed::with(&client, timeouts);
    source.view.until("synced", |it| it.synced == 1);
    let is_again = |it: &Request| {
        let version = it.parameter("resourceVersion");
        it.is_watch() && version.is_some_and(|it| !it.is_empty())
    };
    assert!(
        api.await_requests(DEADLINE, |all| all.iter().filter(|it| is_again(it)).count()
            >= 12)
    );
    let asked = api.requests();
    assert_eq!(
        asked.iter().filter(|it| !is_again(it)).count(),
        4,
        "{asked:?}"
    );
    api.put(service_object("web", 80)).unwrap();
    source.view.expect(&base_and("Service default/web:80"));
    assert!(
        source.view.problems.is_empty(),
        "{:?}",
        source.view.problems
    );
}

#[test]
fn retry_after_is_honoured() {
    let api = cluster(Options::default());
    api.inject(Fault::TooManyRequests(1).on(Verb::Any, "/services").once());
    let start = std::time::Instant::now();
    Followed::synced(&api);
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn empty_lists_are_not_believed_at_once() {
    for fault in [Fault::EmptyList, Fault::NullItems] {
        let api = cluster(paged());
        let mut source = Followed::synced(&api);
        assert!(api.await_watches(4, DEADLINE));
        for path in ["/services", "/endpointslices", "/nodes"] {
            api.inject(fault.clone().on(Verb::List, path).times(2));
        }
        assert_eq!(api.expire_watches(""), 4);
        api.put(service_object("web", 80)).unwrap();
        source.view.expect(&base_and("Service default/web:80"));
        assert!(source.view.deleted.is_empty(), "{:?}", source.view.deleted);
    }
}

#[test]
fn cluster_that_became_empty_is_believed_in_the_end() {
    let api = cluster(Options::default());
    let mut source = Followed::synced(&api);
    api.refuse_connections().unwrap();
    api.cut_connections(Cut::Close).unwrap();
    api.replace_everything([node_object(NODE, "10.0.0.1")])
        .unwrap();
    api.compact();
    api.start_again().unwrap();
    source.view.expect("Node n1");
}

#[test]
fn etcd_is_restored() {
    // A watch from a version that is not there yet says nothing, not even a bookmark.
    at_once([Options::default(), paged()], |options| {
        let api = cluster(Options {
            bookmarks: DEADLINE,
            ..options
        });
        api.put(service_object("backed-up", 80)).unwrap();
        let backup = api.snapshot();
        for port in 1..100 {
            api.put(service_object("lost", port)).unwrap();
        }
        let mut source = Followed::synced(&api);
        api.restore(&backup);
        source
            .view
            .expect(&base_and("Service default/backed-up:80"));
        api.put(service_object("new", 80)).unwrap();
        source.view.expect(&base_and(
            "Service default/backed-up:80; Service default/new:80",
        ));
        assert_eq!(source.view.deleted, ["Service default/lost"]);
    });
}

#[test]
fn lagging_server_does_not_take_us_back() {
    // Every list is a consistent read: it is as new as the cluster, whichever server answers.
    for options in [Options::default(), paged()] {
        let api = cluster(options);
        let mut source = Followed::synced(&api);
        assert!(api.await_watches(4, DEADLINE));
        assert_eq!(api.expire_watches("/services"), 1);
        api.put(service_object("new", 80)).unwrap();
        source.view.expect(&base_and("Service default/new:80"));
        let is_list = |it: &&Request| !it.is_watch() || it.parameter("sendInitialEvents").is_some();
        for list in api.requests().iter().filter(is_list) {
            let version = list.parameter("resourceVersion").unwrap_or_default();
            assert_eq!(version, "", "{list:?}");
        }
    }
}

#[test]
fn other_server_of_the_pair_lags() {
    let plain = Options {
        tls: false,
        ..Options::default()
    };
    let first = cluster(plain.clone());
    let past = first.snapshot();
    first.put(service_object("new", 80)).unwrap();
    let mut source = Followed::synced(&first);
    assert!(first.await_watches(4, DEADLINE));
    let address = first.address();
    drop(first);
    let second = MiniApi::start(Options { address, ..plain }).unwrap();
    second.restore(&past);
    // The watches go on there, from versions it has not seen yet. Then it catches up.
    assert!(second.await_watches(4, DEADLINE));
    second.put(service_object("new", 80)).unwrap();
    second.put(service_object("later", 80)).unwrap();
    let both = base_and("Service default/later:80; Service default/new:80");
    source.view.expect(&both);
    source.view.until("no problem", |it| it.problems.is_empty());
    assert!(source.view.deleted.is_empty());
}

#[test]
fn storm_of_changes_loses_nothing() {
    let api = cluster(Options::default());
    let mut source = Followed::synced(&api);
    for round in 0..20 {
        api.put_all((0..200).map(|it| service_object(&format!("s-{it}"), 80 + round)))
            .unwrap();
        if round % 5 == 0 {
            api.cut_watches("", Cut::Reset);
        }
    }
    source.view.until("the last version", |it| {
        let last = it.objects.values().filter(
            |it| matches!(it, crate::support::Object::Service(it) if it.ports[0].port.get() == 99),
        );
        last.count() == 200
    });
    assert!(source.view.deleted.is_empty());
}

#[test]
fn backoff_does_not_hammer_a_dead_server() {
    let api = cluster(Options::default());
    let (client, _files) = client(&api);
    let timeouts = Timeouts {
        longest_retry: Duration::from_secs(60),
        retry: Duration::from_secs(60),
        ..timeouts()
    };
    let mut source = Followed::with(&client, timeouts);
    source.view.until("synced", |it| it.synced == 1);
    assert!(api.await_watches(4, DEADLINE));
    api.clear_requests();
    api.inject(Fault::InternalError.on(Verb::Any, ""));
    api.cut_watches("", Cut::End);
    source.view.until("stale", |it| {
        it.problems
            .get("API server")
            .is_some_and(|it| it.len() == 4)
    });
    assert_eq!(api.requests().len(), 4, "one each, the next in a minute");
}
