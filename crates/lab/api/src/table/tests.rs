use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::resource::KINDS;

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

/// Compares the cells of an object, joined in one line.
#[track_caller]
fn check(kind: &str, mut object: Value, expect: &str) {
    let resource = KINDS.iter().find(|it| it.kind == kind).unwrap();
    object["metadata"]["name"] = "x".into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let row = row(resource, &object.into(), Include::None, now());
    let cells = row["cells"].as_array().unwrap();
    assert_eq!(cells.len(), resource.table.columns.len());
    let cells = cells.iter().map(|it| match it {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    assert_eq!(cells.collect::<Vec<_>>().join(" | "), expect);
}

#[test]
fn ages_are_short() {
    for (seconds, expect) in [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (30_000, "8h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (70_000_000, "2y80d"),
        (300_000_000, "9y"),
        (-1, "0s"),
        (-2, "<invalid>"),
    ] {
        assert_eq!(age::human(seconds), expect, "{seconds}");
    }
    let earlier = now() - SignedDuration::from_secs(90);
    assert_eq!(age::since(&earlier.to_string().into(), now()), "90s");
    assert_eq!(age::since(&Value::Null, now()), "<unknown>");
}

#[test]
fn pods_are_shown_in_one_word() {
    let containers = json!({"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n1"});
    let running = json!({"ready": true, "restartCount": 0, "state": {"running": {}}});
    let pod = |status: Value| json!({"metadata": {}, "spec": containers, "status": status});
    check(
        "Pod",
        pod(json!({"phase": "Pending"})),
        "x | 0/2 | Pending | 0 | 24h | <none> | n1 | <none> | <none>",
    );
    check(
        "Pod",
        pod(
            json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [running, running]}),
        ),
        "x | 2/2 | Running | 0 | 24h | 10.0.0.1 | n1 | <none> | <none>",
    );
    let crashed = json!({
        "ready": false,
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"finishedAt": "2026-01-01T23:58:00Z"}},
    });
    check(
        "Pod",
        pod(json!({"phase": "Running", "containerStatuses": [running, crashed]})),
        "x | 1/2 | CrashLoopBackOff | 3 (2m ago) | 24h | <none> | n1 | <none> | <none>",
    );
    let ended = |reason: Value| json!({"state": {"terminated": reason}});
    check(
        "Pod",
        pod(
            json!({"phase": "Failed", "containerStatuses": [ended(json!({"exitCode": 1})), ended(json!({"signal": 9}))]}),
        ),
        "x | 0/2 | ExitCode:1 | 0 | 24h | <none> | n1 | <none> | <none>",
    );
    let mut going = pod(json!({"phase": "Running", "containerStatuses": [running]}));
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    check(
        "Pod",
        going,
        "x | 1/2 | Terminating | 0 | 24h | <none> | n1 | <none> | <none>",
    );
    let mut init = pod(json!({"phase": "Pending", "initContainerStatuses": [
        {"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}},
    ]}));
    init["spec"]["initContainers"] = json!([{"name": "i"}, {"name": "j"}]);
    check(
        "Pod",
        init,
        "x | 0/2 | Init:1/2 | 0 | 24h | <none> | n1 | <none> | <none>",
    );
    let ended_last =
        json!({"name": "i", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}});
    let completed = json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let mut done = pod(json!({
        "phase": "Succeeded", "initContainerStatuses": [ended_last], "containerStatuses": [completed],
        "conditions": [{"type": "Initialized", "status": "True"}],
    }));
    done["spec"]["initContainers"] = json!([{"name": "i", "restartPolicy": "Always"}]);
    check(
        "Pod",
        done,
        "x | 0/2 | Completed | 0 | 24h | <none> | n1 | <none> | <none>",
    );
}

#[test]
fn services_show_their_addresses() {
    let service =
        |spec: Value, status: Value| json!({"metadata": {}, "spec": spec, "status": status});
    let ports = json!([{"port": 80}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]);
    check(
        "Service",
        service(
            json!({"clusterIP": "10.0.0.1", "ports": ports, "selector": {"a": "b"}}),
            json!({}),
        ),
        "x | ClusterIP | 10.0.0.1 | <none> | 80/TCP,53:30053/UDP | 24h | a=b",
    );
    check(
        "Service",
        service(
            json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}),
            json!({}),
        ),
        "x | LoadBalancer | 10.0.0.1 | <pending> | <none> | 24h | <none>",
    );
    check(
        "Service",
        service(
            json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1", "externalIPs": ["1.1.1.1"]}),
            json!({"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "h"}]}}),
        ),
        "x | LoadBalancer | 10.0.0.1 | 2.2.2.2,h,1.1.1.1 | <none> | 24h | <none>",
    );
    check(
        "Service",
        service(
            json!({"type": "ExternalName", "externalName": "e.org"}),
            json!({}),
        ),
        "x | ExternalName | <none> | e.org | <none> | 24h | <none>",
    );
}

#[test]
fn other_kinds_are_shown() {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec =
        json!({"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let workload = |status: Value| json!({"metadata": {}, "spec": spec, "status": status});
    check(
        "Deployment",
        workload(json!({"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1})),
        "x | 2/3 | 3 | 1 | 24h | c | i | a=b",
    );
    check(
        "ReplicaSet",
        workload(json!({"replicas": 2})),
        "x | 3 | 2 | 0 | 24h | c | i | a=b",
    );
    check("StatefulSet", workload(json!({})), "x | 0/3 | 24h | c | i");
    check(
        "DaemonSet",
        workload(json!({})),
        "x | 0 | 0 | 0 | 0 | 0 | <none> | 24h | c | i | a=b",
    );
    check(
        "Node",
        json!({
            "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1", "osImage": "os"},
            },
        }),
        "x | Ready,SchedulingDisabled | worker | 24h | v1 | 10.0.0.1 | <none> | os | <unknown> | <unknown>",
    );
    check(
        "Namespace",
        json!({"metadata": {}, "status": {"phase": "Active"}}),
        "x | Active | 24h",
    );
    let endpoint = |it: &str| json!({"addresses": [it]});
    let endpoints: Vec<_> = ["1", "2", "3", "4"].map(endpoint).into();
    check(
        "EndpointSlice",
        json!({"metadata": {}, "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": endpoints}),
        "x | IPv4 | 80 | 1,2,3 + 1 more... | 24h",
    );
    check(
        "Endpoints",
        json!({"metadata": {}, "subsets": [{"addresses": [{"ip": "::1"}], "ports": [{"port": 1}]}]}),
        "x | [::1]:1 | 24h",
    );
    check(
        "ConfigMap",
        json!({"metadata": {}, "data": {"a": "b"}}),
        "x | 1 | 24h",
    );
    check("Secret", json!({"metadata": {}}), "x | Opaque | 0 | 24h");
    check("ServiceAccount", json!({"metadata": {}}), "x | 24h");
    check(
        "ServiceCIDR",
        json!({"metadata": {}, "spec": {"cidrs": ["a", "b"]}}),
        "x | a,b | 24h",
    );
    let parent = json!({"resource": "services", "namespace": "n", "name": "s"});
    check(
        "IPAddress",
        json!({"metadata": {}, "spec": {"parentRef": parent}}),
        "x | services/n/s",
    );
    let parameter = json!({"apiVersion": "example.com/v1", "kind": "Limit"});
    check(
        "MutatingAdmissionPolicy",
        json!({"metadata": {}, "spec": {"mutations": [{}, {}], "paramKind": parameter}}),
        "x | 2 | example.com/v1/Limit | 24h",
    );
    check(
        "ValidatingAdmissionPolicy",
        json!({"metadata": {}, "spec": {"validations": [{}]}}),
        "x | 1 | <unset> | 24h",
    );
    check(
        "MutatingAdmissionPolicyBinding",
        json!({"metadata": {}, "spec": {"policyName": "p", "paramRef": {"name": "r"}}}),
        "x | p | */r | 24h",
    );
    check(
        "ResourceClaim",
        json!({"metadata": {}, "status": {"allocation": {}, "reservedFor": [{}]}}),
        "x | allocated,reserved | 24h",
    );
    check(
        "ResourceClaim",
        json!({"metadata": {}}),
        "x | pending | 24h",
    );
    let owner =
        json!([{"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "d", "controller": true}]);
    check(
        "ControllerRevision",
        json!({"metadata": {"ownerReferences": owner}, "revision": 4}),
        "x | daemonset.apps/d | 4 | 24h",
    );
    check(
        "Event",
        json!({
            "metadata": {}, "type": "Normal", "reason": "Started", "message": "m\n", "count": 2,
            "involvedObject": {"kind": "Pod", "name": "p"}, "lastTimestamp": "2026-01-01T23:59:00Z",
            "source": {"component": "kubelet", "host": "n"},
        }),
        "60s | Normal | Started | pod/p |  | kubelet, n | m | <unknown> | 2 | x",
    );
}
