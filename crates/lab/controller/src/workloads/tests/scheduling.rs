//! Examples of scheduling.

use serde_json::{Value, json};

use super::manifests::pod;
use super::simulator::Simulator;

/// The node of a pod, or why it has none.
fn place(simulator: &Simulator, name: &str) -> String {
    let pod = simulator.pods.get("ns", name).unwrap();
    if let Some(node) = &pod.spec.as_ref().unwrap().node_name {
        return node.clone();
    }
    let conditions = pod.status.as_ref().unwrap().conditions.clone();
    let mut conditions = conditions.into_iter().flatten();
    let scheduled = conditions.find(|it| it.type_ == "PodScheduled").unwrap();
    assert_eq!(scheduled.reason.as_deref(), Some("Unschedulable"));
    scheduled.message.unwrap()
}

/// Three nodes, of which `n1` has the label `disk=ssd`, and the taint `gpu=yes:NoSchedule`.
fn cluster() -> Simulator {
    let mut simulator = Simulator::new(3);
    simulator.edit_node("n1", |it| {
        let labels = it.metadata.labels.as_mut().unwrap();
        labels.insert("disk".to_owned(), "ssd".to_owned());
        labels.insert("size".to_owned(), "7".to_owned());
        let taint = json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"});
        let taint = serde_json::from_value(taint).unwrap();
        it.spec.get_or_insert_default().taints = Some(vec![taint]);
    });
    simulator
}

fn terms(key: &str, operator: &str, values: &Value) -> Value {
    let expression = json!({"key": key, "operator": operator, "values": values});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [expression]}],
    }}}, "tolerations": [{"operator": "Exists"}]})
}

#[test]
fn where_pods_go() {
    let affinity = "node(s) didn't match Pod's node affinity/selector";
    let preemption =
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    let table = [
        (json!({}), "n0".to_owned()),
        (
            json!({"nodeSelector": {"disk": "ssd"}}),
            format!(
                "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 {affinity}. {preemption}"
            ),
        ),
        (
            json!({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "value": "yes"}]}),
            "n1".to_owned(),
        ),
        (
            json!({"nodeSelector": {"disk": "hdd"}, "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]}),
            format!("0/3 nodes are available: 3 {affinity}. {preemption}"),
        ),
        (
            terms("disk", "In", &json!(["ssd", "nvme"])),
            "n1".to_owned(),
        ),
        (terms("disk", "Exists", &json!([])), "n1".to_owned()),
        (
            json!({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "value": "no"}]}),
            format!(
                "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 {affinity}. {preemption}"
            ),
        ),
        (terms("disk", "NotIn", &json!(["ssd"])), "n0".to_owned()),
        (terms("size", "Gt", &json!(["6"])), "n1".to_owned()),
        (terms("size", "Lt", &json!(["8"])), "n1".to_owned()),
        (
            terms("size", "Gt", &json!(["7"])),
            format!("0/3 nodes are available: 3 {affinity}. {preemption}"),
        ),
        (
            json!({"nodeSelector": {"kubernetes.io/hostname": "n2"}}),
            "n2".to_owned(),
        ),
    ];
    for (spec, expected) in table {
        let mut simulator = cluster();
        assert_eq!(simulator.apply(pod("it", &spec)), [""; 0]);
        simulator.rest();
        assert_eq!(place(&simulator, "it"), expected, "{spec}");
    }
}

#[test]
fn host_ports_and_anti_affinity_keep_pods_apart() {
    let port = json!({"containers": [{"name": "main", "image": "image:1", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    let near = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}},
    ]}}});
    let table = [
        (
            port,
            "node(s) didn't have free ports for the requested pod ports",
        ),
        (
            near,
            "node(s) didn't satisfy existing pods anti-affinity rules",
        ),
    ];
    for (spec, reason) in table {
        let mut simulator = Simulator::new(2);
        for name in ["a", "b", "c"] {
            let mut pod = pod(name, &spec);
            pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
            assert_eq!(simulator.apply(pod), [""; 0]);
        }
        simulator.rest();
        assert_eq!(place(&simulator, "a"), "n0");
        assert_eq!(place(&simulator, "b"), "n1");
        let message = format!(
            "0/2 nodes are available: 2 {reason}. preemption: 0/2 nodes are available: \
             2 No preemption victims found for incoming pod."
        );
        assert_eq!(place(&simulator, "c"), message);
        assert!(
            simulator
                .events
                .contains(&("FailedScheduling".to_owned(), message))
        );
    }
}

#[test]
fn a_cluster_without_nodes_says_so_once() {
    let mut simulator = Simulator::new(0);
    simulator.apply(pod("it", &json!({})));
    simulator.settle(3);
    assert_eq!(
        place(&simulator, "it"),
        "no nodes available to schedule pods"
    );
    assert_eq!(simulator.events.len(), 1);
    simulator.add_node("n0");
    simulator.rest();
    assert_eq!(place(&simulator, "it"), "n0");
}

#[test]
fn cordoned_nodes_and_other_schedulers() {
    let mut simulator = Simulator::new(1);
    simulator.edit_node("n0", |it| {
        it.spec.get_or_insert_default().unschedulable = Some(true)
    });
    simulator.apply(pod("it", &json!({})));
    simulator.apply(pod("other", &json!({"schedulerName": "mine"})));
    simulator.rest();
    assert_eq!(
        place(&simulator, "it"),
        "0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available: \
         1 Preemption is not helpful for scheduling."
    );
    let other = simulator.pods.get("ns", "other").unwrap();
    assert_eq!(other.status.as_ref().unwrap().conditions, None);
}

#[test]
fn pods_of_one_owner_are_spread() {
    let mut simulator = Simulator::new(3);
    simulator.apply(pod("alone", &json!({})));
    simulator.apply(super::manifests::deployment(
        "web",
        "1",
        &json!({"replicas": 6}),
    ));
    simulator.rest();
    let mut nodes: Vec<_> = simulator
        .active("web")
        .iter()
        .map(|it| it.spec.as_ref().unwrap().node_name.clone().unwrap())
        .collect();
    nodes.sort();
    assert_eq!(nodes, ["n0", "n0", "n1", "n1", "n2", "n2"]);
}
