#![expect(
    clippy::needless_pass_by_value,
    reason = "`json!()` reads better than `&json!()`"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::MAX_ENDPOINTS;
use crate::{Change, Controller, Object};

fn read<T: k8s_openapi::serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn service(spec: Value) -> Arc<Service> {
    service_with(json!({}), spec)
}

fn service_with(metadata: Value, spec: Value) -> Arc<Service> {
    let mut all = json!({"name": "web", "namespace": "default", "uid": "u-web"});
    all.as_object_mut()
        .unwrap()
        .extend(metadata.as_object().unwrap().clone());
    let mut full = json!({
        "selector": {"app": "web"},
        "clusterIP": "10.96.0.10",
        "ipFamilies": ["IPv4"],
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
    });
    full.as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    read(json!({"metadata": all, "spec": full}))
}

fn node(name: &str, zone: &str) -> Object {
    let labels = json!({"topology.kubernetes.io/zone": zone});
    Object::Node(read::<Node>(
        json!({"metadata": {"name": name, "labels": labels}}),
    ))
}

/// A pod of the Service `web` with words for what differs: `ready`, `unready`, `gone` (terminating), `failed`,
/// `node=NAME`, `named=PORT`, `v6`, `host=NAME`, `app=NAME`.
fn pod(number: u32, words: &str) -> Object {
    let (mut ready, mut node, mut app, mut phase) = ("True", "n1", "web", "Running");
    let (mut named, mut ips) = (
        8080,
        vec![format!("10.244.{}.{}", number / 200, number % 200 + 1)],
    );
    let (mut deleted, mut host) = (Value::Null, Value::Null);
    for word in words.split_whitespace() {
        match word.split_once('=').unwrap_or((word, "")) {
            ("ready", _) => ready = "True",
            ("unready", _) => ready = "False",
            ("gone", _) => deleted = json!("2026-01-01T00:00:00Z"),
            ("failed", _) => phase = "Failed",
            ("node", it) => node = it,
            ("named", it) => named = it.parse().unwrap(),
            ("v6", _) => ips.push(format!("fd00::{number:x}")),
            ("host", it) => host = json!(it),
            ("app", it) => app = it,
            _ => panic!("{word:?}"),
        }
    }
    let ips: Vec<Value> = ips.into_iter().map(|ip| json!({"ip": ip})).collect();
    Object::Pod(read::<Pod>(json!({
        "metadata": {
            "name": format!("web-{number}"), "namespace": "default", "uid": format!("u-{number}"),
            "labels": {"app": app}, "deletionTimestamp": deleted,
        },
        "spec": {
            "nodeName": node, "hostname": host, "subdomain": "web",
            "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": named}]}],
        },
        "status": {
            "phase": phase, "podIP": ips[0]["ip"], "podIPs": ips,
            "conditions": [{"type": "Ready", "status": ready}],
        },
    })))
}

/// A controller whose writes are made at once.
#[derive(Default)]
struct World {
    controller: Controller,
    /// The writes of the last step.
    writes: Vec<Change>,
}

impl World {
    fn new(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut world = Self::default();
        let mut all = vec![node("n1", "a"), node("n2", "b")];
        all.extend(objects);
        world.step(all.into_iter().map(Change::Set));
        world
    }

    fn step(&mut self, changes: impl IntoIterator<Item = Change>) {
        let now = Timestamp::UNIX_EPOCH;
        for change in changes {
            self.controller.absorb(change, now);
        }
        self.writes = self.controller.changes();
        for change in &self.writes {
            self.controller.absorb(change.clone(), now);
        }
        assert_eq!(self.controller.changes(), [], "what was written is enough");
    }

    fn set(&mut self, objects: impl IntoIterator<Item = Object>) {
        self.step(objects.into_iter().map(Change::Set));
    }

    fn slices(&self) -> Vec<&EndpointSlice> {
        self.controller.slices().map(|it| &**it).collect()
    }

    /// Family, ports, and every endpoint with its conditions: `r` ready, `s` serving, `t` terminating.
    fn text(&self) -> Vec<String> {
        let mut text: Vec<String> = self.slices().into_iter().map(show).collect();
        text.sort();
        text
    }
}

fn show(slice: &EndpointSlice) -> String {
    let ports = slice.ports.iter().flatten();
    let ports: Vec<String> = ports
        .map(|it| format!("{}:{}", it.name.as_deref().unwrap(), it.port.unwrap()))
        .collect();
    let endpoints = slice.endpoints.iter().flatten().map(|it| {
        let conditions = it.conditions.clone().unwrap_or_default();
        let flag = |set: Option<bool>, letter| if set == Some(true) { letter } else { "" };
        let hints = it.hints.clone().unwrap_or_default();
        let zones = hints
            .for_zones
            .into_iter()
            .flatten()
            .map(|it| format!(" zone={}", it.name));
        let nodes = hints
            .for_nodes
            .into_iter()
            .flatten()
            .map(|it| format!(" node={}", it.name));
        let host = it.hostname.iter().map(|it| format!(" host={it}"));
        let more: String = zones.chain(nodes).chain(host).collect();
        format!(
            "{}={}{}{}{more}",
            it.addresses.join("+"),
            flag(conditions.ready, "r"),
            flag(conditions.serving, "s"),
            flag(conditions.terminating, "t"),
        )
    });
    let endpoints: Vec<String> = endpoints.collect();
    format!(
        "{} {} [{}]",
        slice.address_type,
        ports.join(","),
        endpoints.join(", ")
    )
}

#[track_caller]
fn check(service: Arc<Service>, pods: impl IntoIterator<Item = Object>, expected: &[&str]) {
    let objects = std::iter::once(Object::Service(service)).chain(pods);
    assert_eq!(World::new(objects).text(), expected);
}

#[test]
fn conditions_are_those_of_the_pod() {
    let pods = [
        pod(1, "ready"),
        pod(2, "unready"),
        pod(3, "gone"),
        pod(4, "gone unready"),
        pod(5, "failed"),
    ];
    check(
        service(json!({})),
        pods.clone(),
        &["IPv4 http:8080 [10.244.0.2=rs, 10.244.0.3=, 10.244.0.4=st, 10.244.0.5=t]"],
    );
    // A Service that publishes unready addresses publishes all.
    check(
        service(json!({"publishNotReadyAddresses": true})),
        pods,
        &["IPv4 http:8080 [10.244.0.2=rs, 10.244.0.3=r, 10.244.0.4=rst, 10.244.0.5=rt]"],
    );
}

#[test]
fn a_service_without_pods_has_an_empty_slice() {
    check(service(json!({})), [pod(1, "app=other")], &["IPv4  []"]);
    check(
        service(json!({"ipFamilies": ["IPv6", "IPv4"]})),
        [],
        &["IPv4  []", "IPv6  []"],
    );
    // Their endpoints are written by someone else, or they have none.
    check(service(json!({"selector": {}})), [pod(1, "")], &[]);
    check(service(json!({"type": "ExternalName"})), [pod(1, "")], &[]);
}

#[test]
fn ports_are_found_by_name() {
    let named = json!({"ports": [
        {"name": "http", "port": 80, "targetPort": "http"},
        {"name": "udp", "port": 80, "protocol": "UDP", "targetPort": "http"},
    ]});
    // The container has the named port for TCP only; pods of two versions have two numbers.
    check(
        service(named),
        [pod(1, ""), pod(2, "named=9090"), pod(3, "")],
        &[
            "IPv4 http:8080 [10.244.0.2=rs, 10.244.0.4=rs]",
            "IPv4 http:9090 [10.244.0.3=rs]",
        ],
    );
    let number = json!({"ports": [{"port": 80}]});
    check(service(number), [pod(1, "")], &["IPv4 :80 [10.244.0.2=rs]"]);
    let headless = json!({"clusterIP": "None", "ports": []});
    check(
        service(headless),
        [pod(1, "host=one")],
        &["IPv4  [10.244.0.2=rs host=one]"],
    );
}

#[test]
fn families_are_the_services() {
    let pods = [pod(1, "v6"), pod(2, "")];
    let both = service(json!({"ipFamilies": ["IPv4", "IPv6"]}));
    check(
        both,
        pods.clone(),
        &[
            "IPv4 http:8080 [10.244.0.2=rs, 10.244.0.3=rs]",
            "IPv6 http:8080 [fd00::1=rs]",
        ],
    );
    let unsaid = service(json!({"ipFamilies": [], "clusterIP": "fd00:96::1"}));
    check(unsaid, pods, &["IPv6 http:8080 [fd00::1=rs]"]);
}

#[test]
fn a_pod_of_a_node_that_is_gone_is_no_endpoint() {
    check(
        service(json!({})),
        [pod(1, "node=n9")],
        &["IPv4 http:8080 []"].map(|_| "IPv4  []"),
    );
    let all = service(json!({"publishNotReadyAddresses": true}));
    check(
        all,
        [pod(1, "node=n9")],
        &["IPv4 http:8080 [10.244.0.2=rs]"],
    );
    let mut world = World::new([Object::Service(service(json!({}))), pod(1, "node=n9")]);
    world.set([node("n9", "a")]);
    assert_eq!(world.text(), ["IPv4 http:8080 [10.244.0.2=rs]"]);
}

#[test]
fn hints_follow_the_distribution() {
    let pods = [pod(1, ""), pod(2, "node=n2"), pod(3, "node=n2 unready")];
    let zones = "IPv4 http:8080 [10.244.0.2=rs zone=a, 10.244.0.3=rs zone=b, 10.244.0.4=]";
    for value in ["PreferClose", "PreferSameZone"] {
        check(
            service(json!({"trafficDistribution": value})),
            pods.clone(),
            &[zones],
        );
    }
    let same_node = service(json!({"trafficDistribution": "PreferSameNode"}));
    let nodes =
        "IPv4 http:8080 [10.244.0.2=rs zone=a node=n1, 10.244.0.3=rs zone=b node=n2, 10.244.0.4=]";
    check(same_node.clone(), pods.clone(), &[nodes]);
    let mut world = World::new([Object::Service(same_node)].into_iter().chain(pods));
    world.set([Object::Service(service(json!({})))]);
    assert_eq!(
        world.text(),
        ["IPv4 http:8080 [10.244.0.2=rs, 10.244.0.3=rs, 10.244.0.4=]"]
    );
    world.set([Object::Service(service(
        json!({"trafficDistribution": "PreferClose"}),
    ))]);
    assert_eq!(world.text(), [zones]);
    // Its Node moves to another zone.
    world.set([node("n2", "c")]);
    assert_eq!(world.text(), [zones.replace("zone=b", "zone=c")]);
}

#[test]
fn labels_are_the_services() {
    let labelled =
        |labels: Value| Object::Service(service_with(json!({"labels": labels}), json!({})));
    let mut world = World::new([labelled(json!({"team": "red"})), pod(1, "")]);
    let labels = |world: &World| -> Vec<String> {
        let slices = world.slices();
        let labels = slices[0].metadata.labels.iter().flatten();
        labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    };
    let ours = [
        "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io",
        "kubernetes.io/service-name=web",
    ];
    assert_eq!(labels(&world), [ours[0], ours[1], "team=red"]);
    // Labels of a Service cannot set the writer of its slices.
    world.set([labelled(
        json!({"endpointslice.kubernetes.io/managed-by": "me"}),
    )]);
    assert_eq!(labels(&world), ours);
    let headless = service(json!({"clusterIP": "None"}));
    world.set([Object::Service(headless)]);
    world.set([pod(2, "")]);
    assert_eq!(labels(&world)[2], "service.kubernetes.io/headless=");
}

#[test]
fn slices_are_full_and_few_are_rewritten() {
    let mut world = World::new([Object::Service(service(json!({})))]);
    world.set((0..250).map(|it| pod(it, "")));
    let sizes = |world: &World| -> Vec<usize> {
        let slices = world.slices();
        let mut sizes: Vec<usize> = slices
            .iter()
            .map(|it| it.endpoints.iter().flatten().count())
            .collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&world), [50, 100, 100]);
    // A change of one pod writes one slice.
    for change in [pod(7, "unready"), pod(300, ""), pod(7, "failed")] {
        world.set([change]);
        assert_eq!(world.writes.len(), 1, "{:?}", world.text());
    }
    assert_eq!(sizes(&world), [51, 99, 100]);
    // A slice that changes anyway takes the new pods.
    world.set([pod(8, "failed"), pod(301, "")]);
    assert!(world.writes.len() <= 2, "{:?}", world.writes.len());
    world.set((0..400).map(|it| pod(it, "failed")));
    assert_eq!(world.text(), ["IPv4  []"]);
}

#[test]
fn names_are_generated_alike_everywhere() {
    let names = || -> Vec<String> {
        let world = World::new([Object::Service(service(json!({}))), pod(1, "")]);
        let slices = world.slices();
        slices
            .iter()
            .map(|it| it.metadata.name.clone().unwrap())
            .collect()
    };
    assert_eq!(names(), names());
    let name = &names()[0];
    assert!(
        name.starts_with("web-") && name.len() == "web-".len() + 5,
        "{name}"
    );
}

#[test]
fn slices_of_an_earlier_service_of_the_name_go() {
    let mut world = World::new([Object::Service(service(json!({}))), pod(1, "")]);
    let reborn = service_with(json!({"uid": "u-reborn"}), json!({}));
    world.set([Object::Service(reborn.clone())]);
    let owners: BTreeSet<String> = world
        .slices()
        .iter()
        .flat_map(|it| {
            it.metadata
                .owner_references
                .iter()
                .flatten()
                .map(|it| it.uid.clone())
        })
        .collect();
    assert_eq!(owners, BTreeSet::from(["u-reborn".to_owned()]));
    world.step([Change::Delete(Object::Service(reborn))]);
    assert_eq!(world.text(), [""; 0]);
}

#[test]
fn a_service_on_its_way_out_gets_no_new_slices() {
    let leaving = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let world = World::new([
        Object::Service(service_with(leaving, json!({}))),
        pod(1, ""),
    ]);
    assert_eq!(world.text(), [""; 0]);
}

fn endpoints(metadata: Value, subsets: Value) -> Object {
    let mut all = json!({"name": "web", "namespace": "default", "uid": "u-endpoints"});
    all.as_object_mut()
        .unwrap()
        .extend(metadata.as_object().unwrap().clone());
    Object::Endpoints(read::<Endpoints>(
        json!({"metadata": all, "subsets": subsets}),
    ))
}

#[test]
fn slices_stay_when_the_selector_is_taken_away() {
    let mut world = World::new([
        Object::Service(service(json!({}))),
        node("n1", ""),
        pod(1, ""),
    ]);
    let before = world.text();
    assert_eq!(before.len(), 1);
    for change in [json!({"selector": null}), json!({"type": "ExternalName"})] {
        world.set([Object::Service(service(change))]);
        assert_eq!((world.text(), world.writes.len()), (before.clone(), 0));
    }
}

/// The Endpoints of the world's Services: `ready/unready : ports` of each subset.
fn subsets(world: &World) -> Vec<String> {
    let show = |it: &Arc<Endpoints>| {
        let subsets = it.subsets.iter().flatten().map(|subset| {
            let ips = |list: &Option<Vec<k8s_openapi::api::core::v1::EndpointAddress>>| {
                let ips = list.iter().flatten().map(|it| it.ip.clone());
                ips.collect::<Vec<_>>().join(",")
            };
            let ports = subset.ports.iter().flatten();
            let ports =
                ports.map(|it| format!("{}:{}", it.name.as_deref().unwrap_or("-"), it.port));
            let ports = ports.collect::<Vec<_>>().join(",");
            format!(
                "{}/{} {ports}",
                ips(&subset.addresses),
                ips(&subset.not_ready_addresses)
            )
        });
        subsets.collect::<Vec<_>>().join("; ")
    };
    world.controller.endpoints.values().map(show).collect()
}

fn with_endpoints(objects: impl IntoIterator<Item = Object>) -> World {
    let mut world = World {
        controller: Controller::with_endpoints(),
        writes: Vec::new(),
    };
    let mut all = vec![node("n1", "a"), node("n2", "b")];
    all.extend(objects);
    world.set(all);
    world
}

#[test]
fn a_service_with_a_selector_has_endpoints() {
    let web = |spec: Value| Object::Service(service(spec));
    let mut world = with_endpoints([web(json!({}))]);
    assert_eq!(subsets(&world), [""]);
    world.set([
        pod(1, "ready"),
        pod(2, "unready"),
        pod(3, "gone"),
        pod(4, "failed"),
        pod(5, "ready v6"),
    ]);
    assert_eq!(
        subsets(&world),
        ["10.244.0.2,10.244.0.6/10.244.0.3 http:8080"]
    );
    let labels = |world: &World| {
        let it = world.controller.endpoints.values().next().unwrap();
        let labels = it.metadata.labels.clone().unwrap();
        labels.into_keys().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(labels(&world), "endpoints.kubernetes.io/managed-by");
    world.set([web(json!({"publishNotReadyAddresses": true}))]);
    assert_eq!(
        subsets(&world),
        ["10.244.0.2,10.244.0.3,10.244.0.4,10.244.0.6/ http:8080"]
    );
    world.set([web(json!({"clusterIP": "fd00::9", "ipFamilies": ["IPv6"]}))]);
    assert_eq!(subsets(&world), ["fd00::5/ http:8080"]);
    // Named ports may have different numbers.
    let ports =
        json!([{"name": "http", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81}]);
    world.set([web(json!({"ports": ports})), pod(2, "ready named=9090")]);
    assert_eq!(
        subsets(&world),
        [
            "10.244.0.2,10.244.0.3,10.244.0.6/ b:81; 10.244.0.2,10.244.0.6/ http:8080; 10.244.0.3/ http:9090"
        ]
    );
    world.set([web(json!({"clusterIP": "None", "ports": []}))]);
    assert_eq!(subsets(&world), ["10.244.0.2,10.244.0.3,10.244.0.6/ "]);
    assert!(labels(&world).ends_with("service.kubernetes.io/headless"));
    world.step([Change::Delete(web(json!({})))]);
    assert!(subsets(&world).is_empty());
}

#[test]
fn endpoints_have_a_thousand_addresses() {
    let ready = (1..=600).map(|it| pod(it, "ready"));
    let unready = (601..=1200).map(|it| pod(it, "unready"));
    let objects = ready
        .chain(unready)
        .chain([Object::Service(service(json!({})))]);
    let mut world = with_endpoints(objects);
    let counts = |world: &World| {
        let it = world.controller.endpoints.values().next().unwrap();
        let subset = &it.subsets.as_ref().unwrap()[0];
        let count = |list: &Option<Vec<_>>| list.as_ref().map_or(0, Vec::len);
        let annotation = it.metadata.annotations.as_ref().unwrap();
        (
            count(&subset.addresses),
            count(&subset.not_ready_addresses),
            annotation
                .get("endpoints.kubernetes.io/over-capacity")
                .cloned(),
        )
    };
    let truncated = Some("truncated".to_owned());
    assert_eq!(counts(&world), (600, 400, truncated.clone()));
    world.set((601..=1200).map(|it| pod(it, "ready")));
    assert_eq!(counts(&world), (1000, 0, truncated));
    world.step((601..=1200).map(|it| Change::Delete(pod(it, ""))));
    assert_eq!(counts(&world), (600, 0, None));
}

#[test]
fn endpoints_of_people_stay_theirs() {
    let own = |name: &str, annotations: Value| {
        Object::Endpoints(read(json!({
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
        })))
    };
    let bare = || Object::Service(service(json!({"selector": null})));
    let leader = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    let mut world = with_endpoints([bare(), own("web", json!({})), own("lock", leader)]);
    assert_eq!(subsets(&world), ["192.0.2.1/ -:80"; 2]);
    assert_eq!(world.slices().len(), 1);
    // With its Service an object goes, whoever wrote it.
    world.step([Change::Delete(bare())]);
    assert_eq!(subsets(&world).len(), 1);
    assert!(world.slices().is_empty());
    // Those of the controller are not mirrored when the selector is taken away: the slices are still there.
    world.set([Object::Service(service(json!({}))), pod(1, "ready")]);
    let before = world.text();
    world.set([bare()]);
    assert_eq!(world.text(), before);
    assert_eq!(subsets(&world).len(), 2);
}

#[test]
fn endpoints_are_mirrored_where_there_is_no_selector() {
    let subsets = json!([{
        "addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1", "hostname": "six"}],
        "notReadyAddresses": [{"ip": "192.0.2.2"}],
        "ports": [{"name": "http", "port": 8080}],
    }]);
    let bare = service(json!({"selector": null}));
    let mut world = World::new([Object::Service(bare), endpoints(json!({}), subsets.clone())]);
    let expected = [
        "IPv4 http:8080 [192.0.2.1=r, 192.0.2.2=]",
        "IPv6 http:8080 [2001:db8::1=r host=six]",
    ];
    assert_eq!(world.text(), expected);
    world.set([endpoints(
        json!({"annotations": {"note": "x"}}),
        subsets.clone(),
    )]);
    assert_eq!(world.writes.len(), 2, "annotations are copied");
    let skip = json!({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}});
    let lock = json!({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}});
    for metadata in [skip, lock] {
        world.set([endpoints(metadata, subsets.clone())]);
        assert_eq!(world.text(), [""; 0]);
        world.set([endpoints(json!({}), subsets.clone())]);
        assert_eq!(world.text(), expected);
    }
    world.set([Object::Service(service(json!({})))]);
    assert_eq!(world.text(), ["IPv4  []"], "the selector counts now");
}

/// A change of the pods.
#[derive(Clone, Debug)]
enum Step {
    Set(u32, &'static str),
    Delete(u32),
    Node(&'static str, &'static str),
    Distribution(&'static str),
}

fn step() -> impl Strategy<Value = Step> {
    let words = prop::sample::select(vec![
        "",
        "unready",
        "gone",
        "failed",
        "node=n2",
        "node=n9",
        "named=9090",
        "v6",
        "app=other",
    ]);
    prop_oneof![
        6 => (0..220_u32, words).prop_map(|(number, words)| Step::Set(number, words)),
        2 => (0..220_u32).prop_map(Step::Delete),
        1 => prop::sample::select(vec![("n1", "a"), ("n1", "c"), ("n9", "b")]).prop_map(|(a, b)| Step::Node(a, b)),
        1 => prop::sample::select(vec!["", "PreferClose", "PreferSameNode"]).prop_map(Step::Distribution),
    ]
}

fn change(step: &Step) -> Change {
    let named = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
    match step {
        Step::Set(number, words) => Change::Set(pod(*number, words)),
        Step::Delete(number) => Change::Delete(pod(*number, "")),
        Step::Node(name, zone) => Change::Set(node(name, zone)),
        Step::Distribution(value) => Change::Set(Object::Service(service(json!({
            "ports": named, "ipFamilies": ["IPv4", "IPv6"], "trafficDistribution": value,
        })))),
    }
}

/// Every endpoint by family and ports, in whichever slice.
fn contents(world: &World) -> BTreeMap<String, BTreeSet<String>> {
    let mut contents: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for slice in world.slices() {
        let text = show(slice);
        let (group, endpoints) = text.split_once('[').unwrap();
        let endpoints = endpoints.trim_end_matches(']').split(", ");
        let group = contents.entry(group.to_owned()).or_default();
        for it in endpoints.filter(|it| !it.is_empty()) {
            assert!(group.insert(it.to_owned()), "{it} is in two slices");
        }
    }
    contents
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// After any history the slices hold what a new controller writes for the same objects, and a step writes no more
    /// slices than its endpoints need.
    #[test]
    fn endpoints_are_a_function_of_the_objects(
        first in prop::collection::vec(step(), 0..300),
        later in prop::collection::vec(prop::collection::vec(step(), 1..12), 1..12),
    ) {
        let start = Step::Distribution("");
        let mut world = World::new([]);
        world.step(std::iter::once(&start).chain(&first).map(change));
        let mut all: Vec<&Step> = std::iter::once(&start).chain(&first).collect();
        for steps in &later {
            world.step(steps.iter().map(change));
            all.extend(steps);
            let pods = steps.iter().filter(|it| matches!(it, Step::Set(..) | Step::Delete(_))).count();
            if pods == steps.len() {
                // Each pod may leave one group of each family, and enter another.
                prop_assert!(world.writes.len() <= 4 * pods, "{} for {pods}", world.writes.len());
            }
            for slice in world.slices() {
                prop_assert!(slice.endpoints.iter().flatten().count() <= MAX_ENDPOINTS);
            }
        }
        let mut fresh = World::new([]);
        fresh.step(all.iter().map(|it| change(it)));
        prop_assert_eq!(contents(&world), contents(&fresh));
    }
}
