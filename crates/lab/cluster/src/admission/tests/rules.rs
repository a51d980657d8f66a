//! What is refused, with kube-apiserver's code, reason, field and words. A refused write changes nothing.

use super::*;

pub(super) fn object(kind: &str, rest: &Value) -> Value {
    let version = match kind {
        "Deployment" | "StatefulSet" => "apps/v1",
        "ServiceCIDR" => "networking.k8s.io/v1",
        _ => "v1",
    };
    let mut made = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
    let container = json!({"name": "c", "image": "i"});
    match kind {
        "Pod" => made["spec"] = json!({"containers": [container]}),
        "Deployment" | "StatefulSet" => {
            let template =
                json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
            made["spec"] = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        }
        _ => {}
    }
    merge(&mut made, rest);
    made
}

/// Sets the fields of `rest` in `object`; a list is merged by position.
pub(super) fn merge(object: &mut Value, rest: &Value) {
    match (object, rest) {
        (Value::Object(object), Value::Object(rest)) => {
            for (field, value) in rest {
                merge(object.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(items), Value::Array(rest)) if items.len() >= rest.len() => {
            items
                .iter_mut()
                .zip(rest)
                .for_each(|(item, rest)| merge(item, rest));
        }
        (slot, rest) => slot.clone_from(rest),
    }
}

/// `CODE REASON`, then a line for each cause: `field: message (reason)`.
pub(super) fn shown(status: &Status) -> String {
    let body = status.body();
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    let causes: Vec<_> = causes
        .map(|it| {
            let text = |field: &str| it[field].as_str().unwrap_or_default();
            format!(
                "{}: {} ({})",
                text("field"),
                text("message"),
                text("reason")
            )
        })
        .collect();
    let head = format!("{} {}", status.code.as_u16(), status.reason());
    if causes.is_empty() {
        return format!("{head}: {status}");
    }
    format!("{head}\n{}", causes.join("\n"))
}

const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn invalid(field: &str, message: &str) -> String {
    format!("422 Invalid\n{field}: {message} (FieldValueInvalid)")
}

#[track_caller]
fn refused(store: &Store, new: &Value, expect: &str) {
    let revision = store.revision();
    let status = store.create(new.clone()).unwrap_err();
    assert_eq!(shown(&status), expect, "{new}");
    assert_eq!(
        store.revision(),
        revision,
        "a refused write changes nothing"
    );
}

#[test]
fn what_is_wrong_with_a_new_object() {
    let store = store();
    let long = "x".repeat(70);
    let metadata = |it: Value| object("ConfigMap", &json!({"metadata": it}));
    let container = |it: Value| object("Pod", &json!({"spec": {"containers": [it]}}));
    let owner = |it: Value| metadata(json!({"ownerReferences": [it]}));
    let secret = |kind: &str| object("Secret", &json!({"type": kind}));
    let cidrs = |it: Value| object("ServiceCIDR", &json!({"spec": {"cidrs": it}}));
    for (new, expect) in [
        (
            metadata(json!({"labels": {"a": long}})),
            invalid("metadata.labels", &format!("Invalid value: \"{long}\": must be no more than 63 bytes")),
        ),
        (
            metadata(json!({"labels": {"a b": "c"}})),
            invalid("metadata.labels", &format!("Invalid value: \"a b\": {NAME}")),
        ),
        (
            metadata(json!({"labels": {"A/b": ""}})),
            invalid(
                "metadata.labels",
                "Invalid value: \"A/b\": prefix part a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ),
        (
            metadata(json!({"annotations": {"a": "x".repeat(300_000)}})),
            "422 Invalid\nmetadata.annotations: Too long: may not be more than 262144 bytes (FieldValueTooLong)".to_owned(),
        ),
        (
            metadata(json!({"finalizers": ["a b"]})),
            format!(
                "{}\nmetadata.finalizers[0]: Invalid value: \"a b\": name is neither a standard finalizer name nor is it \
                 fully qualified (FieldValueInvalid)",
                invalid("metadata.finalizers", &format!("Invalid value: \"a b\": {NAME}"))
            ),
        ),
        (
            metadata(json!({"finalizers": ["mine"]})),
            invalid(
                "metadata.finalizers[0]",
                "Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified",
            ),
        ),
        (
            owner(json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""})),
            invalid("metadata.ownerReferences.uid", "Invalid value: \"\": must not be empty"),
        ),
        (
            metadata(json!({"resourceVersion": "1"})),
            "500 : resourceVersion should not be set on objects to be created".to_owned(),
        ),
        (
            metadata(json!({"name": "A"})),
            invalid(
                "metadata.name",
                "Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
                 '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                 validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ),
        (
            object("Deployment", &json!({"spec": {"replicas": "x"}})),
            "400 BadRequest: Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal \
             string into Go struct field DeploymentSpec.spec.replicas of type int32"
                .to_owned(),
        ),
        (
            container(json!({"resources": {"limits": {"cpu": "2cores"}}})),
            "400 BadRequest: Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular \
             expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                .to_owned(),
        ),
        (
            container(json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}})),
            invalid(
                "spec.containers[0].resources.requests",
                "Invalid value: \"1500m\": must be less than or equal to cpu limit of 1",
            ),
        ),
        (
            container(json!({"resources": {"limits": {"cpu": "-1"}}})),
            format!(
                "{}\nspec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0 \
                 (FieldValueInvalid)",
                invalid(
                    "spec.containers[0].resources.limits[cpu]",
                    "Invalid value: \"-1\": must be greater than or equal to 0",
                )
            ),
        ),
        (
            container(json!({"resources": {"requests": {"disk": "1"}}})),
            "422 Invalid\nspec.containers[0].resources.requests[disk]: Invalid value: \"disk\": must be a standard resource \
             type or fully qualified (FieldValueInvalid)\nspec.containers[0].resources.requests[disk]: Invalid value: \
             \"disk\": must be a standard resource for containers (FieldValueInvalid)\nspec.containers[0].resources.limits: Required value: Limit must be set \
             for non overcommitable resources (FieldValueRequired)"
                .to_owned(),
        ),
        (
            container(json!({"imagePullPolicy": "Sometimes"})),
            "422 Invalid\nspec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \
             \"Always\", \"IfNotPresent\", \"Never\" (FieldValueNotSupported)"
                .to_owned(),
        ),
        (
            object("Deployment", &json!({"spec": {"template": {"metadata": {"labels": {"x": long}}}}})),
            invalid(
                "spec.template.labels",
                &format!("Invalid value: \"{long}\": must be no more than 63 bytes"),
            ),
        ),
        (
            object("ConfigMap", &json!({"data": {"a b": ""}})),
            invalid(
                "data[a b]",
                "Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
                 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ),
        ),
        (
            object("ConfigMap", &json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}})),
            invalid("data[a]", "Invalid value: \"a\": duplicate of key present in binaryData"),
        ),
        (
            secret("kubernetes.io/tls"),
            "422 Invalid\ndata[tls.crt]: Required value (FieldValueRequired)\ndata[tls.key]: Required value \
             (FieldValueRequired)"
                .to_owned(),
        ),
        (
            object("Secret", &json!({"data": {"a": "%"}})),
            "400 BadRequest: Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 0"
                .to_owned(),
        ),
        (
            cidrs(json!([])),
            "422 Invalid\nspec.cidrs: Required value: at least one CIDR required (FieldValueRequired)".to_owned(),
        ),
        (
            cidrs(json!(["10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16"])),
            invalid(
                "spec.cidrs",
                "Invalid value: {\"cidrs\":[\"10.0.0.0/16\",\"10.1.0.0/16\",\"10.2.0.0/16\"]}: may only hold up to 2 values",
            ),
        ),
        (
            cidrs(json!(["10.0.0.0/16", "10.1.0.0/16"])),
            invalid(
                "spec.cidrs",
                "Invalid value: [\"10.0.0.0/16\",\"10.1.0.0/16\"]: may specify no more than one IP for each IP family, \
                 i.e 192.168.0.0/24 and 2001:db8::/64",
            ),
        ),
        (
            cidrs(json!(["10.0.0.1/16"])),
            invalid(
                "spec.cidrs[0]",
                "Invalid value: \"10.0.0.1/16\": must be in canonical form (\"10.0.0.0/16\")",
            ),
        ),
        (
            cidrs(json!(["all"])),
            invalid(
                "spec.cidrs[0]",
                "Invalid value: \"all\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ),
        ),
    ] {
        refused(&store, &new, &expect);
    }
}

#[test]
fn a_host_name_is_in_lower_case() {
    let store = store();
    let upper = object("Pod", &json!({"spec": {"hostname": "WEB"}}));
    let status = store.create(upper).unwrap_err();
    assert!(
        shown(&status)
            .contains("spec.hostname: Invalid value: \"WEB\": a lowercase RFC 1123 label"),
        "{status}"
    );
}

#[test]
fn what_never_changes() {
    let sealed = "Forbidden: field is immutable when `immutable` is set (FieldValueForbidden)";
    let pod = "Forbidden: pod updates may not change fields other than \
        `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
        additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
        previously negative) (FieldValueForbidden)";
    for (old, change, expect) in [
        (
            object("ConfigMap", &json!({"immutable": true, "data": {"a": "b"}})),
            json!({"data": {"a": "c"}}),
            format!("422 Invalid\ndata: {sealed}"),
        ),
        (
            object("ConfigMap", &json!({"immutable": true})),
            json!({"immutable": false}),
            format!("422 Invalid\nimmutable: {sealed}"),
        ),
        (
            object("Secret", &json!({"immutable": true, "data": {"a": "eA=="}})),
            json!({"stringData": {"a": "y"}}),
            format!("422 Invalid\ndata: {sealed}"),
        ),
        (
            object("Secret", &json!({})),
            json!({"type": "mine"}),
            invalid("type", "Invalid value: \"mine\": field is immutable"),
        ),
        (
            object("Pod", &json!({})),
            json!({"spec": {"containers": [{"command": ["x"]}]}}),
            format!("422 Invalid\nspec: {pod}"),
        ),
        (
            object("Pod", &json!({})),
            json!({"spec": {"terminationGracePeriodSeconds": 1}}),
            format!("422 Invalid\nspec: {pod}"),
        ),
        (
            object("Pod", &json!({})),
            json!({"spec": {"tolerations": []}}),
            "".to_owned(),
        ),
        (
            object("Pod", &json!({"spec": {"activeDeadlineSeconds": 5}})),
            json!({"spec": {"activeDeadlineSeconds": 6}}),
            invalid(
                "spec.activeDeadlineSeconds",
                "Invalid value: 6: must be less than or equal to previous value",
            ),
        ),
        (
            object("ServiceCIDR", &json!({"spec": {"cidrs": ["10.97.0.0/16"]}})),
            json!({"spec": {"cidrs": ["10.98.0.0/16"]}}),
            invalid(
                "spec.cidrs[0]",
                "Invalid value: \"10.98.0.0/16\": field is immutable",
            ),
        ),
        (
            object("ServiceCIDR", &json!({"spec": {"cidrs": ["10.97.0.0/16"]}})),
            json!({"spec": {"cidrs": ["10.97.0.0/16", "fd00:97::/112"]}}),
            String::new(),
        ),
    ] {
        let store = store();
        let mut new = Value::clone(&store.create(old).unwrap());
        merge(&mut new, &change);
        let revision = store.revision();
        match store.update(new) {
            Ok(_) => assert_eq!("", expect, "{change}"),
            Err(status) => {
                assert_eq!(shown(&status), expect, "{change}");
                assert_eq!(store.revision(), revision);
            }
        }
    }
}

#[test]
fn an_object_that_is_being_deleted_gets_no_finalizer() {
    let store = store();
    let held = object(
        "ConfigMap",
        &json!({"metadata": {"finalizers": ["a.example/b"]}}),
    );
    store.create(held).unwrap();
    store
        .delete("ConfigMap", "default", "a", DeleteOptions::default())
        .unwrap();
    let mut new = Value::clone(&store.get("ConfigMap", "default", "a").unwrap());
    new["metadata"]["finalizers"] = json!(["a.example/b", "a.example/c"]);
    assert_eq!(
        shown(&store.update(new).unwrap_err()),
        "422 Invalid\nmetadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found \
         new finalizers []string{\"a.example/c\"} (FieldValueForbidden)",
    );
}

#[test]
fn what_the_server_completes() {
    let store = store();
    let secret = object(
        "Secret",
        &json!({"data": {"a": "eA=="}, "stringData": {"a": "y", "b": "z"}}),
    );
    let secret = store.create(secret).unwrap();
    assert_eq!(secret["type"], "Opaque");
    assert_eq!(secret["data"], json!({"a": "eQ==", "b": "eg=="}));
    assert_eq!(secret["stringData"], Value::Null);
    assert_eq!(secret["metadata"]["generation"], Value::Null);
    let limits = json!({"resources": {"limits": {"cpu": "1500m"}}});
    let pod = object("Pod", &json!({"spec": {"containers": [limits]}}));
    let pod = store.create(pod).unwrap();
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "1500m"})
    );
    assert_eq!(pod["metadata"]["generation"], 1);
}

/// They are in file names and in files of the pod.
#[test]
fn no_name_of_a_pod_leaves_its_line_or_its_folder() {
    let store = store();
    for (field, text) in [
        ("hostname", "../../x"),
        ("hostname", "Db-0"),
        ("hostname", "a\nb 1.2.3.4"),
        ("subdomain", "a b"),
        ("nodeName", "../x"),
    ] {
        let pod = object("Pod", &json!({"spec": {field: text}}));
        let body = store.create(pod).unwrap_err().body();
        let cause = &body["details"]["causes"][0];
        assert_eq!(cause["field"], format!("spec.{field}"), "{text}: {body}");
    }
    let named = json!({"spec": {"hostname": "db-0", "subdomain": "db", "nodeName": "n.example"}});
    store.create(object("Pod", &named)).unwrap();
    let mut unnamed = object(
        "Pod",
        &json!({"spec": {"hostname": "", "subdomain": "", "nodeName": ""}}),
    );
    unnamed["metadata"]["name"] = "b".into();
    store.create(unnamed).unwrap();
}
