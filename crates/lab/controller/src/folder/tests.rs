#![expect(
    clippy::needless_pass_by_value,
    reason = "`json!()` reads better than `&json!()`"
)]

use jiff::Timestamp;
use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Completed, Folder, Manifests};
use crate::Pools;

fn pools() -> Pools {
    Pools {
        service_cidrs: vec!["10.96.0.0/24".parse().unwrap()],
        node_ports: 30_000..=32_767,
        load_balancers: Vec::new(),
    }
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A Service that selects pods with its name as label `app`.
fn service<T: DeserializeOwned>(name: &str, more: Value) -> T {
    let mut spec = json!({"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    read(json!({"metadata": {"name": name}, "spec": spec}))
}

fn pod<T: DeserializeOwned>(app: &str, ip: &str) -> T {
    read(json!({
        "metadata": {"name": format!("{app}-1"), "labels": {"app": app}},
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"podIPs": [{"ip": ip}]},
    }))
}

fn manifests(services: Vec<k8s_openapi::api::core::v1::Service>) -> Manifests {
    Manifests {
        services,
        pods: vec![pod("web", "10.244.0.5")],
        ..Manifests::default()
    }
}

fn update(folder: &mut Folder, manifests: Manifests) -> Vec<String> {
    let refusals = folder.update(manifests, Timestamp::UNIX_EPOCH);
    refusals
        .iter()
        .map(|(key, it)| format!("{key}: {it}"))
        .collect()
}

fn fresh() -> Folder {
    Folder::new(pools(), Vec::new(), Vec::new()).0
}

fn ip(folder: &Folder, name: &str) -> Option<String> {
    let completed = folder.completed();
    let found = completed.iter().find(|(key, _)| *key.name == *name);
    found.and_then(|(_, it)| it.service.spec.as_ref()?.cluster_ip.clone())
}

fn endpoints(completed: &Completed) -> Vec<String> {
    let all = completed
        .slices
        .iter()
        .flat_map(|it| it.endpoints.iter().flatten());
    all.map(|it| it.addresses.join("+")).collect()
}

#[test]
fn a_service_gets_an_address_and_its_pods() {
    let mut folder = fresh();
    assert_eq!(
        update(&mut folder, manifests(vec![service("web", json!({}))])),
        [""; 0]
    );
    let completed = folder.completed();
    let web = completed.values().next().unwrap();
    assert_eq!(endpoints(web), ["10.244.0.5"]);
    assert_eq!(web.ip_addresses.len(), 1);
    assert_eq!(web.ip_addresses[0].metadata.name, ip(&folder, "web"));
    assert_eq!(update(&mut folder, Manifests::default()), [""; 0]);
    assert_eq!(folder.completed().len(), 0);
}

#[test]
fn an_address_stays_over_changes_and_restarts() {
    let mut folder = fresh();
    update(&mut folder, manifests(vec![service("web", json!({}))]));
    let before = folder.completed();
    update(
        &mut folder,
        manifests(vec![
            service("web", json!({"type": "NodePort"})),
            service("a", json!({})),
        ]),
    );
    let web = before.values().next().unwrap();
    assert_eq!(
        ip(&folder, "web"),
        web.service.spec.as_ref().unwrap().cluster_ip
    );
    let last = folder.completed();
    let services = last.values().map(|it| it.service.clone()).collect();
    let slices = last.values().flat_map(|it| it.slices.clone()).collect();
    let (mut restarted, refusals) = Folder::new(pools(), services, slices);
    assert_eq!(refusals, []);
    update(
        &mut restarted,
        manifests(vec![
            service("web", json!({"type": "NodePort"})),
            service("a", json!({})),
        ]),
    );
    assert_eq!(restarted.completed(), last);
}

#[test]
fn who_asks_comes_first() {
    let mut folder = fresh();
    update(&mut folder, manifests(vec![service("a", json!({}))]));
    let chance = ip(&folder, "a").unwrap();
    let mut folder = fresh();
    let both = vec![
        service("a", json!({})),
        service("z", json!({"clusterIP": chance})),
    ];
    assert_eq!(update(&mut folder, manifests(both)), [""; 0]);
    assert_eq!(ip(&folder, "z"), Some(chance.clone()));
    assert_ne!(ip(&folder, "a"), Some(chance));
}

#[test]
fn what_is_refused_takes_nothing_from_others() {
    let mut folder = fresh();
    update(&mut folder, manifests(vec![service("web", json!({}))]));
    let had = ip(&folder, "web").unwrap();
    let bad: k8s_openapi::api::core::v1::Service =
        read(json!({"metadata": {"name": "../../etc"}, "spec": {}}));
    let problems = update(
        &mut folder,
        manifests(vec![
            service("web", json!({"ipFamilies": ["IPv6"]})),
            service("twin", json!({"clusterIP": had})),
            service("good", json!({})),
            bad,
        ]),
    );
    assert_eq!(problems, [
        "default/../../etc: metadata: no name that a Service can have: lower-case letters, digits and dashes".to_owned(),
        format!(
            "default/twin: spec.clusterIPs: Invalid value: [\"{had}\"]: failed to allocate IP {had}: provided IP is already \
             allocated: Service default/web has it"
        ),
        format!(
            "default/web: spec.clusterIPs[0]: Invalid value: \"{had}\": expected an IPv6 value as indicated by \
             `ipFamilies[0]`"
        ),
    ]);
    assert_eq!(ip(&folder, "web"), Some(had.clone()));
    assert!(ip(&folder, "good").is_some());
    // Once web is deleted, its address is free.
    let problems = update(
        &mut folder,
        manifests(vec![service("twin", json!({"clusterIP": had}))]),
    );
    assert_eq!(problems, [""; 0]);
}

#[test]
fn nothing_goes_while_something_cannot_be_read() {
    let mut folder = fresh();
    update(&mut folder, manifests(vec![service("web", json!({}))]));
    let before = folder.completed();
    let broken = Manifests {
        unread: true,
        services: vec![service("new", json!({}))],
        ..Manifests::default()
    };
    update(&mut folder, broken);
    let completed = folder.completed();
    assert_eq!(completed.len(), 2);
    assert!(
        before
            .iter()
            .all(|(key, it)| completed.get(key) == Some(it))
    );
    update(&mut folder, Manifests::default());
    assert_eq!(folder.completed().len(), 0);
}

#[test]
fn after_a_restart_nothing_goes_before_all_is_read() {
    let mut folder = fresh();
    update(&mut folder, manifests(vec![service("web", json!({}))]));
    let before = folder.completed();
    let (services, slices) = before
        .values()
        .map(|it| (it.service.clone(), it.slices.clone()))
        .unzip::<_, _, Vec<_>, Vec<_>>();
    let (mut folder, _) = Folder::new(pools(), services, slices.concat());
    let broken = Manifests {
        unread: true,
        ..Manifests::default()
    };
    update(&mut folder, broken);
    assert_eq!(folder.completed(), before);
    update(&mut folder, manifests(vec![service("web", json!({}))]));
    assert_eq!(folder.completed(), before);
}

#[test]
fn nodes_that_cannot_be_read_keep_their_zones() {
    let node = |name: &str, zone: &str| {
        read(json!({
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        }))
    };
    let near = json!({"trafficDistribution": "PreferClose"});
    let mut written = manifests(vec![service("web", near)]);
    written.nodes = vec![node("n1", "a"), node("n2", "b")];
    let mut folder = fresh();
    update(&mut folder, written.clone());
    let before = folder.completed();
    let hints = format!("{before:?}");
    assert!(hints.contains("ForZone { name: \"a\" }"), "{hints}");
    written.nodes.clear();
    written.unread = true;
    update(&mut folder, written);
    assert_eq!(folder.completed(), before);
}

#[test]
fn slices_of_others_stay_as_they_are() {
    let mut folder = fresh();
    let own = json!({
        "metadata": {"name": "mine", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}],
    });
    let with = |slices| Manifests {
        slices,
        ..manifests(vec![service("web", json!({}))])
    };
    update(&mut folder, with(vec![read(own)]));
    let all = || endpoints(folder.completed().values().next().unwrap());
    assert_eq!(all().len(), 2, "{:?}", all());
    update(&mut folder, with(Vec::new()));
    assert_eq!(
        endpoints(folder.completed().values().next().unwrap()),
        ["10.244.0.5"]
    );
}
