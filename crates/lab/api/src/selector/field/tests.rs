use serde_json::{Value, json};

use super::*;
use crate::object::Key;
use crate::resource::KINDS;

fn kind(api_version: &str, kind: &str) -> &'static std::sync::Arc<Resource> {
    KINDS.of_kind(api_version, kind).unwrap()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "tables read better without &"
)]
fn object(resource: &std::sync::Arc<Resource>, body: Value) -> Object {
    let key = Key::new("ns", "web");
    Object::freeze(resource.clone(), key, 1, body.as_object().unwrap().clone())
}

#[test]
fn fields_are_compared() {
    let service = json!({"metadata": {}, "spec": {"clusterIP": "None"}});
    let pod = json!({
        "metadata": {},
        "spec": {"nodeName": "n1"},
        "status": {"podIP": "10.1.0.9", "podIPs": [{"ip": "10.1.0.9"}], "nominatedNodeName": "n2"},
    });
    let event = |component: &str| {
        json!({"metadata": {}, "source": {"component": component}, "reportingComponent": "kubelet",
               "involvedObject": {"kind": "Pod", "fieldPath": "a=b,c"}})
    };
    for (resource, body, text, expect) in [
        ("Service", &service, "", true),
        ("Service", &service, "metadata.name=web", true),
        (
            "Service",
            &service,
            "metadata.name==web,metadata.namespace=ns",
            true,
        ),
        (
            "Service",
            &service,
            "metadata.name=web,metadata.namespace=other",
            false,
        ),
        ("Service", &service, "metadata.namespace!=ns", false),
        ("Service", &service, "spec.clusterIP!=None", false),
        ("Service", &service, "spec.clusterIP=None", true),
        ("Service", &service, "spec.type=", true),
        ("Service", &service, "spec.type!=ExternalName", true),
        ("Pod", &pod, "spec.hostNetwork=false", true),
        ("Pod", &pod, "spec.hostNetwork=true", false),
        ("Pod", &pod, "spec.host=n1", true),
        ("Pod", &pod, "status.podIP=10.1.0.9", true),
        // Accepted, and no pod has a value.
        ("Pod", &pod, "status.podIPs=10.1.0.9", false),
        ("Pod", &pod, "status.nominatedNodeName=n2", true),
        ("Job", &json!({"metadata": {}}), "status.successful=0", true),
        (
            "Job",
            &json!({"metadata": {}, "status": {"succeeded": 3}}),
            "status.successful=3",
            true,
        ),
        (
            "Node",
            &json!({"metadata": {}}),
            "spec.unschedulable=false",
            true,
        ),
        ("Event", &event("scheduler"), "source=scheduler", true),
        ("Event", &event(""), "source=kubelet", true),
        ("Event", &event(""), "reportingComponent=kubelet", true),
        (
            "Event",
            &event(""),
            r"involvedObject.kind=Pod,involvedObject.fieldPath=a\=b\,c",
            true,
        ),
    ] {
        let version = if resource == "Job" { "batch/v1" } else { "v1" };
        let resource = kind(version, resource);
        let selector = FieldSelector::parse(text, resource).unwrap();
        let found = selector.matches(&object(resource, body.clone()));
        assert_eq!(found, expect, "{text}");
    }
}

#[test]
fn other_fields_are_refused_in_kubernetes_words() {
    for (version, resource, text, expect) in [
        (
            "v1",
            "Service",
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (
            "v1",
            "Service",
            "spec.ports=1",
            "field label not supported: spec.ports",
        ),
        (
            "v1",
            "Node",
            "metadata.namespace=a",
            "field label not supported: metadata.namespace",
        ),
        (
            "batch/v1",
            "Job",
            "status.failed=1",
            r#"field label "status.failed" not supported for Job"#,
        ),
        (
            "apps/v1",
            "ReplicaSet",
            "status.replicas=1",
            r#""status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
        (
            "v1",
            "Event",
            r"reason=\a",
            r"invalid field selector: invalid escape sequence: \a",
        ),
        (
            "v1",
            "Event",
            "reason=a=b",
            "invalid field selector: unescaped character in value: 61",
        ),
    ] {
        let error = FieldSelector::parse(text, kind(version, resource)).unwrap_err();
        assert_eq!(error, expect, "{text}");
    }
}
