//! Tests of the kinds that DNS needs: Namespaces, Pods, and every Service and EndpointSlice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sluice_miniapi::{Fault, MiniApi, Options, Verb};
use sluice_model::Selector;
use sluice_source::apiserver::Timeouts;
use sluice_source::kinds::Service;
use sluice_source::{FieldTest, Need, Selection, Wants};

use crate::apiserver::cluster::{BASE, Followed, base_and, client, cluster, timeouts};
use crate::support::{
    Event, Object, Pods, Wanted, namespace_object, pod_object, service_object, slice_object,
};

fn follow(api: &MiniApi, wanted: Wanted, timeouts: Timeouts) -> Followed {
    let (client, files) = client(api);
    let mut followed = Followed::wanting(&client, wanted, timeouts);
    followed.keep(files);
    followed
}

#[track_caller]
fn synced(api: &MiniApi, wanted: Wanted) -> Followed {
    let mut source = follow(api, wanted, timeouts());
    source.view.until("synced", |it| it.synced == 1);
    source
}

/// The same object with labels.
fn labelled(mut object: Value, labels: Value) -> Value {
    let all = &mut object["metadata"]["labels"];
    match (all.as_object_mut(), labels) {
        (Some(all), Value::Object(more)) => all.extend(more),
        (_, labels) => *all = labels,
    }
    object
}

/// A cluster with objects that a proxy does not need: a headless Service with its slice, the Service of another
/// proxy, Namespaces, Pods on two nodes.
fn named_cluster(options: Options) -> MiniApi {
    let api = cluster(options);
    let mut headless = service_object("db", 5432);
    headless["spec"]["clusterIP"] = "None".into();
    let other = json!({"service.kubernetes.io/service-proxy-name": "other"});
    api.put_all([
        headless,
        labelled(
            slice_object("db-1", "db", "10.1.0.9"),
            json!({"service.kubernetes.io/headless": ""}),
        ),
        labelled(service_object("other", 80), other),
        namespace_object("default"),
        namespace_object("shop"),
        pod_object("web-0", "n1", "10.1.0.1"),
        pod_object("shop/web-1", "n2", "10.1.0.2"),
    ])
    .unwrap();
    api
}

const HEADLESS: &str =
    "EndpointSlice default/db-1 10.1.0.9; Service default/db:5432; Service default/other:80";

fn all_services() -> String {
    base_and(HEADLESS)
}

/// `base` and further objects, in the order of [`View::brief`](crate::support::View::brief).
fn and(base: &str, more: &str) -> String {
    let mut parts: Vec<&str> = base.split("; ").chain(more.split("; ")).collect();
    parts.sort_unstable();
    parts.join("; ")
}

const SPACES: &str = "Namespace default; Namespace shop";

/// The objects that [`Wanted::dns`] follows.
fn names() -> String {
    let services = "EndpointSlice default/kubernetes 10.0.0.1; Service default/kubernetes:443";
    and(&and(services, HEADLESS), SPACES)
}

#[test]
fn a_dns_server_sees_all_services_and_namespaces() {
    for streaming_lists in [true, false] {
        let api = named_cluster(Options {
            streaming_lists,
            ..Options::default()
        });
        let mut source = synced(&api, Wanted::dns());
        assert_eq!(source.view.brief(), names());
        api.delete("Namespace", "", "shop").unwrap();
        let gone = names().replace("; Namespace shop", "");
        source.view.expect(&gone);
        assert_eq!(source.view.deleted, ["Namespace shop"]);
        assert_eq!(source.view.problems.len(), 0);
        let kinds = ["/nodes", "/pods", "/servicecidrs"];
        let asked = api.requests();
        let asked = asked
            .iter()
            .find(|it| kinds.iter().any(|kind| it.path.ends_with(kind)));
        assert!(asked.is_none(), "{asked:?}");
    }
}

#[test]
fn a_proxy_asks_for_no_namespaces_and_pods() {
    let api = named_cluster(Options::default());
    let source = Followed::synced(&api);
    assert_eq!(source.view.brief(), BASE);
    let asked = api.requests();
    let asked = asked
        .iter()
        .find(|it| it.path.ends_with("/namespaces") || it.path.ends_with("/pods"));
    assert!(asked.is_none(), "{asked:?}");
}

#[test]
fn an_agent_with_dns_sees_the_pods_of_its_node() {
    let api = named_cluster(Options::default());
    let mut source = synced(&api, Wanted::agent());
    let named = and(&all_services(), SPACES);
    source.view.expect(&and(&named, "Pod default/web-0"));
    // Another pod is bound to the node, and one ends.
    api.put(pod_object("shop/web-2", "n1", "")).unwrap();
    let both = and(&named, "Pod default/web-0; Pod shop/web-2");
    source.view.expect(&both);
    api.put(pod_object("shop/web-2", "n1", "10.1.0.3")).unwrap();
    source.view.until("its address", |it| {
        matches!(it.objects.get("Pod shop/web-2"), Some(Object::Pod(it)) if it.addresses.len() == 1)
    });
    let mut ended = pod_object("web-0", "n1", "10.1.0.1");
    ended["status"]["phase"] = "Succeeded".into();
    api.put(ended).unwrap();
    source.view.expect(&and(&named, "Pod shop/web-2"));
    assert_eq!(source.view.deleted, ["Pod default/web-0"]);
    let lists = ["/services", "/endpointslices", "/namespaces", "/pods"];
    for kind in lists {
        let asked = api.requests();
        let asked = asked.iter().filter(|it| it.path.ends_with(kind));
        assert_eq!(asked.count(), 1, "one watch of {kind}");
    }
}

#[test]
fn verified_pods_are_those_of_the_cluster() {
    let api = named_cluster(Options::default());
    let wanted = Wanted {
        pods: Pods::All,
        ..Wanted::dns()
    };
    let source = synced(&api, wanted);
    let pods = "Pod default/web-0; Pod shop/web-1";
    assert_eq!(source.view.brief(), and(&names(), pods));
}

#[test]
fn labels_choose_services_slices_and_pods() {
    let api = named_cluster(Options::default());
    let shown = || json!({"app": "shown"});
    api.put_all([
        labelled(service_object("shop/web", 80), shown()),
        labelled(slice_object("shop/web-1", "web", "10.1.0.2"), shown()),
        labelled(pod_object("shop/web-3", "n2", "10.1.0.4"), shown()),
        labelled(namespace_object("team"), shown()),
    ])
    .unwrap();
    let wanted = Wanted {
        labels: Selector::parse("app in (shown, other)").unwrap(),
        namespace_labels: Selector::parse("app=shown").unwrap(),
        pods: Pods::All,
        ..Wanted::dns()
    };
    let mut source = synced(&api, wanted);
    let web =
        "EndpointSlice shop/web-1 10.1.0.2; Namespace team; Pod shop/web-3; Service shop/web:80";
    assert_eq!(source.view.brief(), web);
    // A Service that loses its label is gone.
    api.put(service_object("shop/web", 80)).unwrap();
    source
        .view
        .expect(&web.replace("; Service shop/web:80", ""));
}

#[test]
fn a_selector_that_the_server_refuses_is_told() {
    let api = named_cluster(Options::default());
    let selection = Selection {
        fields: vec![FieldTest::equal("spec.colour", "blue")],
        ..Selection::default()
    };
    let wants = Wants::new(Event::from).want::<Service>(selection, Need::Required, Event::from);
    let (client, files) = client(&api);
    let mut source = Followed::of_wants(&client, wants, timeouts());
    source.keep(files);
    source.view.until("problem", |it| {
        let problems = it.problems.get("API server");
        problems.is_some_and(|it| {
            it.iter()
                .any(|it| it.contains("Services") && it.contains("400"))
        })
    });
    assert_eq!(source.view.synced, 0);
}

#[test]
fn namespaces_are_chosen() {
    let api = named_cluster(Options::default());
    api.put_all([
        service_object("shop/web", 80),
        service_object("team/web", 80),
        namespace_object("team"),
    ])
    .unwrap();
    let of = |only: &[&str]| Wanted {
        only: only.iter().map(|it| Arc::from(*it)).collect(),
        pods: Pods::All,
        ..Wanted::dns()
    };
    let shop = "Namespace shop; Pod shop/web-1; Service shop/web:80";
    let mut source = synced(&api, of(&["shop"]));
    assert_eq!(source.view.brief(), shop);
    let asked = api.requests();
    for kind in ["services", "pods"] {
        let path = format!("/api/v1/namespaces/shop/{kind}");
        assert!(asked.iter().any(|it| it.path == path), "{path}");
    }
    api.put(service_object("shop/db", 81)).unwrap();
    source.view.expect(&and(shop, "Service shop/db:81"));
    let both = "Namespace shop; Namespace team; Pod shop/web-1; Service shop/db:81; \
                Service shop/web:80; Service team/web:80";
    for streaming_lists in [true, false] {
        if !streaming_lists {
            api.inject(Fault::NoStreamingLists.on(Verb::Watch, "/"));
        }
        let mut source = synced(&api, of(&["shop", "team"]));
        assert_eq!(source.view.brief(), both);
        // Changes of other objects are not delivered, and move the watch on.
        api.put(service_object("other", 82)).unwrap();
        api.put(service_object("team/db", 82)).unwrap();
        source.view.expect(&and(both, "Service team/db:82"));
        api.delete("Service", "default", "other").unwrap();
        api.delete("Service", "team", "db").unwrap();
        source.view.expect(both);
        assert_eq!(source.view.deleted, ["Service team/db"]);
    }
}

#[test]
fn slices_are_not_followed_without_endpoints() {
    let api = named_cluster(Options::default());
    let wanted = Wanted {
        without_slices: true,
        ..Wanted::dns()
    };
    let source = synced(&api, wanted);
    let names = names();
    let rest = names
        .split("; ")
        .filter(|it| !it.starts_with("EndpointSlice"));
    assert_eq!(source.view.brief(), rest.collect::<Vec<_>>().join("; "));
}

#[test]
fn an_agent_without_permission_says_what_is_lost_and_goes_on() {
    let api = named_cluster(Options::default());
    for kind in ["/namespaces", "/pods"] {
        api.inject(Fault::Forbidden.on(Verb::Any, kind));
    }
    let mut source = synced(&api, Wanted::agent());
    assert_eq!(source.view.brief(), all_services());
    source.view.until("two problems", |it| {
        it.problems
            .get("API server")
            .is_some_and(|it| it.len() == 2)
    });
    let problems = source.view.problems["API server"].join("\n");
    for part in [
        "API server: Namespaces: not readable since ",
        ": a namespace counts as absent while it has no object",
        "API server: Pods: not readable since ",
        ": the names of pods and their search paths are not known",
        "the server answered 403",
    ] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    // The permission is granted.
    api.clear_faults();
    let all = and(&and(&all_services(), SPACES), "Pod default/web-0");
    source.view.expect(&all);
    source.view.until("no problem", |it| it.problems.is_empty());
    // The permission is taken away again: the known objects stay.
    for kind in ["/namespaces", "/pods"] {
        api.inject(Fault::Forbidden.on(Verb::Any, kind));
    }
    api.cut_connections(sluice_miniapi::Cut::Close).unwrap();
    source.view.until("stale", |it| {
        let problems = it.problems.get("API server");
        problems.is_some_and(|it| it.iter().all(|it| it.contains("stale since")) && it.len() == 2)
    });
    assert_eq!(source.view.brief(), all);
}

#[test]
fn an_agent_does_not_wait_for_namespaces_for_ever() {
    let api = named_cluster(Options::default());
    api.inject(Fault::InternalError.on(Verb::Any, "/namespaces"));
    let hasty = Timeouts {
        node: Duration::from_millis(500),
        ..timeouts()
    };
    let mut source = follow(&api, Wanted::agent(), hasty);
    source.view.until("synced", |it| it.synced == 1);
    assert!(source.view.brief().contains("Service default/db"));
}

#[test]
fn a_dns_server_waits_for_namespaces() {
    let api = named_cluster(Options::default());
    let kinds = ["/namespaces", "/pods"];
    for kind in kinds {
        api.inject(Fault::Forbidden.on(Verb::Any, kind));
    }
    let hasty = Timeouts {
        node: Duration::from_millis(100),
        ..timeouts()
    };
    let wanted = Wanted {
        pods: Pods::All,
        ..Wanted::dns()
    };
    let mut source = follow(&api, wanted, hasty);
    source.view.until("two problems", |it| {
        it.problems
            .get("API server")
            .is_some_and(|it| it.len() == 2)
    });
    source.seen.until(12, |(_, code)| *code == Some(403));
    assert_eq!(source.view.synced, 0);
    api.clear_faults();
    source.view.until("synced", |it| it.synced == 1);
    source.view.until("no problem", |it| it.problems.is_empty());
}

#[test]
fn empty_lists_of_namespaces_are_not_believed_at_once() {
    let api = named_cluster(Options::default());
    api.inject(
        Fault::NoStreamingLists
            .on(Verb::Watch, "/namespaces")
            .once(),
    );
    api.inject(Fault::EmptyList.on(Verb::List, "/namespaces").times(2));
    let source = synced(&api, Wanted::dns());
    assert_eq!(source.view.brief(), names());
}
