//! Examples of StatefulSets.

use serde_json::{Value, json};

use super::manifests::stateful_set;
use super::simulator::Simulator;

fn images(simulator: &Simulator) -> Vec<String> {
    let pods = simulator.active("db-").into_iter();
    let images = pods.map(|it| {
        it.spec.as_ref().unwrap().containers[0]
            .image
            .clone()
            .unwrap()
    });
    images.map(|it| it.replace("image:", "")).collect()
}

fn running(spec: &Value) -> Simulator {
    let mut simulator = Simulator::new(2);
    assert_eq!(simulator.apply(stateful_set("db", "1", spec)), [""; 0]);
    simulator.settle(15);
    simulator
}

#[test]
fn pods_come_and_go_in_order() {
    let mut simulator = Simulator::new(2);
    simulator.apply(stateful_set("db", "1", &json!({"replicas": 3})));
    simulator.rest();
    assert_eq!(simulator.names("db-"), ["db-0"]);
    simulator.settle(15);
    assert_eq!(simulator.names("db-"), ["db-0", "db-1", "db-2"]);
    simulator.apply(stateful_set("db", "1", &json!({"replicas": 1})));
    simulator.rest();
    assert_eq!(simulator.names("db-"), ["db-0", "db-1"]);
    simulator.settle(5);
    assert_eq!(simulator.names("db-"), ["db-0"]);
}

/// While two pods are not ready, scaling down waits for the lower ordinal.
#[test]
fn scaling_down_waits_for_other_pods() {
    let mut simulator = running(&json!({"replicas": 4}));
    simulator.delays.0 = 10_000;
    for name in ["db-2", "db-3"] {
        simulator.make_unready(&("ns".to_owned(), name.to_owned()));
    }
    simulator.apply(stateful_set("db", "1", &json!({"replicas": 1})));
    simulator.rest();
    assert_eq!(simulator.names("db-").len(), 4);
    simulator.delays.0 = 0;
    simulator.settle(10);
    assert_eq!(simulator.names("db-"), ["db-0"]);
}

#[test]
fn parallel_pods_come_and_go_at_once() {
    let spec = |replicas| json!({"replicas": replicas, "podManagementPolicy": "Parallel"});
    let mut simulator = Simulator::new(2);
    simulator.apply(stateful_set("db", "1", &spec(3)));
    simulator.rest();
    assert_eq!(simulator.names("db-").len(), 3);
    simulator.apply(stateful_set("db", "1", &spec(1)));
    simulator.rest();
    assert_eq!(simulator.names("db-"), ["db-0"]);
}

#[test]
fn pods_have_stable_names_and_labels() {
    let simulator = running(&json!({"serviceName": "dbs", "ordinals": {"start": 5}}));
    let pod = simulator
        .pods
        .get("ns", "db-5")
        .expect("the first number is 5");
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("db-5"));
    assert_eq!(spec.subdomain.as_deref(), Some("dbs"));
    let labels = pod.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-5");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "5");
    let set = simulator.stateful_sets.get("ns", "db").unwrap();
    let revision = set.status.as_ref().unwrap().update_revision.clone();
    assert_eq!(Some(&labels["controller-revision-hash"]), revision.as_ref());
    assert_eq!(simulator.revisions.all()[0].metadata.name, revision);
}

#[test]
fn updates_go_from_the_highest_number_to_the_partition() {
    let spec = |partition| json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}}});
    let mut simulator = running(&spec(0));
    simulator.apply(stateful_set("db", "2", &spec(1)));
    simulator.rest();
    assert_eq!(simulator.names("db-"), ["db-0", "db-1"]);
    simulator.settle(20);
    assert_eq!(images(&simulator), ["1", "2", "2"]);
    let key = ("ns".to_owned(), "db-0".to_owned());
    simulator.kill(&key);
    simulator.settle(10);
    assert_eq!(
        images(&simulator),
        ["1", "2", "2"],
        "below the partition the old template stays"
    );
    simulator.apply(stateful_set("db", "2", &spec(0)));
    simulator.settle(10);
    assert_eq!(images(&simulator), ["2", "2", "2"]);
}

#[test]
fn on_delete_waits_for_a_person() {
    let spec = json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}});
    let mut simulator = running(&spec);
    simulator.apply(stateful_set("db", "2", &spec));
    simulator.settle(10);
    assert_eq!(images(&simulator), ["1", "1"]);
    simulator.kill(&("ns".to_owned(), "db-0".to_owned()));
    simulator.settle(10);
    assert_eq!(images(&simulator), ["2", "1"]);
}

#[test]
fn max_unavailable_pods_are_replaced_at_once() {
    let rolling = json!({"maxUnavailable": "50%"});
    let spec = json!({"replicas": 4, "podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": rolling}});
    let mut simulator = running(&spec);
    simulator.apply(stateful_set("db", "2", &spec));
    simulator.rest();
    assert_eq!(simulator.names("db-"), ["db-0", "db-1"]);
}

#[test]
fn history_is_limited_and_old_revisions_come_back() {
    let spec = json!({"revisionHistoryLimit": 1});
    let mut simulator = running(&spec);
    for version in ["2", "3", "4", "3"] {
        simulator.apply(stateful_set("db", version, &spec));
        simulator.settle(10);
    }
    let mut numbers: Vec<_> = simulator
        .revisions
        .all()
        .iter()
        .map(|it| it.revision)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [4, 5]);
    assert_eq!(images(&simulator), ["3"]);
}

#[test]
fn adopted_pods_get_the_labels_of_their_number() {
    let mut simulator = Simulator::new(1);
    let mut pod = super::manifests::pod("db-0", &json!({}));
    pod.metadata.labels = Some([("app".to_owned(), "db".to_owned())].into());
    simulator.apply(pod);
    simulator.settle(3);
    let spec = json!({"updateStrategy": {"type": "OnDelete"}});
    simulator.apply(stateful_set("db", "1", &spec));
    simulator.settle(3);
    let pod = simulator.pods.get("ns", "db-0").unwrap();
    let labels = pod.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "0");
    assert_eq!(
        pod.metadata.owner_references.as_ref().unwrap()[0].name,
        "db"
    );
}

/// A pod of a person with the name is not the StatefulSet's, and stays.
#[test]
fn a_taken_name_is_waited_for() {
    let mut simulator = Simulator::new(1);
    let foreign = super::manifests::foreign_pod("db-0", "db", "n0");
    simulator.apply(foreign);
    simulator.apply(stateful_set("db", "1", &json!({})));
    simulator.settle(5);
    assert_eq!(simulator.pods.all().len(), 1);
    simulator.pods.remove(&("ns".to_owned(), "db-0".to_owned()));
    simulator.settle(5);
    let status = simulator
        .stateful_sets
        .get("ns", "db")
        .unwrap()
        .status
        .clone();
    assert_eq!(status.unwrap().ready_replicas, Some(1));
}

#[test]
fn each_pod_has_claims_of_its_own() {
    let mut simulator = Simulator::new(1);
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let set = stateful_set(
        "db",
        "1",
        &json!({"replicas": 2, "volumeClaimTemplates": claims}),
    );
    simulator.apply(set);
    simulator.calm();
    let pods = simulator.pods.all();
    let claims = pods.iter().map(|it| {
        let volume = &it.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0];
        let claim = volume.persistent_volume_claim.as_ref().unwrap();
        format!("{}={}", volume.name, claim.claim_name)
    });
    let claims: Vec<String> = claims.collect();
    assert_eq!(claims, ["data=data-db-0", "data=data-db-1"]);
}

#[test]
fn claims_stay_or_go_as_the_policy_says() {
    for (deleted, scaled, after_start, after_scaling) in [
        ("Retain", "Retain", "", ""),
        ("Delete", "Retain", "StatefulSet", "StatefulSet"),
        ("Retain", "Delete", "", "Pod"),
        ("Delete", "Delete", "StatefulSet", "Pod"),
    ] {
        let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let spec = |replicas: usize| {
            json!({
                "replicas": replicas, "persistentVolumeClaimRetentionPolicy": policy,
                "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": claim}],
            })
        };
        let mut simulator = running(&spec(2));
        let owner = |simulator: &Simulator| {
            let claim = simulator.claims.get("ns", "data-db-1").unwrap();
            let owners = claim.metadata.owner_references.iter().flatten();
            let kinds: Vec<_> = owners.map(|it| it.kind.clone()).collect();
            kinds.join(" ")
        };
        assert_eq!(simulator.claims.all().len(), 2);
        let labels = simulator.claims.all()[0].metadata.labels.clone().unwrap();
        assert_eq!(json!(labels), json!({"a": "b", "app": "db"}));
        assert_eq!(owner(&simulator), after_start, "{policy}");
        // The pod refuses to end: its claim waits with it.
        simulator.delays.1 = 10_000;
        simulator.apply(stateful_set("db", "1", &spec(1)));
        simulator.settle(5);
        assert_eq!(owner(&simulator), after_scaling, "{policy}");
        let message = "create Claim data-db-1 Pod db-1 in StatefulSet db success";
        assert!(simulator.events.iter().any(|(_, it)| it == message));
    }
}
