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

#[test]
fn pods_wait_for_nodes_that_start_and_are_spread_over_them() {
    let mut simulator = Simulator::new(3);
    let all = ["n0", "n1", "n2"];
    all.iter().for_each(|it| simulator.set_ready(it, "False"));
    for name in ["a", "b", "c"] {
        simulator.apply(pod(name, &json!({})));
    }
    let tolerant = json!({"tolerations": [{"operator": "Exists"}]});
    simulator.apply(pod("agent", &tolerant));
    simulator.settle(2);
    let node = |simulator: &Simulator, name: &str| {
        let pod = simulator.pods.get("ns", name).unwrap();
        pod.spec.as_ref().unwrap().node_name.clone()
    };
    assert_eq!(node(&simulator, "agent").as_deref(), Some("n0"));
    simulator.set_ready("n1", "True");
    simulator.settle(2);
    assert_eq!(
        ["a", "b", "c"].map(|it| node(&simulator, it)),
        [None, None, None]
    );
    simulator.set_ready("n2", "True");
    simulator.set_ready("n0", "True");
    simulator.settle(2);
    let mut nodes = ["a", "b", "c"].map(|it| node(&simulator, it).unwrap());
    nodes.sort();
    assert_eq!(nodes, all);
    assert!(
        simulator
            .events
            .iter()
            .all(|(reason, _)| reason != "FailedScheduling")
    );
}

#[test]
fn a_node_that_never_gets_ready_is_given_up() {
    let mut simulator = Simulator::new(2);
    simulator.set_ready("n0", "False");
    simulator.apply(pod("it", &json!({})));
    simulator.settle(12);
    assert_eq!(place(&simulator, "it"), "n1");
}

#[test]
fn requests_are_held_against_what_a_node_has() {
    let allocatable = json!({"cpu": "2", "memory": "1Gi", "pods": "3"});
    let container =
        |requests: &Value| json!({"name": "c", "image": "i", "resources": {"requests": requests}});
    let wants = |requests: Value| json!({"containers": [container(&requests)]});
    let fits = |first: &Value, specs: &[Value]| {
        let mut simulator = Simulator::new(1);
        simulator.edit_node("n0", |it| {
            let status = it.status.as_mut().unwrap();
            status.allocatable = Some(serde_json::from_value(allocatable.clone()).unwrap());
        });
        assert_eq!(simulator.apply(pod("first", first)), [""; 0]);
        let mut last = String::new();
        for (number, spec) in specs.iter().enumerate() {
            last = format!("pod-{number}");
            assert_eq!(simulator.apply(pod(&last, spec)), [""; 0]);
        }
        simulator.rest();
        place(&simulator, &last)
    };
    let refused = |reasons: &str| {
        format!(
            "0/1 nodes are available: {reasons}. preemption: 0/1 nodes are available: \
             1 No preemption victims found for incoming pod."
        )
    };
    let sidecar = json!({
        "initContainers": [
            {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
            {"name": "i", "image": "i", "resources": {"requests": {"cpu": "600m"}}},
        ],
        "containers": [container(&json!({"cpu": "100m"}))],
    });
    let one = json!({"example.com/gpu": "1"});
    let gpu = json!({"name": "c", "image": "i", "resources": {"requests": one, "limits": one}});
    let gpu = json!({"containers": [gpu]});
    let half = wants(json!({"cpu": "1", "memory": "512Mi"}));
    for (first, specs, expected) in [
        (&half, vec![half.clone()], "n0".to_owned()),
        (
            &half,
            vec![wants(json!({"cpu": "1001m"}))],
            refused("1 Insufficient cpu"),
        ),
        (
            &half,
            vec![wants(json!({"cpu": "2", "memory": "1Gi"}))],
            refused("1 Insufficient cpu, 1 Insufficient memory"),
        ),
        (&half, vec![gpu], refused("1 Insufficient example.com/gpu")),
        (&half, vec![json!({}); 3], refused("1 Too many pods")),
        // 0.5 and 0.6 at its start.
        (
            &sidecar,
            vec![wants(json!({"cpu": "900m"}))],
            "n0".to_owned(),
        ),
        (
            &sidecar,
            vec![wants(json!({"cpu": "901m"}))],
            refused("1 Insufficient cpu"),
        ),
    ] {
        assert_eq!(fits(first, &specs), expected, "{first} {specs:?}");
    }
}
