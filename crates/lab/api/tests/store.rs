//! The store as the controllers of a process use it.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sluice_api::{
    Admission, Change, DeleteOptions, Effect, Journal, Propagation, Settings, Status, Store,
};

fn store() -> Arc<Store> {
    Store::new(Settings::default())
}

fn object(kind: &str, name: &str, rest: &Value) -> Value {
    let api_version = match kind {
        "Deployment" | "ReplicaSet" => "apps/v1",
        _ => "v1",
    };
    let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": {"name": name}});
    // What the kind requires.
    let containers = json!([{"name": "c", "image": "i"}]);
    match kind {
        "Pod" => object["spec"] = json!({"containers": containers}),
        "Deployment" | "ReplicaSet" => {
            let template = json!({"spec": {"containers": containers}});
            object["spec"] = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        }
        _ => {}
    }
    for (field, value) in rest.as_object().unwrap() {
        if field == "metadata" || field == "spec" {
            for (name, value) in value.as_object().unwrap() {
                object[field][name] = value.clone();
            }
        } else {
            object[field] = value.clone();
        }
    }
    object
}

fn pod(name: &str, rest: &Value) -> Value {
    object("Pod", name, rest)
}

fn owned_by(owner: &Value) -> Value {
    json!({"metadata": {"ownerReferences": [{
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }]}})
}

fn refused<T: std::fmt::Debug>(result: Result<T, Status>) -> String {
    let status = result.unwrap_err();
    format!("{} {status}", status.code.as_u16())
}

fn names(store: &Store, kind: &str) -> Vec<String> {
    let objects = store.list(kind);
    let name = |it: &Arc<Value>| it["metadata"]["name"].as_str().unwrap().to_owned();
    objects.iter().map(name).collect()
}

#[test]
fn the_store_adds_what_is_its_own() {
    let store = store();
    let spec = json!({"spec": {"containers": [{"name": "a", "image": "i", "resources": {"limits": {"cpu": 2}}}]}});
    let created = store.create(pod("p", &spec)).unwrap();
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["status"]["phase"], "Pending");
    assert_eq!(
        created["spec"]["containers"][0]["resources"]["limits"]["cpu"],
        "2"
    );
    let version = store.revision();
    // The same again is no write.
    assert_eq!(store.update(Value::clone(&created)).unwrap(), created);
    assert_eq!(store.revision(), version);
    let mut changed = Value::clone(&created);
    changed["spec"]["nodeName"] = "n".into();
    changed["status"]["phase"] = "Running".into();
    changed["metadata"]["uid"] = Value::Null;
    let stored = store.update(changed).unwrap();
    assert_eq!(stored["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(stored["metadata"]["generation"], 2);
    assert_eq!(stored["status"]["phase"], "Pending");
    let mut status = Value::clone(&stored);
    status["status"] = json!({"phase": "Running"});
    status["spec"]["nodeName"] = "other".into();
    let stored = store.update_status(status).unwrap();
    assert_eq!(stored["status"]["phase"], "Running");
    assert_eq!(stored["spec"]["nodeName"], "n");
    assert_eq!(stored["metadata"]["generation"], 2);
    assert_eq!(store.get("Pod", "default", "p").unwrap(), stored);
}

#[test]
fn names_are_generated() {
    let store = store();
    let mut unnamed = pod("", &json!({"metadata": {"generateName": "web-"}}));
    unnamed["metadata"].as_object_mut().unwrap().remove("name");
    for _ in 0..3 {
        store.create(unnamed.clone()).unwrap();
    }
    for name in names(&store, "Pod") {
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    }
    assert_eq!(store.list("Pod").len(), 3);
}

#[test]
fn what_is_wrong_is_named() {
    let store = store();
    store.create(pod("p", &json!({}))).unwrap();
    let of = |namespace: &str| json!({"metadata": {"namespace": namespace}});
    for (object, expect) in [
        (json!([]), "400 the object has no metadata"),
        (
            json!({"metadata": {}}),
            "400 no kind \"\" is registered for version \"\"",
        ),
        (
            object("Job", "a", &json!({})),
            "400 no kind \"Job\" is registered for version \"v1\"",
        ),
        (pod("p", &json!({})), "409 pods \"p\" already exists"),
        (pod("p", &of("x")), "404 namespaces \"x\" not found"),
        (
            object("Node", "n", &of("x")),
            "400 a Node has no namespace, yet metadata.namespace is set",
        ),
        (
            pod("", &json!({})),
            "422 Pod \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            pod(
                "a",
                &json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": "80"}]}]}}),
            ),
            "400 Pod in version \"v1\" cannot be handled as a Pod: \
             json: cannot unmarshal string into Go struct field \
             ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            pod("a", &json!({"metadata": {"resourceVersion": "1"}})),
            "500 resourceVersion should not be set on objects to be created",
        ),
    ] {
        assert_eq!(refused(store.create(object)), expect);
    }
    let bad = ["A", "a.b.", "-a", &"a".repeat(254)];
    for name in bad {
        let error = refused(store.create(pod(name, &json!({}))));
        assert!(error.contains("metadata.name: Invalid value"), "{error}");
    }
    for (kind, name) in [("Service", "-a"), ("Service", "a.b"), ("Namespace", "a.b")] {
        let error = refused(store.create(object(kind, name, &json!({}))));
        assert!(error.contains("metadata.name: Invalid value"), "{error}");
    }
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"nodeName": "n"}});
    assert!(refused(store.update(pod("p", &stale))).contains("the object has been modified"));
    let other = json!({"metadata": {"uid": "other"}});
    assert!(refused(store.update(pod("p", &other))).contains("Precondition failed: UID"));
    assert_eq!(
        refused(store.update(pod("q", &json!({})))),
        "404 pods \"q\" not found"
    );
    let gone = store.delete("Pod", "default", "q", DeleteOptions::default());
    assert_eq!(refused(gone), "404 pods \"q\" not found");
}

#[test]
fn pods_go_gracefully() {
    let store = store();
    let delete = |name: &str, grace| {
        let options = DeleteOptions {
            grace,
            ..DeleteOptions::default()
        };
        store.delete("Pod", "default", name, options)
    };
    store.create(pod("free", &json!({}))).unwrap();
    delete("free", None).unwrap();
    assert!(store.get("Pod", "default", "free").is_none());
    let spec = json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 7}});
    store.create(pod("p", &spec)).unwrap();
    let marked = delete("p", None).unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 7);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    // Later requests only shorten the time.
    assert_eq!(delete("p", Some(9)).unwrap(), marked);
    assert_eq!(
        delete("p", Some(3)).unwrap()["metadata"]["deletionGracePeriodSeconds"],
        3
    );
    let mut status = Value::clone(&store.get("Pod", "default", "p").unwrap());
    status["status"]["phase"] = "Running".into();
    store.update_status(status).unwrap();
    let version = store.revision();
    delete("p", Some(0)).unwrap();
    assert!(store.get("Pod", "default", "p").is_none());
    assert_eq!(store.revision(), version + 1);
}

#[test]
fn finalizers_hold() {
    let store = store();
    let held = json!({"metadata": {"finalizers": ["a/b"]}});
    store.create(object("ConfigMap", "c", &held)).unwrap();
    let marked = store
        .delete("ConfigMap", "default", "c", DeleteOptions::default())
        .unwrap();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let mut free = Value::clone(&marked);
    free["metadata"]["finalizers"] = json!([]);
    store.update(free).unwrap();
    assert!(store.get("ConfigMap", "default", "c").is_none());
}

/// The garbage collector's finalizers say what happens to dependents when the request does not, and then go.
#[test]
fn finalizers_of_the_garbage_collector_go() {
    let (foreground, orphan) = ("foregroundDeletion", "orphan");
    for (finalizer, propagation, expect) in [
        (foreground, Propagation::Unspecified, vec![]),
        (foreground, Propagation::Background, vec![]),
        (foreground, Propagation::Foreground, vec![]),
        (foreground, Propagation::Orphan, vec!["p"]),
        (orphan, Propagation::Unspecified, vec!["p"]),
        (orphan, Propagation::Background, vec![]),
        (orphan, Propagation::Foreground, vec![]),
        (orphan, Propagation::Orphan, vec!["p"]),
    ] {
        let store = store();
        let held = json!({"metadata": {"finalizers": [finalizer]}});
        let owner = store.create(object("ReplicaSet", "r", &held)).unwrap();
        store.create(pod("p", &owned_by(&owner))).unwrap();
        let options = DeleteOptions {
            propagation,
            ..DeleteOptions::default()
        };
        store.delete("ReplicaSet", "default", "r", options).unwrap();
        assert!(names(&store, "ReplicaSet").is_empty(), "{finalizer}");
        assert_eq!(names(&store, "Pod"), expect, "{finalizer} {propagation:?}");
    }
    // Another finalizer stays.
    let store = store();
    let all = json!({"metadata": {"finalizers": [orphan, "a/b"]}});
    store.create(object("ConfigMap", "c", &all)).unwrap();
    let delete = || store.delete("ConfigMap", "default", "c", DeleteOptions::default());
    assert_eq!(delete().unwrap()["metadata"]["finalizers"], json!(["a/b"]));
    // A namespace ends with them.
    store.create(object("Namespace", "n", &json!({}))).unwrap();
    for (name, finalizer) in [("d", foreground), ("e", orphan)] {
        let of = json!({"metadata": {"namespace": "n", "finalizers": [finalizer]}});
        store.create(object("ConfigMap", name, &of)).unwrap();
    }
    store
        .delete("Namespace", "", "n", DeleteOptions::default())
        .unwrap();
    assert!(store.get("Namespace", "", "n").is_none());
}

#[test]
fn dependents_follow_their_owner() {
    for (propagation, expect) in [
        (Propagation::Background, vec!["shared"]),
        (Propagation::Foreground, vec!["shared"]),
        (Propagation::Orphan, vec!["own", "shared"]),
    ] {
        let store = store();
        let first = store
            .create(object("ReplicaSet", "r1", &json!({})))
            .unwrap();
        let second = store
            .create(object("ReplicaSet", "r2", &json!({})))
            .unwrap();
        store.create(pod("own", &owned_by(&first))).unwrap();
        let mut both = owned_by(&first);
        let mut other = owned_by(&second)["metadata"]["ownerReferences"][0].clone();
        // Only one owner controls.
        other["controller"] = false.into();
        both["metadata"]["ownerReferences"]
            .as_array_mut()
            .unwrap()
            .push(other);
        store.create(pod("shared", &both)).unwrap();
        let options = DeleteOptions {
            propagation,
            ..DeleteOptions::default()
        };
        store
            .delete("ReplicaSet", "default", "r1", options)
            .unwrap();
        assert_eq!(names(&store, "Pod"), expect);
        assert_eq!(names(&store, "ReplicaSet"), ["r2"]);
        let shared = store.get("Pod", "default", "shared").unwrap();
        let owners = &shared["metadata"]["ownerReferences"];
        assert_eq!(owners.as_array().unwrap().len(), 1);
        assert_eq!(owners[0]["name"], "r2");
        // One that comes too late goes as well.
        store.create(pod("late", &owned_by(&first))).unwrap();
        assert!(store.get("Pod", "default", "late").is_none());
    }
}

#[test]
fn foreground_waits_for_graceful_pods() {
    let store = store();
    let owner = store.create(object("ReplicaSet", "r", &json!({}))).unwrap();
    let mut child = owned_by(&owner);
    child["spec"] = json!({"nodeName": "n"});
    store.create(pod("p", &child)).unwrap();
    let options = DeleteOptions {
        propagation: Propagation::Foreground,
        ..DeleteOptions::default()
    };
    store.delete("ReplicaSet", "default", "r", options).unwrap();
    assert_eq!(names(&store, "ReplicaSet"), ["r"]);
    let now = DeleteOptions {
        grace: Some(0),
        ..DeleteOptions::default()
    };
    store.delete("Pod", "default", "p", now).unwrap();
    assert!(names(&store, "ReplicaSet").is_empty());
}

/// A Deployment `d`, its ReplicaSet `r`, and a Pod `p` on a node; `d` is deleted with `--cascade=foreground`.
fn three_levels() -> std::sync::Arc<Store> {
    let store = store();
    let top = store.create(object("Deployment", "d", &json!({}))).unwrap();
    let middle = object("ReplicaSet", "r", &owned_by(&top));
    let middle = store.create(middle).unwrap();
    let mut child = owned_by(&middle);
    child["spec"] = json!({"nodeName": "n"});
    store.create(pod("p", &child)).unwrap();
    delete_foreground(&store, "Deployment", "d");
    store
}

fn delete_foreground(store: &Store, kind: &str, name: &str) {
    let options = DeleteOptions {
        propagation: Propagation::Foreground,
        ..DeleteOptions::default()
    };
    store.delete(kind, "default", name, options).unwrap();
}

#[test]
fn foreground_waits_over_every_level() {
    let store = three_levels();
    for (kind, name) in [("Deployment", "d"), ("ReplicaSet", "r")] {
        let owner = store.get(kind, "default", name).unwrap();
        assert_eq!(
            owner["metadata"]["finalizers"],
            json!(["foregroundDeletion"]),
            "{kind}"
        );
        assert!(owner["metadata"]["deletionTimestamp"].is_string(), "{kind}");
    }
    assert!(store.get("Pod", "default", "p").unwrap()["metadata"]["deletionTimestamp"].is_string());
    let now = DeleteOptions {
        grace: Some(0),
        ..DeleteOptions::default()
    };
    store.delete("Pod", "default", "p", now).unwrap();
    assert!(names(&store, "ReplicaSet").is_empty());
    assert!(names(&store, "Deployment").is_empty());
}

#[test]
fn only_a_dependent_that_blocks_is_waited_for() {
    let store = three_levels();
    // The Pod lets its owner go, which then has nothing left to wait for.
    let mut pod = Value::clone(&store.get("Pod", "default", "p").unwrap());
    pod["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = false.into();
    store.update(pod).unwrap();
    assert!(names(&store, "ReplicaSet").is_empty());
    assert!(names(&store, "Deployment").is_empty());
    assert_eq!(names(&store, "Pod"), ["p"]);
}

#[test]
fn objects_that_own_each_other_go() {
    let store = store();
    let first = store.create(object("ConfigMap", "a", &json!({}))).unwrap();
    let second = store
        .create(object("ConfigMap", "b", &owned_by(&first)))
        .unwrap();
    let mut circular = Value::clone(&first);
    let owners = owned_by(&second)["metadata"]["ownerReferences"].clone();
    circular["metadata"]["ownerReferences"] = owners;
    store.update(circular).unwrap();
    delete_foreground(&store, "ConfigMap", "a");
    assert!(names(&store, "ConfigMap").is_empty());
}

/// The namespaces of every cluster.
const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

#[test]
fn namespaces_go_when_empty() {
    let store = store();
    assert_eq!(names(&store, "Namespace"), SYSTEM);
    store.create(object("Namespace", "n", &json!({}))).unwrap();
    let here = json!({"metadata": {"namespace": "n"}, "spec": {"nodeName": "x"}});
    store.create(pod("p", &here)).unwrap();
    let rest = json!({"metadata": {"namespace": "n"}});
    store.create(object("ConfigMap", "c", &rest)).unwrap();
    let ending = store
        .delete("Namespace", "", "n", DeleteOptions::default())
        .unwrap();
    assert_eq!(ending["status"]["phase"], "Terminating");
    // Pods go first.
    assert!(store.get("ConfigMap", "n", "c").is_some());
    let error = refused(store.create(object("ConfigMap", "d", &rest)));
    assert!(error.contains("because it is being terminated"), "{error}");
    let now = DeleteOptions {
        grace: Some(0),
        ..DeleteOptions::default()
    };
    store.delete("Pod", "n", "p", now).unwrap();
    assert_eq!(names(&store, "Namespace"), SYSTEM);
    let error = refused(store.delete("Namespace", "", "default", DeleteOptions::default()));
    assert_eq!(
        error,
        "403 namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
}

#[test]
fn history_is_bounded_by_bytes_and_the_largest_kind_pays() {
    let store = store();
    let before = store.revision();
    store.create(pod("small", &json!({}))).unwrap();
    let large =
        |number: usize| json!({"data": {"text": number.to_string() + &"x".repeat((1 << 20) - 10)}});
    store.create(object("ConfigMap", "c", &large(0))).unwrap();
    for number in 1..40 {
        store
            .update(object("ConfigMap", "c", &large(number)))
            .unwrap();
    }
    assert!(
        store.changes_since(before).is_err(),
        "40 MiB of ConfigMaps are not kept"
    );
    let last = store.changes_since(store.revision() - 10).unwrap();
    assert_eq!(last.len(), 10);
    let pods = store.history().of_kind("v1", "Pod").unwrap();
    let state = store.history().lock();
    assert_eq!(state.collection(&pods).since(before).unwrap().count(), 1);
}

#[test]
fn old_events_go() {
    let store = store();
    for number in 0..1_010 {
        let name = format!("e{number}");
        store.create(object("Event", &name, &json!({}))).unwrap();
    }
    assert_eq!(store.list("Event").len(), 1_000);
    assert!(store.get("Event", "default", "e9").is_none());
    assert!(store.get("Event", "default", "e10").is_some());
    // One that is counted again is young, and takes no other's place.
    let mut again = Value::clone(&store.get("Event", "default", "e10").unwrap());
    again["count"] = 2.into();
    store.update(again).unwrap();
    assert_eq!(store.list("Event").len(), 1_000);
    store.create(object("Event", "last", &json!({}))).unwrap();
    assert!(store.get("Event", "default", "e10").is_some());
    assert!(store.get("Event", "default", "e11").is_none());
}

#[test]
fn only_a_change_wakes() {
    let store = store();
    let created = store.create(pod("p", &json!({}))).unwrap();
    let wake = store.subscribe();
    refused(store.create(pod("p", &json!({}))));
    store
        .create_with(pod("dry", &json!({})), Effect::DryRun)
        .unwrap();
    store.update(Value::clone(&created)).unwrap();
    assert!(!wake.has_changed().unwrap());
    store.create(pod("q", &json!({}))).unwrap();
    assert!(wake.has_changed().unwrap());
}

#[test]
fn changes_come_in_order() {
    let store = store();
    let start = store.revision();
    let mut wake = store.subscribe();
    store.create(pod("p", &json!({}))).unwrap();
    store.create(object("Node", "n", &json!({}))).unwrap();
    store
        .delete("Pod", "default", "p", DeleteOptions::default())
        .unwrap();
    assert!(wake.has_changed().unwrap());
    wake.mark_unchanged();
    let short = |it: &Change| {
        let kind = it.new.as_ref().or(it.old.as_ref()).unwrap()["kind"].clone();
        format!(
            "{} {} {}",
            kind.as_str().unwrap(),
            it.old.is_some(),
            it.new.is_some()
        )
    };
    let changes = store.changes_since(start).unwrap();
    let changes: Vec<_> = changes.iter().map(short).collect();
    assert_eq!(
        changes,
        ["Pod false true", "Node false true", "Pod true false"]
    );
    assert!(store.changes_since(store.revision()).unwrap().is_empty());
    let small = Store::new(Settings {
        history: 1,
        ..Settings::default()
    });
    small.create(pod("a", &json!({}))).unwrap();
    small.create(pod("b", &json!({}))).unwrap();
    assert!(small.changes_since(0).is_err());
}

/// Numbers Services; gives the number back.
#[derive(Clone, Default)]
struct Numbers(Arc<Mutex<Vec<String>>>);

impl Admission for Numbers {
    fn admit(&mut self, _: Option<&Value>, new: &mut Value) -> Result<(), Status> {
        if new["metadata"]["name"] == "no" {
            return Err(Status::bad_request("not this one"));
        }
        new["metadata"]["annotations"] = json!({"seen": "yes"});
        Ok(())
    }

    fn abandoned(&mut self, _: Option<&Value>, new: &Value) {
        self.0
            .lock()
            .unwrap()
            .push(format!("abandoned {}", new["metadata"]["name"]));
    }

    fn deleted(&mut self, old: &Value) {
        self.0
            .lock()
            .unwrap()
            .push(format!("deleted {}", old["metadata"]["name"]));
    }
}

/// A disk that can be full.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<(Vec<Change>, bool)>>);

impl Journal for Disk {
    fn write(&mut self, change: &Change) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        if disk.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.0.push(change.clone());
        Ok(())
    }
}

#[test]
fn admission_and_journal_take_part() {
    let (numbers, disk) = (Numbers::default(), Disk::default());
    let store = Store::new(Settings {
        admission: Box::new(numbers.clone()),
        journal: Some(Box::new(disk.clone())),
        ..Settings::default()
    });
    assert_eq!(
        refused(store.create(pod("no", &json!({})))),
        "400 not this one"
    );
    assert!(disk.0.lock().unwrap().0.is_empty());
    let dry = store
        .create_with(pod("dry", &json!({})), Effect::DryRun)
        .unwrap();
    assert_eq!(dry["metadata"]["annotations"]["seen"], "yes");
    assert!(store.list("Pod").is_empty());
    let replicas = store.create(object("ReplicaSet", "r", &json!({}))).unwrap();
    store.create(pod("p", &owned_by(&replicas))).unwrap();
    // The namespaces came first.
    assert_eq!(disk.0.lock().unwrap().0.len(), SYSTEM.len() + 2);
    disk.0.lock().unwrap().1 = true;
    let version = store.revision();
    let error = refused(store.create(pod("q", &json!({}))));
    assert!(
        error.starts_with("500 Internal error occurred: the change could not be kept: "),
        "{error}"
    );
    assert_eq!(store.revision(), version);
    disk.0.lock().unwrap().1 = false;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    store.create(object("ReplicaSet", "f", &held)).unwrap();
    let ending = store.delete("ReplicaSet", "default", "f", DeleteOptions::default());
    let mut ending = Value::clone(&ending.unwrap());
    ending["metadata"]["finalizers"] = Value::Null;
    disk.0.lock().unwrap().1 = true;
    refused(store.update(ending));
    disk.0.lock().unwrap().1 = false;
    store
        .delete("ReplicaSet", "default", "r", DeleteOptions::default())
        .unwrap();
    let told = numbers.0.lock().unwrap().clone();
    assert_eq!(
        told,
        [
            "abandoned \"dry\"",
            "abandoned \"q\"",
            "abandoned \"f\"",
            "deleted \"r\"",
            "deleted \"p\""
        ]
    );
}

#[test]
fn a_store_goes_on_where_it_ended() {
    let disk = Disk::default();
    let first = Store::new(Settings {
        journal: Some(Box::new(disk.clone())),
        ..Settings::default()
    });
    let replicas = first.create(object("ReplicaSet", "r", &json!({}))).unwrap();
    first.create(pod("p", &owned_by(&replicas))).unwrap();
    let kept = disk.0.lock().unwrap().0.clone();
    let objects = kept.iter().map(|it| Value::clone(it.new.as_ref().unwrap()));
    let second = store();
    second.restore(objects.collect(), first.revision()).unwrap();
    assert_eq!(second.revision(), first.revision());
    for kind in ["Namespace", "ReplicaSet", "Pod"] {
        assert_eq!(second.list(kind), first.list(kind));
    }
    second
        .delete("ReplicaSet", "default", "r", DeleteOptions::default())
        .unwrap();
    assert!(second.list("Pod").is_empty());
    assert!(second.changes_since(0).is_err());
}
