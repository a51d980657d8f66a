use serde_json::json;
use sluice_api::{Admission as _, DeleteOptions, Effect, Settings, Store};
use sluice_controller::Pools;

use super::*;

mod forms;
mod kinds;
mod pods;
mod rules;
mod updates;
mod words;

const RANGE: &str = "10.96.0.0/16";

/// An admission for a machine that can run the data plane nftables only.
fn admission() -> Admission {
    let allocator = Allocator::new(Pools {
        service_cidrs: Vec::new(),
        node_ports: 30000..=32767,
        load_balancers: Vec::new(),
    });
    let check_mode: CheckMode = Box::new(|mode| match mode {
        "nftables" => Ok(()),
        other => Err(format!("no {other} here")),
    });
    Admission::new(Arc::new(Mutex::new(allocator)), &[], check_mode)
}

fn store() -> Arc<Store> {
    let store = Store::new(Settings {
        admission: Box::new(admission()),
        ..Settings::default()
    });
    store.create(cidr("first", RANGE)).unwrap();
    store
}

fn cidr(name: &str, range: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": name}, "spec": {"cidrs": [range]},
    })
}

fn service(ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIP": ip, "ports": [{"port": 80}]},
    })
}

fn node(mode: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "one", "annotations": {MODE: mode}},
    })
}

#[test]
fn a_service_cidr_that_is_not_written_gives_no_address() {
    let store = store();
    let dry = |it| store.create_with(it, Effect::DryRun);
    dry(cidr("second", "10.97.0.0/16")).unwrap();
    let refused = dry(service("10.97.0.9")).unwrap_err();
    let words =
        "failed to allocate IP 10.97.0.9: the provided network does not match the current range";
    assert!(refused.to_string().ends_with(words), "{refused}");
    let moved = store.update_with(cidr("first", "10.98.0.0/16"), Effect::DryRun);
    moved.unwrap_err();
    dry(service("10.98.0.9")).unwrap_err();
    dry(service("10.96.0.9")).unwrap();
    store.create(cidr("second", "10.97.0.0/16")).unwrap();
    dry(service("10.97.0.9")).unwrap();
    let options = DeleteOptions::default();
    store.delete("ServiceCIDR", "", "second", options).unwrap();
    dry(service("10.97.0.9")).unwrap_err();
}

#[test]
fn a_service_cidr_that_is_being_deleted_gives_no_new_address() {
    let store = store();
    let mut second = cidr("second", "10.97.0.0/16");
    second["metadata"]["finalizers"] = json!(["example.com/hold"]);
    store.create(second).unwrap();
    store.create(service("10.97.0.9")).unwrap();
    let options = DeleteOptions::default();
    store.delete("ServiceCIDR", "", "second", options).unwrap();
    let mut other = service("10.97.0.10");
    other["metadata"]["name"] = "other".into();
    let refused = store.create(other.clone()).unwrap_err().to_string();
    let words =
        "failed to allocate IP 10.97.0.10: the provided network does not match the current range";
    assert!(refused.ends_with(words), "{refused}");
    // Who has an address keeps it.
    let mut kept = service("10.97.0.9");
    kept["spec"]["ports"][0]["port"] = 81.into();
    store.update(kept).unwrap();
    // So it is after a start.
    let objects: Vec<_> = store.list("ServiceCIDR");
    let objects: Vec<Value> = objects.iter().map(|it| Value::clone(it)).collect();
    let allocator = admission().allocator;
    let mut restored = Admission::new(allocator, &objects, Box::new(|_| Ok(())));
    restored.admit(None, &mut other).unwrap_err();
}

#[test]
fn a_refused_service_keeps_what_it_had() {
    let store = store();
    store.create(service("10.96.0.9")).unwrap();
    let mut wrong = service("10.96.0.10");
    wrong["spec"]["ports"] = json!([]);
    store.update(wrong).unwrap_err();
    let mut other = service("10.96.0.9");
    other["metadata"]["name"] = "other".into();
    let refused = store.create(other).unwrap_err();
    let words = "failed to allocate IP 10.96.0.9: provided IP is already allocated";
    assert!(refused.to_string().ends_with(words), "{refused}");
}

#[test]
fn a_node_asks_for_a_data_plane_that_can_run() {
    let store = store();
    let refused = store.create(node("nonsense")).unwrap_err().to_string();
    assert!(
        refused.contains("metadata.annotations[sluice.dev/proxy-mode]")
            && refused.contains("no nonsense here"),
        "{refused}"
    );
    store.create(node("nftables")).unwrap();
    store.update(node("ipvs")).unwrap_err();
    // A Node from an earlier run, when the machine could run ipvs: its status can still be written.
    let old = node("ipvs");
    admission().admit(Some(&old), &mut old.clone()).unwrap();
}

#[test]
fn an_ip_address_keeps_its_address_from_services() {
    let store = store();
    let address = |name: &str, parent: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": name},
            "spec": {"parentRef": {"group": "gateway.networking.k8s.io", "resource": "gateways", "name": parent}},
        })
    };
    store.create(address("10.96.0.9", "edge")).unwrap();
    let refused = store.create(service("10.96.0.9")).unwrap_err();
    let words = "failed to allocate IP 10.96.0.9: provided IP is already allocated";
    assert!(refused.to_string().ends_with(words), "{refused}");
    let options = DeleteOptions::default;
    store
        .delete("IPAddress", "", "10.96.0.9", options())
        .unwrap();
    store.create(service("10.96.0.9")).unwrap();
    let refused = store.create(address("10.96.0.9", "edge")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "ipaddresses.networking.k8s.io \"10.96.0.9\" already exists"
    );
    for (wrong, field) in [
        (address("10.96.000.8", "edge"), "metadata.name"),
        (address("10.96.0.8", ""), "spec.parentRef.name"),
    ] {
        let refused = store.create(wrong).unwrap_err();
        assert!(refused.to_string().contains(field), "{refused}");
    }
}

#[test]
fn a_port_of_a_slice_needs_no_number() {
    let slice = |port: Value| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.244.0.9"]}], "ports": [port],
        })
    };
    let dry = |it| store().create_with(it, Effect::DryRun);
    dry(slice(json!({"name": "a"}))).unwrap();
    let refused = dry(slice(json!({"name": "A"}))).unwrap_err();
    assert!(refused.to_string().contains("ports[0].name"), "{refused}");
}

#[test]
fn a_service_that_changes_its_type_keeps_no_node_port() {
    let store = store();
    let mut web = service("10.96.0.9");
    web["spec"]["type"] = "NodePort".into();
    let created = store.create(web).unwrap();
    let mut web = Value::clone(&created);
    assert!(web["spec"]["ports"][0]["nodePort"].is_number());
    web["spec"]["type"] = "ClusterIP".into();
    let updated = store.update(web).unwrap();
    assert_eq!(updated["spec"]["ports"][0]["nodePort"], Value::Null);
    assert_eq!(updated["spec"]["externalTrafficPolicy"], Value::Null);
}

/// Kubernetes' own test of a Service's life writes such a condition.
#[test]
fn a_condition_needs_no_time() {
    let store = store();
    let made = store.create(service("10.96.0.9")).unwrap();
    let mut web = Value::clone(&made);
    let condition = json!({"type": "Ready", "status": "True", "reason": "r", "message": "", "lastTransitionTime": null});
    web["status"]["conditions"] = json!([condition]);
    web["metadata"]["annotations"] = json!({"a": "b"});
    let told = store.update_status(web).unwrap();
    let mut web = Value::clone(&told);
    web["spec"]["ports"][0]["port"] = 81.into();
    let changed = store.update(web).unwrap();
    assert_eq!(changed["spec"]["ports"][0]["port"], 81);
    assert_eq!(changed["status"]["conditions"], json!([condition]));
}

#[test]
fn a_status_is_written_whatever_the_rest_is_by_now() {
    let mut admission = admission();
    // A Service of an earlier version: the name of its port is not allowed any more.
    let mut old = service("10.96.0.9");
    old["spec"]["ports"][0]["name"] = "Not_A_Name".into();
    let ingress = |ip: &str| {
        let mut new = old.clone();
        new["status"] = json!({"loadBalancer": {"ingress": [{"ip": ip}]}});
        new["metadata"]["managedFields"] = json!([{"manager": "m"}]);
        new
    };
    let mut new = ingress("192.0.2.1");
    let written = new.clone();
    admission.admit(Some(&old), &mut new).unwrap();
    assert_eq!(new, written);
    let mut spec = ingress("192.0.2.1");
    spec["spec"]["ports"][0]["port"] = 81.into();
    admission.admit(Some(&old), &mut spec).unwrap_err();
}

#[test]
fn nodes_have_the_architecture_by_its_name_in_go() {
    let names = ["x86_64", "aarch64", "riscv64"].map(architecture);
    assert_eq!(names, ["amd64", "arm64", "riscv64"]);
    let stored = store().create(node("nftables")).unwrap();
    let label = &stored["metadata"]["labels"]["kubernetes.io/arch"];
    assert_eq!(*label, architecture(std::env::consts::ARCH));
}
