//! Examples of ReplicaSets.

use jiff::ToSpan as _;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::manifests::{deployment, pod, replica_set};
use super::simulator::Simulator;
use super::store::key;
use crate::workloads::Failure;

fn labelled(name: &str) -> Pod {
    let mut pod = pod(name, &json!({}));
    pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    pod
}

fn owner(simulator: &Simulator, pod: &str) -> Option<String> {
    let pod = simulator.pods.get("ns", pod).unwrap();
    let owner = pod.metadata.owner_references.as_ref()?.first()?;
    Some(owner.name.clone())
}

#[test]
fn failed_and_deleted_pods_are_replaced() {
    let mut simulator = Simulator::new(2);
    simulator.apply(replica_set("web", &json!({"replicas": 3})));
    simulator.settle(5);
    let names = simulator.names("web");
    simulator.kill(&("ns".to_owned(), names[0].clone()));
    simulator.fail(&("ns".to_owned(), names[1].clone()));
    simulator.settle(5);
    let now = simulator.names("web");
    assert_eq!(now.len(), 3);
    assert!(!now.contains(&names[0]) && !now.contains(&names[1]) && now.contains(&names[2]));
    let status = simulator.replica_sets.all()[0].status.clone().unwrap();
    assert_eq!((status.replicas, status.ready_replicas), (3, Some(3)));
}

#[test]
fn pods_without_controller_are_adopted_and_those_that_differ_are_released() {
    let mut simulator = Simulator::new(1);
    simulator.apply(labelled("mine"));
    simulator.apply(replica_set("web", &json!({"replicas": 2})));
    simulator.settle(5);
    assert_eq!(owner(&simulator, "mine").as_deref(), Some("web"));
    assert_eq!(simulator.names("").len(), 2);
    let mine = ("ns".to_owned(), "mine".to_owned());
    simulator.edit_pod(&mine, |it| it.metadata.labels = None);
    simulator.settle(5);
    assert_eq!(owner(&simulator, "mine"), None);
    assert_eq!(simulator.names("web").len(), 2);
}

/// Foreground deletion: the ReplicaSet waits until its pods are deleted.
#[test]
fn a_replica_set_that_ends_takes_no_more_pods() {
    let mut simulator = Simulator::new(1);
    simulator.apply(replica_set("web", &json!({"replicas": 1})));
    simulator.settle(5);
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(simulator.now);
    let set = ("ns".to_owned(), "web".to_owned());
    simulator
        .replica_sets
        .edit(&set, 1000, |it| it.metadata.deletion_timestamp = Some(now));
    simulator.apply(labelled("mine"));
    simulator.kill(&("ns".to_owned(), simulator.names("web")[0].clone()));
    simulator.settle(5);
    assert_eq!(simulator.names(""), ["mine"]);
    assert_eq!(owner(&simulator, "mine"), None);
}

/// The pod that is deleted of two. In each line it is the first.
#[test]
fn which_pods_go_first() {
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    type Change = fn(&mut Pod, &str);
    let table: &[(&str, Change)] = &[
        ("not assigned", |it, _| {
            it.spec.as_mut().unwrap().node_name = None
        }),
        ("pending", |it, _| {
            it.status.as_mut().unwrap().phase = Some("Pending".to_owned())
        }),
        ("unknown", |it, _| {
            it.status.as_mut().unwrap().phase = Some("Unknown".to_owned())
        }),
        ("not ready", |it, _| {
            it.status
                .as_mut()
                .unwrap()
                .conditions
                .as_mut()
                .unwrap()
                .retain(|it| it.type_ != "Ready");
        }),
        ("cheap", |it, cost| {
            it.metadata.annotations = Some([(cost.to_owned(), "-5".to_owned())].into());
        }),
        ("restarted", |it, _| {
            let status = json!({"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 3});
            let status = serde_json::from_value(status).unwrap();
            it.status.as_mut().unwrap().container_statuses = Some(vec![status]);
        }),
        ("young", |it, _| {
            let created = it.metadata.creation_timestamp.as_mut().unwrap();
            created.0 = "2025-12-31T23:59:59Z".parse().unwrap();
        }),
    ];
    for (reason, change) in table {
        for victim in 0..2 {
            let mut simulator = Simulator::new(2);
            simulator.apply(replica_set("web", &json!({"replicas": 2})));
            simulator.settle(5);
            let keys: Vec<_> = simulator
                .active("web")
                .iter()
                .map(|it| key(&it.metadata))
                .collect();
            for key in &keys {
                let created = "2025-01-01T00:00:00Z".parse().unwrap();
                simulator.edit_pod(key, |it| {
                    it.metadata.creation_timestamp.as_mut().unwrap().0 = created
                });
            }
            simulator.edit_pod(&keys[victim], |it| change(it, cost));
            simulator.apply(replica_set("web", &json!({"replicas": 1})));
            simulator.rest();
            assert_eq!(
                simulator.names("web"),
                [keys[1 - victim].1.clone()],
                "{reason}"
            );
        }
    }
}

#[test]
fn crowded_nodes_give_up_their_pods_first() {
    let mut simulator = Simulator::new(2);
    simulator.apply(replica_set("web", &json!({"replicas": 3})));
    simulator.settle(5);
    simulator.apply(replica_set("web", &json!({"replicas": 2})));
    simulator.rest();
    let nodes: Vec<_> = simulator
        .active("web")
        .iter()
        .map(|it| it.spec.as_ref().unwrap().node_name.clone().unwrap())
        .collect();
    assert!(nodes.contains(&"n0".to_owned()) && nodes.contains(&"n1".to_owned()));
}

/// What the API refuses is tried again later, and the status of both owners says why.
#[test]
fn a_refused_pod_is_a_condition() {
    let mut simulator = Simulator::new(1);
    simulator.apply(deployment("web", "1", &json!({"replicas": 0})));
    simulator.rest();
    let set = simulator.replica_sets.all().remove(0);
    let failure = Failure {
        message: "pods \"web-1\" is forbidden: no".to_owned(),
        until: simulator.now + 10.seconds(),
    };
    simulator.failures = [(set.metadata.uid.clone().unwrap(), failure)].into();
    simulator.apply(deployment("web", "1", &json!({"replicas": 2})));
    assert_eq!(simulator.rest(), Some(simulator.now + 10.seconds()));
    assert_eq!(simulator.names("web-"), [""; 0]);
    let failures = |simulator: &Simulator| {
        let set = simulator.replica_sets.all().remove(0);
        let set = json!(set.status.as_ref().unwrap().conditions);
        let owner = simulator.deployments.all().remove(0);
        let owner = json!(owner.status.as_ref().unwrap().conditions);
        let all = [set, owner].map(|it| {
            let mut all = it.as_array().cloned().unwrap_or_default();
            all.retain(|it| it["type"] == "ReplicaFailure");
            all.iter()
                .map(|it| it["message"].clone())
                .collect::<Vec<_>>()
        });
        json!(all)
    };
    let why = "pods \"web-1\" is forbidden: no";
    assert_eq!(failures(&simulator), json!([[why], [why]]));
    simulator.settle(15);
    assert_eq!(simulator.names("web-").len(), 2);
    assert_eq!(failures(&simulator), json!([[], []]));
}
