//! Examples of DaemonSets.

use k8s_openapi::api::core::v1::Taint;
use serde_json::{Value, json};

use super::manifests::daemon_set;
use super::simulator::Simulator;

/// Node and version of each pod.
fn places(simulator: &Simulator) -> Vec<String> {
    let pods = simulator.active("agent-").into_iter();
    let mut places: Vec<_> = pods
        .map(|it| {
            let spec = it.spec.as_ref().unwrap();
            let version = spec.containers[0]
                .image
                .as_ref()
                .unwrap()
                .replace("image", "");
            format!("{}{version}", spec.node_name.as_deref().unwrap_or("-"))
        })
        .collect();
    places.sort();
    places
}

fn running(spec: &Value) -> Simulator {
    let mut simulator = Simulator::new(3);
    assert_eq!(simulator.apply(daemon_set("agent", "1", spec)), [""; 0]);
    simulator.settle(5);
    simulator
}

fn taint(effect: &str) -> Taint {
    Taint {
        effect: effect.to_owned(),
        key: "dedicated".to_owned(),
        ..Taint::default()
    }
}

#[test]
fn each_fitting_node_has_a_pod() {
    let mut simulator = running(&json!({}));
    assert_eq!(places(&simulator), ["n0:1", "n1:1", "n2:1"]);
    simulator.add_node("n3");
    simulator.edit_node("n0", |it| {
        it.spec.get_or_insert_default().unschedulable = Some(true)
    });
    simulator.settle(5);
    assert_eq!(places(&simulator), ["n0:1", "n1:1", "n2:1", "n3:1"]);
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2"]}]},
    ]}}});
    let spec = json!({"template": {"spec": {"affinity": affinity}}});
    simulator.apply(daemon_set("agent", "1", &spec));
    simulator.settle(10);
    assert_eq!(places(&simulator), ["n0:1", "n3:1"]);
    let status = simulator
        .daemon_sets
        .get("ns", "agent")
        .unwrap()
        .status
        .clone()
        .unwrap();
    assert_eq!(status.desired_number_scheduled, 2);
    assert_eq!(status.number_available, Some(2));
}

/// Without a toleration, a NoSchedule taint keeps a running pod but prevents a new one, and a NoExecute taint ends it.
#[test]
fn taints() {
    let mut simulator = running(&json!({}));
    for (node, effect) in [("n0", "NoSchedule"), ("n1", "NoExecute")] {
        let taint = taint(effect);
        simulator.edit_node(node, |it| {
            it.spec.get_or_insert_default().taints = Some(vec![taint])
        });
    }
    simulator.settle(5);
    assert_eq!(places(&simulator), ["n0:1", "n2:1"]);
    let mut pods = simulator.active("agent-");
    pods.retain(|it| it.spec.as_ref().unwrap().node_name.as_deref() == Some("n0"));
    simulator.kill(&super::store::key(&pods[0].metadata));
    simulator.settle(5);
    assert_eq!(places(&simulator), ["n2:1"]);
    let tolerations = json!([{"key": "dedicated", "operator": "Exists"}]);
    let spec = json!({"template": {"spec": {"tolerations": tolerations}}});
    simulator.apply(daemon_set("agent", "1", &spec));
    simulator.settle(15);
    assert_eq!(places(&simulator), ["n0:1", "n1:1", "n2:1"]);
}

#[test]
fn updates_delete_first_or_create_first() {
    let rolling = |surge: i32, unavailable: i32| {
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        json!({"updateStrategy": {"rollingUpdate": rolling}})
    };
    // Pods that are not terminating after the first step, and the version at the end.
    let table = [
        (rolling(0, 1), 2, "2"),
        (rolling(0, 2), 1, "2"),
        (rolling(1, 0), 4, "2"),
        (rolling(2, 0), 5, "2"),
        (json!({"updateStrategy": {"type": "OnDelete"}}), 3, "1"),
    ];
    for (spec, first, version) in table {
        let mut simulator = running(&spec);
        simulator.apply(daemon_set("agent", "2", &spec));
        simulator.rest();
        assert_eq!(places(&simulator).len(), first, "{spec}");
        simulator.settle(30);
        let expected: Vec<_> = (0..3).map(|it| format!("n{it}:{version}")).collect();
        assert_eq!(places(&simulator), expected, "{spec}");
    }
}

/// A node that does not answer keeps its pod: DaemonSet pods tolerate that by default.
#[test]
fn lost_nodes_keep_their_pods() {
    let mut simulator = running(&json!({}));
    simulator.set_ready("n0", "Unknown");
    simulator.settle(400);
    assert_eq!(places(&simulator), ["n0:1", "n1:1", "n2:1"]);
    simulator.nodes.remove(&(String::new(), "n0".to_owned()));
    simulator.rest();
    assert_eq!(places(&simulator), ["n1:1", "n2:1"]);
}

#[test]
fn a_pod_that_waits_for_a_node_goes_with_the_node() {
    let spec = json!({"template": {"spec": {"schedulerName": "slow"}}});
    let mut simulator = running(&spec);
    assert_eq!(places(&simulator), ["-:1", "-:1", "-:1"]);
    simulator.nodes.remove(&(String::new(), "n0".to_owned()));
    simulator.rest();
    assert_eq!(places(&simulator), ["-:1", "-:1"]);
}

#[test]
fn failed_pods_are_replaced() {
    let mut simulator = running(&json!({}));
    let pod = simulator.active("agent-")[0].metadata.clone();
    simulator.fail(&super::store::key(&pod));
    simulator.settle(8);
    assert_eq!(places(&simulator), ["n0:1", "n1:1", "n2:1"]);
    assert!(
        simulator
            .events
            .iter()
            .any(|(reason, _)| reason == "FailedDaemonPod")
    );
}
