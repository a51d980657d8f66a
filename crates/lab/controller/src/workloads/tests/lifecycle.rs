//! Lost nodes, defaults, and invalid manifests.

use serde_json::{Value, json};

use super::manifests::{deployment, pod, stateful_set};
use super::simulator::{Simulator, is_ready};

fn taints(simulator: &Simulator, node: &str) -> Vec<String> {
    let node = simulator.nodes.get("", node).unwrap();
    let taints = node.spec.as_ref().and_then(|it| it.taints.clone());
    let taints = taints.into_iter().flatten();
    taints
        .map(|it| {
            format!(
                "{}:{}",
                it.key.replace("node.kubernetes.io/", ""),
                it.effect
            )
        })
        .collect()
}

#[test]
fn taints_follow_conditions() {
    let mut simulator = Simulator::new(1);
    let table: [(&str, &[&str]); 3] = [
        (
            "Unknown",
            &["unreachable:NoSchedule", "unreachable:NoExecute"],
        ),
        ("False", &["not-ready:NoSchedule", "not-ready:NoExecute"]),
        ("True", &[]),
    ];
    for (status, expected) in table {
        simulator.set_ready("n0", status);
        simulator.rest();
        assert_eq!(taints(&simulator, "n0"), expected);
    }
    simulator.edit_node("n0", |it| {
        it.spec.get_or_insert_default().unschedulable = Some(true)
    });
    simulator.rest();
    assert_eq!(taints(&simulator, "n0"), ["unschedulable:NoSchedule"]);
}

/// Seconds that a pod tolerates a lost node, and after how many it is deleted.
#[test]
fn pods_of_a_lost_node() {
    let tolerations = |seconds: i32| json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
    let table = [
        (json!({}), Some(300)),
        (json!({"tolerations": tolerations(7)}), Some(7)),
        (json!({"tolerations": tolerations(0)}), Some(0)),
        (json!({"tolerations": [{"operator": "Exists"}]}), None),
    ];
    for (spec, seconds) in table {
        let mut simulator = Simulator::new(1);
        simulator.apply(pod("it", &spec));
        simulator.settle(5);
        let lost = simulator.now;
        simulator.set_ready("n0", "Unknown");
        let wake = simulator.rest();
        let it = simulator.pods.get("ns", "it").unwrap();
        assert!(!is_ready(it), "it leaves the endpoints at once");
        let wake = wake.map(|it| it.duration_since(lost).as_secs());
        assert_eq!(wake, seconds.filter(|it| *it > 0), "{spec}");
        if let Some(seconds) = seconds {
            simulator.now = lost + jiff::SignedDuration::from_secs(seconds);
            simulator.rest();
            let it = simulator.pods.get("ns", "it").unwrap();
            assert!(it.metadata.deletion_timestamp.is_some(), "{spec}");
        }
    }
}

/// The time goes on when a node that is not ready becomes unreachable.
#[test]
fn a_node_is_lost_once() {
    let mut simulator = Simulator::new(1);
    simulator.apply(pod("it", &json!({})));
    simulator.settle(5);
    simulator.set_ready("n0", "False");
    let first = simulator.rest();
    simulator.now += jiff::SignedDuration::from_secs(100);
    simulator.set_ready("n0", "Unknown");
    assert_eq!(simulator.rest(), first);
}

#[test]
fn a_node_that_was_lost_just_now_takes_no_pods() {
    let mut simulator = Simulator::new(2);
    simulator.set_ready("n0", "Unknown");
    simulator.apply(pod("it", &json!({})));
    simulator.rest();
    let it = simulator.pods.get("ns", "it").unwrap();
    assert_eq!(it.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
}

#[test]
fn replicas_move_to_other_nodes() {
    let mut simulator = Simulator::new(2);
    simulator.apply(deployment("web", "1", &json!({"replicas": 2})));
    simulator.settle(5);
    simulator.set_ready("n0", "Unknown");
    simulator.settle(310);
    let nodes: Vec<_> = simulator
        .active("web")
        .iter()
        .map(|it| it.spec.as_ref().unwrap().node_name.clone().unwrap())
        .collect();
    assert_eq!(nodes, ["n1", "n1"]);
    assert_eq!(
        simulator.pods.all().len(),
        3,
        "nobody knows whether the old one ended"
    );
    simulator.nodes.remove(&(String::new(), "n0".to_owned()));
    simulator.rest();
    assert_eq!(simulator.pods.all().len(), 2);
}

#[test]
fn a_pod_that_was_never_scheduled_ends_at_once() {
    let mut simulator = Simulator::new(0);
    simulator.apply(pod("it", &json!({})));
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(simulator.now);
    simulator.edit_pod(&("ns".to_owned(), "it".to_owned()), |it| {
        it.metadata.deletion_timestamp = Some(now);
    });
    simulator.rest();
    assert_eq!(simulator.pods.all(), []);
}

/// The fields that the API sets.
#[test]
fn defaults() {
    let mut simulator = Simulator::new(0);
    let probe = json!({"httpGet": {"port": 80}});
    let containers = json!([{"name": "main", "image": "nginx", "ports": [{"containerPort": 80}], "readinessProbe": probe}]);
    simulator.apply(pod("it", &json!({"containers": containers})));
    let spec = serde_json::to_value(simulator.pods.get("ns", "it").unwrap().spec.clone()).unwrap();
    assert_eq!(
        spec["containers"][0]["readinessProbe"],
        json!({
            "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        })
    );
    assert_eq!(spec["containers"][0]["ports"][0]["protocol"], "TCP");
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["dnsPolicy"], "ClusterFirst");
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(
        spec["tolerations"][1],
        json!({
            "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
        })
    );
    simulator.apply(deployment("web", "1", &json!({})));
    let web = simulator
        .deployments
        .get("ns", "web")
        .unwrap()
        .spec
        .clone()
        .unwrap();
    let strategy = serde_json::to_value(web.strategy).unwrap();
    assert_eq!(
        strategy,
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    assert_eq!(
        (web.replicas, web.revision_history_limit),
        (Some(1), Some(10))
    );
}

/// Invalid specs, with the messages for people.
#[test]
fn wrong_deployments() {
    let container = |fields: &Value| {
        let mut container = json!({"name": "main", "image": "image:1"});
        super::manifests::merge(&mut container, fields);
        json!({"template": {"spec": {"containers": [container]}}})
    };
    let two = json!([{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]);
    let rolling = |surge: Value, unavailable: Value| json!({"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}});
    let first = "spec.template.spec.containers[0]";
    let table = [
        (json!({"selector": {"matchLabels": {"app": "x"}}}),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`".to_owned()),
        (json!({"selector": {"matchLabels": null}}), "spec.selector: Required value".to_owned()),
        (json!({"replicas": -1}), "spec.replicas: Invalid value: -1: must be greater than or equal to 0".to_owned()),
        (json!({"template": {"spec": {"containers": []}}}), "spec.template.spec.containers: Required value".to_owned()),
        (json!({"template": {"spec": {"containers": two}}}),
            "spec.template.spec.containers[1].name: Duplicate value: \"a\"".to_owned()),
        (container(&json!({"ports": [{"containerPort": 70000}]})),
            format!("{first}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive")),
        (container(&json!({"ports": [{"containerPort": 80, "protocol": "tcp"}]})),
            format!("{first}.ports[0].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"")),
        (container(&json!({"livenessProbe": {"periodSeconds": 5}})),
            format!("{first}.livenessProbe: Required value: must specify a handler type")),
        (container(&json!({"image": ""})), format!("{first}.image: Required value")),
        (rolling(json!(0), json!(0)),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0".to_owned()),
        (rolling(json!("0%"), json!("0%")),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0".to_owned()),
        (rolling(json!("many"), json!(0)),
            "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"many\": a valid percent string must be a numeric string followed by an ending '%' \
             (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')".to_owned()),
        (json!({"template": {"spec": {"restartPolicy": "Never"}}}),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"".to_owned()),
    ];
    for (spec, expected) in table {
        let problems = Simulator::new(0).apply(deployment("web", "1", &spec));
        assert_eq!(problems, [expected], "{spec}");
    }
}

#[test]
fn what_may_not_change() {
    let mut simulator = Simulator::new(0);
    simulator.apply(deployment("web", "1", &json!({})));
    simulator.apply(stateful_set("db", "1", &json!({"serviceName": "a"})));
    simulator.apply(pod("it", &json!({})));
    let labels = json!({"app": "web", "x": "y"});
    let spec =
        json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}});
    assert_eq!(
        simulator.apply(deployment("web", "1", &spec)),
        [
            "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"web\",\"x\":\"y\"}}: field is immutable"
        ]
    );
    let problems = simulator.apply(stateful_set("db", "1", &json!({"serviceName": "b"})));
    assert!(
        problems[0].starts_with("spec: Forbidden: updates to statefulset spec"),
        "{problems:?}"
    );
    let problems = simulator.apply(pod("it", &json!({"hostNetwork": true})));
    assert!(
        problems[0].starts_with("spec: Forbidden: pod updates may not change"),
        "{problems:?}"
    );
    let mut image = pod("it", &json!({}));
    image.spec.as_mut().unwrap().containers[0].image = Some("image:2".to_owned());
    assert_eq!(simulator.apply(image), [""; 0]);
}
