//! Objects have one form: what means the same is the same, so nothing is rolled out.

use super::*;
use k8s_openapi::api::discovery::v1::EndpointSlice;

/// Services as a kube-apiserver stored them.
const RECORDED: &str = include_str!("../../../../controller/tests/recorded/services.json");

fn template(kind: &str) -> Value {
    let mut made = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{
                "name": "c", "image": "i:1", "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}},
            }]}},
        },
    });
    if kind == "StatefulSet" {
        made["spec"]["serviceName"] = "a".into();
    }
    made
}

/// Forms of a template that mean what `template` means: path and value.
fn same() -> Vec<(&'static str, Value)> {
    vec![
        ("/spec/template/spec/containers/0/env", json!([])),
        ("/spec/template/spec/containers/0/command", json!(null)),
        ("/spec/template/spec/containers/0/tty", json!(false)),
        ("/spec/template/spec/containers/0/workingDir", json!("")),
        (
            "/spec/template/spec/containers/0/ports/0/hostPort",
            json!(0),
        ),
        (
            "/spec/template/spec/containers/0/ports/0/protocol",
            json!("TCP"),
        ),
        (
            "/spec/template/spec/containers/0/resources/limits",
            json!({}),
        ),
        (
            "/spec/template/spec/containers/0/resources/requests/cpu",
            json!("1"),
        ),
        (
            "/spec/template/spec/containers/0/resources/requests/cpu",
            json!(1),
        ),
        (
            "/spec/template/spec/containers/0/resources/requests/cpu",
            json!("1000000u"),
        ),
        (
            "/spec/template/spec/containers/0/resources/requests/memory",
            json!("1Gi"),
        ),
        ("/spec/template/metadata/annotations", json!({})),
        ("/spec/template/metadata/creationTimestamp", json!(null)),
        ("/spec/template/spec/hostNetwork", json!(false)),
        ("/spec/template/spec/nodeSelector", json!({})),
        ("/spec/template/spec/securityContext", json!(null)),
        ("/spec/template/spec/volumes", json!([])),
        ("/spec/template/spec/dnsPolicy", json!("")),
    ]
}

#[test]
fn a_template_is_what_it_means() {
    for kind in ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"] {
        let store = store();
        store.create(template(kind)).unwrap();
        let revision = store.revision();
        for (path, value) in same() {
            let mut new = template(kind);
            let (parent, field) = path.rsplit_once('/').unwrap();
            new.pointer_mut(parent).unwrap()[field] = value.clone();
            store.update(new).unwrap();
            assert_eq!(store.revision(), revision, "{kind} {path} {value}");
        }
        let stored = store.get(kind, "default", "a").unwrap();
        let requests = stored.pointer("/spec/template/spec/containers/0/resources/requests");
        assert_eq!(
            requests,
            Some(&json!({"cpu": "1", "memory": "1Gi"})),
            "{kind}"
        );
    }
}

/// A client that reads an object and writes it back, after its own decoding, changes nothing.
#[test]
fn what_was_read_can_be_written_back() {
    let store = store();
    let mut objects = vec![service("10.96.0.9"), node("nftables")];
    objects.extend(["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"].map(template));
    let mut pod = template("Pod");
    pod["apiVersion"] = "v1".into();
    pod["spec"] = pod["spec"]["template"]["spec"].take();
    objects.push(pod);
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    for (at, it) in recorded.as_array().unwrap().iter().enumerate() {
        let (mut it, name) = (it.clone(), format!("recorded-{at}"));
        it["metadata"] = json!({"name": name});
        objects.push(it);
    }
    let mut written = 0;
    for object in objects {
        let Ok(stored) = store.create(object) else {
            // Its range is not here.
            continue;
        };
        written += 1;
        let revision = store.revision();
        // Every type that this process reads has the same form, too.
        let mut forms = vec![Value::clone(&stored)];
        match stored["kind"].as_str().unwrap() {
            "Service" => forms.push(typed::<Service>(&stored).unwrap().write()),
            "Node" => forms.push(typed::<Node>(&stored).unwrap().write()),
            "EndpointSlice" => forms.push(typed::<EndpointSlice>(&stored).unwrap().write()),
            _ => {}
        }
        for form in forms {
            store.update(form.clone()).unwrap();
            assert_eq!(store.revision(), revision, "{form}");
        }
    }
    assert!(written > 10, "{written}");
}
