//! What an update may not change, what belongs to a status, and which refusal comes first.

use super::rules::{merge, object, shown};
use super::*;

/// What becomes of `changes`, one after the other, each to the object as it was made.
fn check(made: Value, changes: &[(Value, &str)]) {
    let store = store();
    let stored = store.create(made).unwrap();
    for (change, expected) in changes {
        let mut new = Value::clone(&stored);
        merge(&mut new, change);
        let outcome = match store.update_with(new, Effect::DryRun) {
            Ok(_) => "stored".to_owned(),
            Err(status) => shown(&status),
        };
        assert_eq!(outcome, *expected, "{change}");
    }
}

const POD: &str = "422 Invalid\nspec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
                   `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                   existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                   previously negative) (FieldValueForbidden)";

#[test]
fn of_a_pod_hardly_anything_changes() {
    let pod = object(
        "Pod",
        &json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
    );
    check(
        pod,
        &[
            (json!({"spec": {"containers": [{"image": "j"}]}}), "stored"),
            (json!({"spec": {"activeDeadlineSeconds": 5}}), "stored"),
            (json!({"spec": {"nodeName": "n"}}), POD),
            (json!({"spec": {"hostname": "h"}}), POD),
            (json!({"spec": {"restartPolicy": "Never"}}), POD),
            (json!({"spec": {"nodeSelector": {"a": "b"}}}), POD),
            (json!({"spec": {"containers": [{"command": ["x"]}]}}), POD),
            (
                json!({"spec": {"tolerations": [{"key": "b"}]}}),
                "422 Invalid\nspec.tolerations: Forbidden: existing toleration can not be modified except its \
                 tolerationSeconds (FieldValueForbidden)",
            ),
        ],
    );
}

/// `ValidatePodUpdate` of a pod with scheduling gates.
#[test]
fn a_pod_that_no_scheduler_has_seen_may_be_narrowed() {
    let pod = object(
        "Pod",
        &json!({"spec": {"schedulingGates": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"a": "b"}}}),
    );
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
    }}});
    check(
        pod,
        &[
            (json!({"spec": {"nodeSelector": {"c": "d"}}}), "stored"),
            (json!({"spec": {"nodeSelector": {"a": "c"}}}), POD),
            (json!({"spec": {"affinity": affinity}}), "stored"),
            (json!({"spec": {"schedulingGates": null}}), "stored"),
            (
                json!({"spec": {"schedulingGates": [{"name": "a"}, {"name": "c"}]}}),
                "422 Invalid\nspec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling \
                 gate 'c' (FieldValueForbidden)",
            ),
        ],
    );
}

#[test]
fn a_pod_gets_its_node_by_a_binding_once() {
    let store = store();
    let pod = |rest: &Value| {
        let mut pod = Value::clone(&store.create(object("Pod", rest)).unwrap());
        pod["spec"]["nodeName"] = "n".into();
        pod
    };
    let bound = store.bind(pod(&json!({})), Effect::Stored).unwrap();
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["metadata"]["generation"], 1);
    let mut other = Value::clone(&bound);
    other["spec"]["nodeName"] = "m".into();
    let refused = store.bind(other, Effect::Stored).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n\""
    );
    let gated =
        pod(&json!({"metadata": {"name": "b"}, "spec": {"schedulingGates": [{"name": "x"}]}}));
    let refused = store.bind(gated, Effect::Stored).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Operation cannot be fulfilled on pods/binding \"b\": pod b has non-empty .spec.schedulingGates"
    );
}

#[test]
fn ephemeral_containers_are_only_added() {
    let store = store();
    let stored = store.create(object("Pod", &json!({}))).unwrap();
    let with = |from: &Value, containers: Value| {
        let mut pod = from.clone();
        pod["spec"]["ephemeralContainers"] = containers;
        pod
    };
    let (one, two) = (
        json!({"name": "d1", "image": "i"}),
        json!({"name": "d2", "image": "i"}),
    );
    let refused = store.update(with(&stored, json!([one]))).unwrap_err();
    assert_eq!(shown(&refused), POD);
    let mut all = with(&stored, json!([one]));
    // Nothing else is written.
    all["spec"]["hostname"] = "h".into();
    let first = store.add_containers(all, Effect::Stored).unwrap();
    assert_eq!(first["metadata"]["generation"], 2);
    assert_eq!(first["spec"]["hostname"], Value::Null);
    let held = first["spec"]["ephemeralContainers"][0].clone();
    assert_eq!(held["terminationMessagePolicy"], "File");
    let second = with(&first, json!([held, two]));
    let second = store.add_containers(second, Effect::Stored).unwrap();
    assert_eq!(second["spec"]["ephemeralContainers"][1]["name"], "d2");
    let mut changed = held.clone();
    changed["image"] = "j".into();
    let mut targeted = json!({"name": "d3", "image": "i", "targetContainerName": "none"});
    targeted["ports"] = json!([{"containerPort": 80}]);
    let field = "spec.ephemeralContainers";
    for (containers, expected) in [
        (
            json!([changed, second["spec"]["ephemeralContainers"][1]]),
            format!(
                "{field}: Forbidden: existing ephemeral containers \"d1\" may not be changed (FieldValueForbidden)"
            ),
        ),
        (
            json!([held]),
            format!(
                "{field}: Forbidden: existing ephemeral containers \"d2\" may not be removed (FieldValueForbidden)"
            ),
        ),
        (
            json!([held, second["spec"]["ephemeralContainers"][1], targeted]),
            format!(
                "{field}[2].targetContainerName: Not found: \"none\" (FieldValueNotFound)\n\
                 {field}[2].ports: Forbidden: cannot be set for an Ephemeral Container (FieldValueForbidden)"
            ),
        ),
    ] {
        let refused = store.add_containers(with(&second, containers), Effect::Stored);
        assert_eq!(
            shown(&refused.unwrap_err()),
            format!("422 Invalid\n{expected}")
        );
    }
}

#[test]
fn a_node_keeps_its_ranges_and_its_provider() {
    let ranges = "422 Invalid\nspec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid \
                  (FieldValueForbidden)";
    let mut made = node("nftables");
    check(
        made.clone(),
        &[(
            json!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}),
            "stored",
        )],
    );
    made["spec"] =
        json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "lab://one"});
    check(
        made,
        &[
            (json!({"spec": {"unschedulable": true}}), "stored"),
            (json!({"spec": {"podCIDR": "10.2.0.0/24"}}), ranges),
            (
                json!({"spec": {"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}}),
                ranges,
            ),
            (json!({"spec": {"podCIDR": null, "podCIDRs": null}}), ranges),
            (
                json!({"spec": {"providerID": "lab://two", "externalID": "x"}}),
                "422 Invalid\nspec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid \
                 (FieldValueForbidden)\nspec.externalID: Forbidden: may not be updated (FieldValueForbidden)",
            ),
        ],
    );
}

#[test]
fn only_a_load_balancer_has_an_ingress() {
    let store = store();
    for (kind, ingress, expected) in [
        (
            "ClusterIP",
            json!({"ip": "192.0.2.1"}),
            "422 Invalid\nstatus.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer' \
             (FieldValueForbidden)",
        ),
        (
            "LoadBalancer",
            json!({"ip": "192.0.2.1", "ipMode": "VIP"}),
            "stored",
        ),
        (
            "LoadBalancer",
            json!({"ip": "192.0.2"}),
            "422 Invalid\nstatus.loadBalancer.ingress[0].ip: Invalid value: \"192.0.2\": must be a valid IP address, (e.g. \
             10.9.8.7 or 2001:db8::ffff) (FieldValueInvalid)",
        ),
        (
            "LoadBalancer",
            json!({"hostname": "A", "ipMode": "VIP"}),
            "422 Invalid\nstatus.loadBalancer.ingress[0].hostname: Invalid value: \"A\": a lowercase RFC 1123 subdomain must \
             consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
             character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*') (FieldValueInvalid)\n\
             status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set \
             (FieldValueForbidden)",
        ),
    ] {
        let mut web = service("");
        web["spec"]["type"] = kind.into();
        web["metadata"] = json!({"generateName": "web-"});
        let mut web = Value::clone(&store.create(web).unwrap());
        web["status"]["loadBalancer"]["ingress"] = json!([ingress]);
        let outcome = match store.update_status(web) {
            Ok(_) => "stored".to_owned(),
            Err(status) => shown(&status),
        };
        assert_eq!(outcome, expected, "{kind} {ingress}");
    }
}

/// Kubernetes validates before it looks whether the name is free, and what has the name keeps all that it was given.
#[test]
fn a_taken_name_is_told_after_what_is_invalid() {
    let store = store();
    let mut web = service("");
    web["spec"]["type"] = "NodePort".into();
    let held = store.create(web.clone()).unwrap();
    for rest in [
        json!({}),
        json!({"spec": {"clusterIP": "10.96.0.77", "ports": [{"nodePort": 30077}]}}),
    ] {
        let mut again = web.clone();
        merge(&mut again, &rest);
        assert_eq!(
            store.create(again).unwrap_err().reason(),
            "AlreadyExists",
            "{rest}"
        );
    }
    let mut wrong = web.clone();
    wrong["spec"]["ports"][0]["port"] = 0.into();
    assert!(
        shown(&store.create(wrong).unwrap_err()).starts_with("422 Invalid\nspec.ports[0].port: ")
    );
    // Its address is its own still, and those of the refused ones are free.
    let address = |ip: &Value, port: &Value| {
        let mut other = service("");
        other["metadata"]["name"] = "other".into();
        merge(
            &mut other,
            &json!({"spec": {"type": "NodePort", "clusterIP": ip, "ports": [{"nodePort": port}]}}),
        );
        store.create_with(other, Effect::DryRun)
    };
    let own = &held["spec"];
    address(&own["clusterIP"], &json!(30078)).unwrap_err();
    address(&json!("10.96.0.78"), &own["ports"][0]["nodePort"]).unwrap_err();
    address(&json!("10.96.0.77"), &json!(30077)).unwrap();
    for (kind, wrong) in [
        ("Pod", json!({"spec": {"restartPolicy": "Often"}})),
        ("Deployment", json!({"spec": {"replicas": -1}})),
        ("Namespace", json!({"metadata": {"labels": {"a b": "c"}}})),
    ] {
        store.create(object(kind, &json!({}))).unwrap();
        assert_eq!(
            store.create(object(kind, &json!({}))).unwrap_err().reason(),
            "AlreadyExists"
        );
        let refused = shown(&store.create(object(kind, &wrong)).unwrap_err());
        assert!(refused.starts_with("422 Invalid"), "{kind}: {refused}");
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let dotted = |field: &str, name: &str| {
        format!(
            "metadata.{field}: Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
             characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
             for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*') (FieldValueInvalid)"
        )
    };
    let policy = "spec.restartPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"OnFailure\", \"Never\" \
                  (FieldValueNotSupported)";
    let wrong = json!({"restartPolicy": "Often"});
    for (metadata, expected) in [
        (json!({"name": "A_"}), dotted("name", "A_")),
        (
            json!({"name": null}),
            "metadata.name: Required value: name or generateName is required (FieldValueRequired)"
                .to_owned(),
        ),
        (
            json!({"name": "A", "finalizers": ["x y"]}),
            format!(
                "{}\nmetadata.finalizers: Invalid value: \"x y\": name part must consist of alphanumeric characters, '-', '_' \
                 or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
                 regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') (FieldValueInvalid)\n\
                 metadata.finalizers[0]: Invalid value: \"x y\": name is neither a standard finalizer name nor is it fully \
                 qualified (FieldValueInvalid)",
                dotted("name", "A")
            ),
        ),
    ] {
        let pod = object("Pod", &json!({"metadata": metadata, "spec": wrong}));
        let refused = shown(&store().create(pod).unwrap_err());
        assert_eq!(refused, format!("422 Invalid\n{expected}\n{policy}"));
    }
    // What the cluster's own rules refuse is in the same list.
    let mut web = service("");
    merge(
        &mut web,
        &json!({"metadata": {"name": "web-"}, "spec": {"sessionAffinity": "Often", "ports": [{"port": 0}]}}),
    );
    let refused = shown(&store().create(web).unwrap_err());
    let fields: Vec<_> = refused
        .lines()
        .skip(1)
        .filter_map(|it| it.split(": ").next())
        .collect();
    assert_eq!(
        fields,
        [
            "metadata.name",
            "spec.ports[0].port",
            "spec.ports[0].targetPort",
            "spec.sessionAffinity",
        ]
    );
    let generated = object(
        "Pod",
        &json!({"metadata": {"name": null, "generateName": "AB-"}}),
    );
    let refused = shown(&store().create(generated).unwrap_err());
    assert!(
        refused.starts_with(&format!(
            "422 Invalid\n{}\nmetadata.name: ",
            dotted("generateName", "AB-")
        )),
        "{refused}"
    );
}

#[test]
fn a_resize_changes_the_resources_and_nothing_else() {
    let store = store();
    let with = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let made = store
        .create(object("Pod", &json!({"spec": {"containers": [with("1")]}})))
        .unwrap();
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let mut new = Value::clone(&made);
    merge(
        &mut new,
        &json!({"spec": {"containers": [with("2")], "hostname": "h"}}),
    );
    assert_eq!(shown(&store.update(new.clone()).unwrap_err()), POD);
    let resized = store.resize(new, Effect::Stored).unwrap();
    assert_eq!(
        resized["spec"]["containers"][0]["resources"],
        json!({"requests": {"cpu": "2"}})
    );
    assert_eq!(resized["spec"]["hostname"], Value::Null);
    assert_eq!(resized["metadata"]["generation"], 2);
    let mut wrong = Value::clone(&resized);
    wrong["spec"]["containers"][0]["resources"] = json!({});
    assert_eq!(
        shown(&store.resize(wrong, Effect::Stored).unwrap_err()),
        "422 Invalid\nspec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing \
         (FieldValueInvalid)\nspec.containers[0].resources.requests: Forbidden: resource requests cannot be removed \
         (FieldValueForbidden)"
    );
}
