//! What kube-apiserver refuses of kinds that are only stored, in its words; what stays as it was; limits of requests.

use serde_json::{Value, json};

use crate::http::Client;

const MERGE: &str = "application/merge-patch+json";

/// What is said after the name of the object; empty if it is stored.
fn why((code, answer): (u16, Value)) -> String {
    if code < 300 {
        return String::new();
    }
    let message = answer["message"].as_str().unwrap_or_default();
    let why = message.split_once(" is invalid: ");
    format!("{code} {}", why.map_or(message, |(_, it)| it))
}

/// Fields that do not change, of the kinds of `pkg/apis/*/validation` that have any.
#[test]
fn fields_that_do_not_change() {
    let storage = "/apis/storage.k8s.io/v1";
    let attachment =
        json!({"attacher": "a.example", "nodeName": "n", "source": {"persistentVolumeName": "v"}});
    let class = json!({"provisioner": "a.example/p", "parameters": {"a": "b"}});
    let reference =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    let immutable = "field is immutable";
    for (path, object, patch, said) in [
        (
            format!("{storage}/csidrivers"),
            json!({"spec": {"attachRequired": true}}),
            json!({"spec": {"attachRequired": false}}),
            format!("spec.attachedRequired: Invalid value: false: {immutable}"),
        ),
        (
            format!("{storage}/csidrivers"),
            json!({"spec": {}}),
            json!({"spec": {"volumeLifecycleModes": ["Ephemeral"]}}),
            format!("spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: {immutable}"),
        ),
        (format!("{storage}/csidrivers"), json!({"spec": {}}), json!({"spec": {"storageCapacity": true}}), String::new()),
        (
            format!("{storage}/storageclasses"),
            class.clone(),
            json!({"provisioner": "b.example/p"}),
            format!("provisioner: Invalid value: \"b.example/p\": {immutable}"),
        ),
        (
            format!("{storage}/storageclasses"),
            class.clone(),
            json!({"parameters": {"a": "c"}}),
            format!("parameters: Invalid value: {{\"a\":\"c\"}}: {immutable}"),
        ),
        (
            format!("{storage}/storageclasses"),
            class.clone(),
            json!({"reclaimPolicy": "Retain"}),
            format!("reclaimPolicy: Invalid value: \"Retain\": {immutable}"),
        ),
        (
            format!("{storage}/storageclasses"),
            class.clone(),
            json!({"volumeBindingMode": "WaitForFirstConsumer"}),
            format!("volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": {immutable}"),
        ),
        (format!("{storage}/storageclasses"), class, json!({"allowVolumeExpansion": true}), String::new()),
        (
            format!("{storage}/namespaces/default/csistoragecapacities"),
            json!({"storageClassName": "a"}),
            json!({"storageClassName": "b"}),
            format!("storageClassName: Invalid value: \"b\": {immutable}"),
        ),
        (
            format!("{storage}/volumeattachments"),
            json!({"spec": attachment}),
            json!({"spec": {"nodeName": "m"}}),
            format!(
                "spec: Invalid value: {{\"attacher\":\"a.example\",\"nodeName\":\"m\",\"source\":\
                 {{\"persistentVolumeName\":\"v\"}}}}: {immutable}"
            ),
        ),
        (
            format!("{storage}/volumeattributesclasses"),
            json!({"driverName": "a.example", "parameters": {"a": "b"}}),
            json!({"driverName": "b.example", "parameters": {"a": "c"}}),
            "[driverName: Forbidden: updates to driverName are forbidden., parameters: Forbidden: updates to parameters are \
             forbidden.]"
                .to_owned(),
        ),
        (
            format!("{storage}/csinodes"),
            json!({"spec": {"drivers": [{"name": "a.example", "nodeID": "1"}]}}),
            json!({"spec": {"drivers": [{"name": "a.example", "nodeID": "2"}]}}),
            format!(
                "spec.drivers: Invalid value: {{\"name\":\"a.example\",\"nodeID\":\"2\",\"topologyKeys\":null}}: {immutable}"
            ),
        ),
        (
            format!("{storage}/csinodes"),
            json!({"spec": {"drivers": [{"name": "a.example", "nodeID": "1"}]}}),
            json!({"spec": {"drivers": [
                {"name": "a.example", "nodeID": "1", "allocatable": {"count": 3}}, {"name": "b.example", "nodeID": "2"},
            ]}}),
            String::new(),
        ),
        (
            "/apis/networking.k8s.io/v1/ipaddresses".to_owned(),
            json!({"spec": {"parentRef": {"resource": "gateways", "name": "a"}}}),
            json!({"spec": {"parentRef": {"name": "b"}}}),
            format!("spec.parentRef: Invalid value: {{\"name\":\"b\",\"resource\":\"gateways\"}}: {immutable}"),
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims".to_owned(),
            json!({"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}}),
            json!({"spec": {"devices": {"requests": []}}}),
            format!("spec: Invalid value: {{\"devices\":{{\"requests\":null}}}}: {immutable}"),
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            json!({"value": 1}),
            json!({"value": 2}),
            "value: Forbidden: may not be changed in an update.".to_owned(),
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            json!({"value": 1}),
            json!({"preemptionPolicy": "Never"}),
            format!("preemptionPolicy: Invalid value: \"Never\": {immutable}"),
        ),
        (
            "/apis/node.k8s.io/v1/runtimeclasses".to_owned(),
            json!({"handler": "a"}),
            json!({"handler": "b"}),
            format!("handler: Invalid value: \"b\": {immutable}"),
        ),
        (
            "/apis/networking.k8s.io/v1/ingressclasses".to_owned(),
            json!({"spec": {"controller": "a.example/c"}}),
            json!({"spec": {"controller": "b.example/c"}}),
            format!("spec.controller: Invalid value: \"b.example/c\": {immutable}"),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(),
            json!({"roleRef": reference}),
            json!({"roleRef": {"name": "edit"}}),
            "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\",\"name\":\"edit\"}: \
             cannot change roleRef"
                .to_owned(),
        ),
        (
            "/api/v1/namespaces/default/resourcequotas".to_owned(),
            json!({"spec": {"scopes": ["BestEffort"]}}),
            json!({"spec": {"scopes": ["NotBestEffort"]}}),
            format!("spec.scopes: Invalid value: [\"NotBestEffort\"]: {immutable}"),
        ),
        (
            "/api/v1/namespaces/default/secrets".to_owned(),
            json!({"type": "Opaque"}),
            json!({"type": "example.com/other"}),
            format!("type: Invalid value: \"example.com/other\": {immutable}"),
        ),
    ] {
        let client = Client::new();
        let mut object = object;
        let name = if path.ends_with("ipaddresses") { "192.0.2.1" } else { "a" };
        let one = format!("{path}/{name}");
        object["metadata"] = json!({"name": name});
        assert_eq!(why(client.json("POST", &path, &object)), "", "{path}");
        let (_, before) = client.get(&one);
        let patched = client.send("PATCH", &one, MERGE, patch.to_string().as_bytes());
        let said = if said.is_empty() { said } else { format!("422 {said}") };
        assert_eq!(why(patched), said, "{path} {patch}");
        if !said.is_empty() {
            assert_eq!(client.get(&one).1, before, "{path}");
        }
    }
}

#[test]
fn what_a_certificate_request_asks_for_stays() {
    let client = Client::new();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0=";
    let spec =
        json!({"request": request, "signerName": "example.com/s", "usages": ["client auth"]});
    let object = json!({"metadata": {"name": "a"}, "spec": spec});
    assert_eq!(why(client.json("POST", requests, &object)), "");
    let patch = br#"{"metadata": {"labels": {"a": "b"}}, "spec": {"usages": ["server auth"]}}"#;
    let (_, patched) = client.send("PATCH", &format!("{requests}/a"), MERGE, patch);
    assert_eq!(
        (&patched["spec"], &patched["metadata"]["labels"]["a"]),
        (&spec, &json!("b"))
    );
    // What `kubectl certificate approve` does.
    let approval = format!("{requests}/a/approval");
    let mut approved = client.get(&approval).1;
    let condition = json!({"type": "Approved", "status": "True", "reason": "r", "message": "m"});
    approved["status"]["conditions"] = json!([condition]);
    approved["spec"]["usages"] = json!(["server auth"]);
    assert_eq!(why(client.json("PUT", &approval, &approved)), "");
    let (_, stored) = client.get(&format!("{requests}/a"));
    let conditions = &stored["status"]["conditions"];
    assert_eq!(
        (&stored["spec"], &conditions[0]["type"]),
        (&spec, &json!("Approved"))
    );
    let managers = stored["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers.iter().any(|it| it["subresource"] == "approval"),
        "{stored}"
    );
}

#[test]
fn an_event_is_in_the_namespace_of_its_object() {
    let client = Client::new();
    for name in ["other", "kube-system"] {
        let namespace = json!({"metadata": {"name": name}});
        client.json("POST", "/api/v1/namespaces", &namespace);
    }
    let wrong = |given: &str| {
        format!(
            "422 involvedObject.namespace: Invalid value: {given:?}: does not match event.namespace"
        )
    };
    let new = json!({
        "eventTime": "2026-01-03T00:00:00.000000Z", "reason": "r", "action": "a", "type": "Normal",
        "reportingController": "example.com/c", "reportingInstance": "c-1",
    });
    for (namespace, about, is_new, said) in [
        ("other", json!({"namespace": "other"}), false, String::new()),
        (
            "other",
            json!({"namespace": "default"}),
            false,
            wrong("default"),
        ),
        ("other", json!({}), false, wrong("")),
        ("default", json!({}), false, String::new()),
        // Of events.k8s.io those with a time.
        (
            "other",
            json!({"namespace": "default"}),
            true,
            String::new(),
        ),
        ("other", json!({}), true, wrong("")),
        ("kube-system", json!({}), true, String::new()),
        ("default", json!({}), true, String::new()),
    ] {
        let (group, field, mut object) = if is_new {
            ("apis/events.k8s.io/v1", "regarding", new.clone())
        } else {
            ("api/v1", "involvedObject", json!({}))
        };
        object["metadata"] = json!({"name": "e"});
        object[field] = about;
        let path = format!("/{group}/namespaces/{namespace}/events?dryRun=All");
        assert_eq!(
            why(client.json("POST", &path, &object)),
            said,
            "{namespace} {object}"
        );
    }
    let theirs = "/apis/events.k8s.io/v1/namespaces/default/events";
    let blank = json!({"metadata": {"name": "e"}, "eventTime": "2026-01-03T00:00:00.000000Z"});
    assert_eq!(
        why(client.json("POST", theirs, &blank)),
        "422 [reportingController: Invalid value: \"\": name part must be non-empty, reportingController: Invalid value: \"\": \
         name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), reportingController: Required value, reportingInstance: Required value, \
         action: Required value, reason: Required value, type: Invalid value: \"\": has invalid value: ]"
    );
    let old = json!({"metadata": {"name": "e"}, "eventTime": "2026-01-03T00:00:00.000000Z"});
    assert_eq!(
        why(client.json("POST", "/api/v1/namespaces/default/events", &old)),
        "422 [reportingComponent: Required value, reportingInstance: Required value, action: Required value, reason: \
         Required value]"
    );
}

#[test]
fn an_object_has_at_most_as_much_as_etcd_stores() {
    let client = Client::new();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |bytes: usize| {
        let container = json!({"name": "c", "image": "i", "args": ["x".repeat(bytes)]});
        json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    };
    let (code, status) = client.json("POST", pods, &pod(3 << 19));
    assert_eq!(
        (code, &status["message"]),
        (500, &json!("etcdserver: request is too large"))
    );
    assert_eq!(client.get(&format!("{pods}/p")).0, 404);
    assert_eq!(client.json("POST", pods, &pod(1 << 20)).0, 201);
    let large = json!({"metadata": {"annotations": {}}, "spec": pod(3 << 19)["spec"]});
    let (code, _) = client.send(
        "PATCH",
        &format!("{pods}/p"),
        MERGE,
        large.to_string().as_bytes(),
    );
    assert_eq!(code, 500);
}

#[test]
fn selectors_are_refused_in_kubernetes_words() {
    let client = Client::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    for (query, said) in [
        (
            "labelSelector=a%3Db%20c",
            "400 found 'c', expected: ',' or 'end of string'",
        ),
        (
            "labelSelector=a%20b",
            "400 unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "fieldSelector=a",
            "400 invalid selector: 'a'; can't understand 'a'",
        ),
    ] {
        for watch in ["", "&watch=1"] {
            assert_eq!(why(client.get(&format!("{maps}?{query}{watch}"))), said);
        }
    }
    client.json(
        "POST",
        maps,
        &json!({"metadata": {"name": "m", "labels": {"age": "7"}}}),
    );
    for (selector, count) in [("age%3E6", 1), ("age%3C7", 0)] {
        let (_, list) = client.get(&format!("{maps}?labelSelector={selector}"));
        assert_eq!(list["items"].as_array().unwrap().len(), count, "{selector}");
    }
}

/// `ValidateEventUpdate`: of an Event only the series changes through `events.k8s.io`; the core group keeps its old ways.
#[test]
fn an_event_changes_in_its_series_only() {
    const THEIRS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
    const CORE: &str = "/api/v1/namespaces/default/events/e";
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "Bound",
        "note": "there", "type": "Normal", "action": "Binding", "reportingController": "example.com/c",
        "reportingInstance": "c-1", "eventTime": "2026-01-03T00:00:00.000000Z",
    });
    let client = Client::new();
    let mut old = event.clone();
    old["deprecatedCount"] = 2.into();
    assert_eq!(
        why(client.json("POST", THEIRS, &old)),
        "422 count: Invalid value: \"\": needs to be unset"
    );
    let (code, made) = client.json("POST", THEIRS, &event);
    assert_eq!(code, 201, "{made}");
    let immutable = "field is immutable";
    let one = format!("{THEIRS}/e");
    for (patch, said) in [
        (
            json!({"note": "here"}),
            format!("422 message: Invalid value: \"here\": {immutable}"),
        ),
        (
            json!({"reason": "Lost"}),
            format!("422 reason: Invalid value: \"Lost\": {immutable}"),
        ),
        (
            json!({"regarding": {"name": "q"}}),
            format!(
                "422 involvedObject: Invalid value: {{\"kind\":\"Pod\",\"name\":\"q\",\"namespace\":\"default\"}}: {immutable}"
            ),
        ),
        (
            json!({"series": {"count": 1, "lastObservedTime": "2026-01-03T00:00:01.000000Z"}}),
            "422 series.count: Invalid value: \"\": should be at least 2".to_owned(),
        ),
        (
            json!({"series": {"count": 2, "lastObservedTime": "2026-01-03T00:00:01.000000Z"}}),
            String::new(),
        ),
    ] {
        let patched = client.send("PATCH", &one, MERGE, patch.to_string().as_bytes());
        assert_eq!(why(patched), said, "{patch}");
    }
    let mut other = client.get(&one).1;
    other["action"] = "Moving".into();
    let said = format!("422 action: Invalid value: \"Moving\": {immutable}");
    assert_eq!(why(client.json("PUT", &one, &other)), said);
    let patch = br#"{"message": "here"}"#;
    assert_eq!(why(client.send("PATCH", CORE, MERGE, patch)), "");
}

/// `ValidateIPAddress`, `ValidateCSINode`, and the defaults of claims for devices.
#[test]
fn of_addresses_and_devices() {
    let client = Client::new();
    let path = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    let reference = json!({"resource": "services", "namespace": "default", "name": "web"});
    for (name, parent, said) in [
        ("192.0.2.1", reference.clone(), String::new()),
        ("web", reference.clone(), format!("422 metadata.name: Invalid value: \"web\": {path}")),
        (
            "fd00:0::1",
            reference,
            "422 metadata.name: Invalid value: \"fd00:0::1\": must be in canonical form (\"fd00::1\")".to_owned(),
        ),
        (
            "192.0.2.2",
            json!({"name": "a/b"}),
            "422 [spec.parentRef.resource: Required value, spec.parentRef.name: Invalid value: \"a/b\": may not contain '/']"
                .to_owned(),
        ),
        ("192.0.2.2", Value::Null, "422 spec.parentRef: Required value".to_owned()),
    ] {
        let object = json!({"metadata": {"name": name}, "spec": {"parentRef": parent}});
        let answer = client.json("POST", "/apis/networking.k8s.io/v1/ipaddresses", &object);
        assert_eq!(why(answer), said, "{object}");
    }
    let twice = json!([{"name": "a.example", "nodeID": "1"}, {"name": "a.example", "nodeID": "1"}]);
    let object = json!({"metadata": {"name": "n"}, "spec": {"drivers": twice}});
    assert_eq!(
        why(client.json("POST", "/apis/storage.k8s.io/v1/csinodes", &object)),
        "422 spec.drivers[1].name: Duplicate value: \"a.example\""
    );
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let claim = |requests: Value| json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}});
    let none = claim(json!([{"name": "a"}]));
    assert_eq!(
        why(client.json("POST", claims, &none)),
        "422 spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"
    );
    let class = json!({"deviceClassName": "gpu"});
    let mut all = class.clone();
    all["allocationMode"] = "All".into();
    let both = json!([{"name": "a", "exactly": class}, {"name": "b", "exactly": all}]);
    let (code, made) = client.json("POST", claims, &claim(both));
    assert_eq!(code, 201, "{made}");
    let requests = &made["spec"]["devices"]["requests"];
    assert_eq!(
        requests[0]["exactly"],
        json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1})
    );
    assert_eq!(requests[1]["exactly"], all);
}

/// What is behind a feature gate that is off in Kubernetes 1.36 is no error, and is not kept.
#[test]
fn fields_behind_closed_gates_are_dropped() {
    let client = Client::new();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let spec = json!({"holderIdentity": "a", "strategy": "x", "preferredHolder": "b"});
    let lease = json!({"metadata": {"name": "l"}, "spec": spec});
    let (code, made) = client.json("POST", &format!("{leases}?fieldValidation=Strict"), &lease);
    assert_eq!(
        (code, &made["spec"]),
        (201, &json!({"holderIdentity": "a"}))
    );
    let patch = br#"{"spec": {"strategy": "y"}}"#;
    let (code, kept) = client.send("PATCH", &format!("{leases}/l"), MERGE, patch);
    assert_eq!((code, &kept), (200, &made));
}

/// An empty text is no missing one where Kubernetes checks it, and what it does not check it takes.
#[test]
fn texts_that_are_empty_or_too_long() {
    let client = Client::new();
    let here = "namespaces/default";
    let slices = format!("/apis/discovery.k8s.io/v1/{here}/endpointslices");
    let slice = |endpoint: Value, port: Value| {
        let mut endpoint = endpoint;
        endpoint["addresses"] = json!(["192.0.2.1"]);
        json!({"addressType": "IPv4", "endpoints": [endpoint], "ports": [port]})
    };
    let events = format!("/apis/events.k8s.io/v1/{here}/events");
    let event = |rest: Value| {
        let mut event = json!({
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "Bound", "type": "Normal",
            "action": "Binding", "reportingController": "example.com/c", "reportingInstance": "c-1",
            "eventTime": "2026-01-03T00:00:00.000000Z",
        });
        let rest = rest.as_object().cloned().unwrap_or_default();
        event.as_object_mut().unwrap().extend(rest);
        event
    };
    let claims = format!("/api/v1/{here}/persistentvolumeclaims");
    let claim = |class: &str| {
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let pods = format!("/api/v1/{here}/pods");
    let pod = |rest: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let rest = rest.as_object().cloned().unwrap_or_default();
        spec.as_object_mut().unwrap().extend(rest);
        json!({"spec": spec})
    };
    let limits = |limits: Value| pod(json!({"resources": {"limits": limits}}));
    let claiming = json!([{"name": "c", "image": "i", "resources": {"claims": [{"name": "a"}]}}]);
    let quorum = json!({"spec": {"minAvailable": 1, "unhealthyPodEvictionPolicy": ""}});
    let policies = format!("/apis/networking.k8s.io/v1/{here}/networkpolicies");
    let selector = json!({"matchExpressions": [{"key": "a"}]});
    let long = "x".repeat(129);
    for (path, object, said) in [
        (
            &slices,
            slice(json!({"nodeName": ""}), json!({"port": 80})),
            "422 endpoints[0].nodeName: Invalid value: \"\": a",
        ),
        (
            &slices,
            slice(json!({}), json!({"port": 80, "protocol": ""})),
            "422 ports[0].protocol: Unsupported value: \"\": ",
        ),
        (
            &slices,
            slice(
                json!({"hints": {"forZones": [{"name": ""}]}}),
                json!({"name": "", "port": 80}),
            ),
            "",
        ),
        (
            &pods,
            pod(json!({"runtimeClassName": ""})),
            "422 spec.runtimeClassName: Invalid value: \"\": a lowercase",
        ),
        (
            &pods,
            pod(json!({"hostnameOverride": ""})),
            "422 spec.hostnameOverride: Invalid value: \"\": a lowercase",
        ),
        (
            &pods,
            pod(json!({"securityContext": {"fsGroupChangePolicy": ""}})),
            "422 spec.securityContext.fsGroupChangePolicy: Unsupported value: \"\": ",
        ),
        (
            &pods,
            pod(json!({"securityContext": {"sysctls": [{"name": "net.a"}]}})),
            "",
        ),
        (
            &pods,
            pod(json!({"schedulingGates": [{"name": "a b"}]})),
            "422 spec.schedulingGates[0].name: Invalid value: \"a b\": name part",
        ),
        (&pods, limits(json!({"cpu": "1"})), ""),
        (
            &pods,
            limits(json!({"k": "1"})),
            "422 spec.resources.limits[k]: Invalid value: \"k\": must be a standard resource type or fully qualified",
        ),
        (
            &pods,
            limits(json!({"example.com/a": "1"})),
            "422 spec.resources.limits[example.com/a]: Unsupported value: \"example.com/a\": supported values: \"cpu\", \"huge",
        ),
        (
            &pods,
            pod(json!({"resources": {"claims": [{"name": "a"}]}})),
            "422 spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
        ),
        (
            &pods,
            pod(json!({"resourceClaims": [{"name": "a"}]})),
            "422 spec.resourceClaims[0]: Invalid value: {\"name\":\"a\"}: must specify one of: `resourceClaimName`, ",
        ),
        (
            &pods,
            pod(json!({"containers": claiming})),
            "422 spec.containers[0].resources.claims[0]: Not found: \"a\": must be one of the names in \
             pod.spec.resourceClaims which is empty",
        ),
        (
            &format!("/apis/policy/v1/{here}/poddisruptionbudgets"),
            quorum,
            "422 spec.unhealthyPodEvictionPolicy: Unsupported value: \"\": ",
        ),
        (
            &format!("/api/v1/{here}/limitranges"),
            json!({"spec": {}}),
            "",
        ),
        (
            &"/apis/storage.k8s.io/v1/csinodes".to_owned(),
            json!({"spec": {"drivers": []}}),
            "",
        ),
        (&claims, claim(""), ""),
        (
            &claims,
            claim("A"),
            "422 spec.storageClassName: Invalid value: \"A\": a lowercase",
        ),
        (
            &policies,
            json!({"spec": {"podSelector": selector}}),
            "422 spec.podSelector.matchExpressions[0].operator: Invalid value: \"\": not a valid selector operator",
        ),
        (
            &events,
            event(json!({"action": long})),
            "422 action: Invalid value: \"\": can have at most 128 characters",
        ),
        (
            &events,
            event(json!({"note": "x".repeat(1025)})),
            "422 message: Invalid value: \"\": can have at most 1024 characters",
        ),
        (
            &events,
            event(json!({"reportingController": "a b"})),
            "422 reportingController: Invalid value: \"a b\": name part",
        ),
        (
            &events,
            event(json!({"eventTime": "2026-01-03T00:00:00Z"})),
            "400 Event in version \"v1\" cannot be handled as a Event: \
            parsing time \"2026-01-03T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"",
        ),
    ] {
        let mut named = object;
        named["metadata"] = json!({"generateName": "a-"});
        let (code, answer) = client.json("POST", path, &named);
        let found = why((code, answer));
        let is_right = if said.is_empty() {
            found.is_empty()
        } else {
            found.starts_with(said)
        };
        assert!(is_right, "{named}: {found}, expected {said}");
    }
}

/// What a behavior does not say has its defaults, also beside what it says (`autoscaling/v2/defaults.go`).
#[test]
fn a_behavior_may_say_a_part() {
    let client = Client::new();
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
    let spec = json!({"maxReplicas": 3, "scaleTargetRef": target, "behavior": behavior});
    let (code, made) = client.json(
        "POST",
        path,
        &json!({"metadata": {"name": "web"}, "spec": spec}),
    );
    assert_eq!(code, 201, "{made}");
    let behavior = &made["spec"]["behavior"];
    assert_eq!(behavior["scaleDown"]["stabilizationWindowSeconds"], 60);
    assert_eq!(behavior["scaleDown"]["policies"][0]["type"], "Percent");
    assert_eq!(behavior["scaleUp"]["policies"][0]["value"], 4);
}

/// Kinds whose names are more or less than lower case labels joined by dots.
#[test]
fn names_are_those_of_their_kind() {
    let client = Client::new();
    let pods = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pods}});
    let about = json!({"involvedObject": {"namespace": "default"}});
    let (sets, long) = ("apps/v1 statefulsets", "a".repeat(64));
    for (kind, object, name, said) in [
        (sets, &set, "a.b", "must not contain dots"),
        (sets, &set, &*long, "must be no more than 63 characters"),
        ("v1 events", &about, "system:a.B", ""),
        ("v1 events", &about, "a/b", "may not contain '/'"),
        ("policy/v1 poddisruptionbudgets", &json!({}), "A_b", ""),
    ] {
        let (version, plural) = kind.split_once(' ').unwrap();
        let root = if version == "v1" { "api" } else { "apis" };
        let path = format!("/{root}/{version}/namespaces/default/{plural}");
        let mut named = object.clone();
        named["metadata"] = json!({"name": name});
        let found = why(client.json("POST", &path, &named));
        let expect = match said {
            "" => String::new(),
            said => format!("422 metadata.name: Invalid value: {name:?}: {said}"),
        };
        assert_eq!(found, expect, "{kind}");
    }
}
