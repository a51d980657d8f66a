//! What is wrong with objects of kinds that the lab stores, in the words of `pkg/apis/*/validation`.

use super::rules::{merge, shown};
use super::*;

/// An object that is right.
fn object(kind: &str) -> Value {
    let (version, rest) = match kind {
        "PersistentVolumeClaim" => (
            "v1",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        "PersistentVolume" => (
            "v1",
            json!({"spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"},
            }}),
        ),
        "HorizontalPodAutoscaler" => (
            "autoscaling/v2",
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}}}),
        ),
        "CronJob" => (
            "batch/v1",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            }}}}}}),
        ),
        "ValidatingWebhookConfiguration" => (
            "admissionregistration.k8s.io/v1",
            json!({"webhooks": [webhook(&json!({}))]}),
        ),
        "PodDisruptionBudget" => ("policy/v1", json!({"spec": {"minAvailable": 1}})),
        "PriorityClass" => ("scheduling.k8s.io/v1", json!({"value": 5})),
        "ResourceQuota" => (
            "v1",
            json!({"spec": {"hard": {"pods": "5", "cpu": "1500m"}}}),
        ),
        "LimitRange" => (
            "v1",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}),
        ),
        "CertificateSigningRequest" => (
            "certificates.k8s.io/v1",
            json!({"spec": {"request": REQUEST, "signerName": "example.com/mine", "usages": ["client auth"]}}),
        ),
        "Role" | "ClusterRole" => (
            "rbac.authorization.k8s.io/v1",
            json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        ),
        "RoleBinding" | "ClusterRoleBinding" => (
            "rbac.authorization.k8s.io/v1",
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}),
        ),
        "Endpoints" => (
            "v1",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
        ),
        "Ingress" => (
            "networking.k8s.io/v1",
            json!({"spec": {"rules": [{"host": "a.example", "http": {"paths": [{
                "path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}},
            }]}}]}}),
        ),
        "NetworkPolicy" => (
            "networking.k8s.io/v1",
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]}}),
        ),
        "StorageClass" => (
            "storage.k8s.io/v1",
            json!({"provisioner": "example.com/disk"}),
        ),
        "EndpointSlice" => (
            "discovery.k8s.io/v1",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}),
        ),
        "Secret" | "ConfigMap" => ("v1", json!({})),
        _ => panic!("there is no {kind}"),
    };
    let mut made = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
    merge(&mut made, &rest);
    made
}

fn webhook(change: &Value) -> Value {
    let mut webhook = json!({
        "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://example.com"},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"]}],
    });
    merge(&mut webhook, change);
    webhook
}

const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?') (FieldValueInvalid)";

/// A request for a certificate in PEM, as the API has bytes.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUFBPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

fn result(written: Result<Arc<Value>, Status>) -> String {
    let found = written.map_or_else(|it| shown(&it), |_| "written".to_owned());
    found.replace("422 Invalid\n", "")
}

/// Creates an object of the kind with each change, and compares the causes of the refusals.
#[track_caller]
fn check(kind: &str, rows: &[(Value, &str)]) {
    assert_eq!(result(store().create(object(kind))), "written", "{kind}");
    let mut wrong = Vec::new();
    for (change, expect) in rows {
        let mut new = object(kind);
        merge(&mut new, change);
        let found = result(store().create(new));
        if found != *expect {
            wrong.push(format!("{change}\n  found: {found}\n  expected: {expect}"));
        }
    }
    assert!(wrong.is_empty(), "{kind}: {}", wrong.join("\n"));
}

/// The same for updates.
#[track_caller]
fn check_update(kind: &str, rows: &[(Value, &str)]) {
    for (change, expect) in rows {
        let store = store();
        let mut new = Value::clone(&store.create(object(kind)).unwrap());
        merge(&mut new, change);
        assert_eq!(result(store.update(new)), *expect, "{kind} {change}");
    }
}

#[test]
fn claims() {
    let immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and \
                     volumeAttributesClassName for bound claims (FieldValueForbidden)";
    check(
        "PersistentVolumeClaim",
        &[
            (
                json!({"spec": {"accessModes": null, "resources": null}}),
                "spec.accessModes: Required value: at least 1 access mode is required (FieldValueRequired)\n\
                 spec.resources[storage]: Required value (FieldValueRequired)",
            ),
            (
                json!({"spec": {"accessModes": ["ReadSome"]}}),
                "spec.accessModes: Unsupported value: \"ReadSome\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \
                 \"ReadWriteOnce\", \"ReadWriteOncePod\" (FieldValueNotSupported)",
            ),
            (
                json!({"spec": {"resources": {"requests": {"storage": "0"}}}}),
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero (FieldValueInvalid)",
            ),
        ],
    );
    check_update(
        "PersistentVolumeClaim",
        &[
            (
                json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
                immutable,
            ),
            (
                json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
                immutable,
            ),
            (json!({"spec": {"volumeName": "v"}}), "written"),
            (json!({"spec": {"storageClassName": "c"}}), "written"),
        ],
    );
}

#[test]
fn volumes() {
    check(
        "PersistentVolume",
        &[
            (
                json!({"spec": {"accessModes": null, "capacity": {"storage": "0"}}}),
                "spec.accessModes: Required value (FieldValueRequired)\n\
                 spec.capacity[storage]: Invalid value: \"0\": must be greater than zero (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"hostPath": null}}),
                "spec: Required value: must specify a volume type (FieldValueRequired)",
            ),
            (
                json!({"spec": {"nfs": {"server": "s", "path": "/"}}}),
                "spec.nfs: Forbidden: may not specify more than 1 volume type (FieldValueForbidden)",
            ),
            (
                json!({"spec": {"hostPath": null, "local": {"path": "/data"}}}),
                "spec.nodeAffinity: Required value: Local volume requires node affinity (FieldValueRequired)",
            ),
        ],
    );
    check_update(
        "PersistentVolume",
        &[
            (
                json!({"spec": {"hostPath": {"path": "/other"}}}),
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation \
                 (FieldValueForbidden)",
            ),
            (json!({"spec": {"capacity": {"storage": "2Gi"}}}), "written"),
        ],
    );
}

#[test]
fn webhooks() {
    let all = |webhooks: &[Value]| json!({"webhooks": webhooks});
    let one = |change: Value| all(&[webhook(&change)]);
    check(
        "ValidatingWebhookConfiguration",
        &[
            (
                all(&[webhook(&json!({})), webhook(&json!({}))]),
                "webhooks[1].name: Duplicate value: \"a.b.c\" (FieldValueDuplicate)",
            ),
            (
                one(json!({"clientConfig": {"url": null}})),
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required (FieldValueRequired)",
            ),
            (
                one(json!({"admissionReviewVersions": ["v1", "v1"]})),
                "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v1\": duplicate version (FieldValueInvalid)",
            ),
            (
                one(
                    json!({"rules": [{"operations": ["READ"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [""]}]}),
                ),
                "webhooks[0].rules[0].operations[0]: Unsupported value: \"READ\": supported values: \"*\", \"CONNECT\", \"CREATE\", \
                 \"DELETE\", \"UPDATE\" (FieldValueNotSupported)\n\
                 webhooks[0].rules[0].resources[0]: Required value (FieldValueRequired)",
            ),
        ],
    );
}

#[test]
fn a_job_of_a_cron_job_gets_its_selector_from_the_server() {
    let selector = json!({"matchLabels": {"a": "b"}});
    check(
        "CronJob",
        &[(
            json!({"spec": {"jobTemplate": {"spec": {"selector": selector}}}}),
            "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be \
             auto-generated (FieldValueInvalid)",
        )],
    );
}

#[test]
fn autoscalers_and_budgets() {
    check(
        "HorizontalPodAutoscaler",
        &[
            (
                json!({"spec": {"maxReplicas": 0}}),
                "spec.maxReplicas: Required value: must be set and greater than 0 (FieldValueRequired)\n\
                 spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas` (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"minReplicas": 5}}),
                "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas` (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"minReplicas": 0}}),
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1 (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"scaleTargetRef": {"kind": "", "name": "a/b"}}}),
                "spec.scaleTargetRef.kind: Required value (FieldValueRequired)\n\
                 spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/' (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"scaleTargetRef": {"apiVersion": "v1"}}}),
                "spec.scaleTargetRef.apiVersion: Invalid value: \"v1\": apiVersion must specify API group (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"behavior": {"scaleUp": {"tolerance": "-1"}}}}),
                "spec.behavior.scaleUp.tolerance: Invalid value: \"-1\": must be greater than or equal to 0 (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"metrics": [{"type": "Resource"}]}}),
                "spec.metrics[0].resource: Required value: must populate information for the given metric source \
                 (FieldValueRequired)",
            ),
            (
                json!({"spec": {"metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0, "averageValue": "1"},
                }}]}}),
                "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0 \
                 (FieldValueInvalid)\nspec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw \
                 value and a target utilization (FieldValueForbidden)",
            ),
        ],
    );
    check(
        "PodDisruptionBudget",
        &[
            (
                json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}}}),
                &format!(
                    "spec.selector.matchExpressions[0].values[0]: Invalid value: \"b c\": {LABEL}"
                ),
            ),
            (
                json!({"spec": {"maxUnavailable": "50%"}}),
                "spec: Invalid value: {\"maxUnavailable\":\"50%\",\"minAvailable\":1}: minAvailable and maxUnavailable cannot \
                 be both set (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"minAvailable": -1}}),
                "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0 (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"minAvailable": "101%"}}),
                "spec.minAvailable: Invalid value: \"101%\": must not be greater than 100% (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"minAvailable": "many"}}),
                "spec.minAvailable: Invalid value: \"many\": a valid percent string must be a numeric string followed by an \
                 ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%') (FieldValueInvalid)",
            ),
        ],
    );
}

#[test]
fn classes_and_quotas() {
    check(
        "PriorityClass",
        &[
            (
                json!({"value": 2_000_000_000}),
                "value: Forbidden: maximum allowed value of a user defined priority is 1000000000 (FieldValueForbidden)",
            ),
            (
                json!({"metadata": {"name": "system-mine"}}),
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. \
                 error: system-mine is not a known system priority class (FieldValueForbidden)",
            ),
            (
                json!({"preemptionPolicy": "Maybe"}),
                "preemptionPolicy: Unsupported value: \"Maybe\": supported values: \"PreemptLowerPriority\", \"Never\" \
                 (FieldValueNotSupported)",
            ),
        ],
    );
    check_update(
        "PriorityClass",
        &[(
            json!({"value": 6}),
            "value: Forbidden: may not be changed in an update. (FieldValueForbidden)",
        )],
    );
    check(
        "ResourceQuota",
        &[
            (
                json!({"spec": {"hard": {"pods": "-1"}}}),
                "spec.hard[pods]: Invalid value: \"-1\": must be greater than or equal to 0 (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"hard": {"pods": "1500m", "cats": "1"}}}),
                "spec.hard[cats]: Invalid value: \"cats\": must be a standard resource type or fully qualified (FieldValueInvalid)\n\
                 spec.hard[cats]: Invalid value: \"cats\": must be a standard resource for quota (FieldValueInvalid)\n\
                 spec.hard[pods]: Invalid value: \"1500m\": must be an integer (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"scopes": ["Mine"]}}),
                "spec.scopes: Invalid value: [\"Mine\"]: unsupported scope (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"hard": {"count/deployments.apps": "1"}}}),
                "written",
            ),
        ],
    );
    check_update(
        "ResourceQuota",
        &[(
            json!({"spec": {"scopes": ["BestEffort"]}}),
            "spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable (FieldValueInvalid)",
        )],
    );
    check(
        "LimitRange",
        &[
            (
                json!({"spec": {"limits": [{"min": {"cpu": "3"}, "default": {"cpu": "4"}, "defaultRequest": {"cpu": "4"}}]}}),
                "spec.limits[0].min[cpu]: Invalid value: \"3\": min value 3 is greater than max value 2 (FieldValueInvalid)\n\
                 spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than max value \
                 2 (FieldValueInvalid)\nspec.limits[0].default[cpu]: Invalid value: \"4\": default value 4 is greater than \
                 max value 2 (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"limits": [{"type": "Cat"}]}}),
                "spec.limits[0].type: Invalid value: \"Cat\": must be a standard limit type or fully qualified \
                 (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"limits": [{"type": "PersistentVolumeClaim"}]}}),
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was \
                 provided (FieldValueRequired)",
            ),
        ],
    );
    check(
        "StorageClass",
        &[
            (
                json!({"reclaimPolicy": "Recycle"}),
                "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\" \
                 (FieldValueNotSupported)",
            ),
            (
                json!({"provisioner": ""}),
                "provisioner: Required value (FieldValueRequired)",
            ),
        ],
    );
}

#[test]
fn rights_and_certificates() {
    check(
        "Role",
        &[
            (
                json!({"rules": [{"verbs": null, "resources": null}]}),
                "rules[0].verbs: Required value: verbs must contain at least one value (FieldValueRequired)\n\
                 rules[0].resources: Required value: resource rules must supply at least one resource (FieldValueRequired)",
            ),
            (
                json!({"rules": [{"nonResourceURLs": ["/a"], "apiGroups": null, "resources": null}]}),
                "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: namespaced rules cannot apply to non-resource URLs \
                 (FieldValueInvalid)",
            ),
        ],
    );
    check(
        "ClusterRole",
        &[(
            json!({"rules": [{"nonResourceURLs": ["/a"]}]}),
            "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and \
             non-resource URLs (FieldValueInvalid)",
        )],
    );
    let change = json!({"roleRef": {"name": "other"}});
    let value = r#"{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"other"}"#;
    let expect =
        format!("roleRef: Invalid value: {value}: cannot change roleRef (FieldValueInvalid)");
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        check_update(kind, &[(change.clone(), &expect)]);
    }
    check(
        "ClusterRoleBinding",
        &[
            (
                json!({"roleRef": {"kind": "Role"}}),
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\" (FieldValueNotSupported)",
            ),
            (
                json!({"subjects": [{"kind": "ServiceAccount", "name": "s"}]}),
                "subjects[0].namespace: Required value (FieldValueRequired)",
            ),
            (
                json!({"subjects": [{"kind": "Cat", "name": "s"}]}),
                "subjects[0].kind: Unsupported value: \"Cat\": supported values: \"ServiceAccount\", \"User\", \"Group\" \
                 (FieldValueNotSupported)",
            ),
        ],
    );
    check(
        "CertificateSigningRequest",
        &[
            (
                json!({"spec": {"request": "eA=="}}),
                "spec.request: Invalid value: \"eA==\": PEM block type must be CERTIFICATE REQUEST (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"usages": null}}),
                "spec.usages: Required value (FieldValueRequired)",
            ),
            (
                json!({"spec": {"usages": ["client auth", "client auth"], "expirationSeconds": 60}}),
                "spec.usages[1]: Duplicate value: \"client auth\" (FieldValueDuplicate)\nspec.expirationSeconds: Invalid value: \
                 60: may not specify a duration less than 600 seconds (10 minutes) (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"signerName": "mine"}}),
                "spec.signerName: Invalid value: \"mine\": must be a fully qualified domain and path of the form \
                 \"example.com/signer-name\" (FieldValueInvalid)",
            ),
        ],
    );
}

#[test]
fn networks() {
    check(
        "Endpoints",
        &[
            (
                json!({"subsets": [{"addresses": null}]}),
                "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses` (FieldValueRequired)",
            ),
            (
                json!({"subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]}),
                "subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, \
                 ::1/128) (FieldValueInvalid)",
            ),
            (
                json!({"subsets": [{"ports": [{"port": 80}, {"port": 81, "name": "b"}]}]}),
                "subsets[0].ports[0].name: Required value (FieldValueRequired)",
            ),
        ],
    );
    check(
        "Ingress",
        &[
            (
                json!({"spec": {"rules": null}}),
                "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"rules": [{"http": {"paths": [{"pathType": null}]}}]}}),
                "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified (FieldValueRequired)",
            ),
            (
                json!({"spec": {"rules": [{"http": {"paths": [{"path": "a//../b"}]}}]}}),
                "spec.rules[0].http.paths[0].path: Invalid value: \"a//../b\": must be an absolute path (FieldValueInvalid)\n\
                 spec.rules[0].http.paths[0].path: Invalid value: \"a//../b\": must not contain '//' (FieldValueInvalid)\n\
                 spec.rules[0].http.paths[0].path: Invalid value: \"a//../b\": must not contain '/../' (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"rules": [{"host": "1.2.3.4"}]}}),
                "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"rules": [{"http": {"paths": [{"backend": {"service": {"port": {"number": 0}}}}]}}]}}),
                "spec.rules[0].http.paths[0].backend: Required value: port name or number is required (FieldValueRequired)",
            ),
            (
                json!({"spec": {"rules": [{"http": {"paths": [{"backend": {"service": {"port": {"name": "web"}}}}]}}]}}),
                "spec.rules[0].http.paths[0].backend: Invalid value: \"\": cannot set both port name & port number \
                 (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"rules": [{"host": "*.example"}]}}),
                "written",
            ),
        ],
    );
    check(
        "NetworkPolicy",
        &[
            (
                json!({"spec": {"ingress": [{"from": [{"podSelector": null}]}]}}),
                "spec.ingress[0].from[0]: Required value: must specify a peer (FieldValueRequired)",
            ),
            (
                json!({"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/33"}}]}]}}),
                "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"10.0.0.0/33\": must be a valid CIDR value, (e.g. \
                 10.9.8.0/24 or 2001:db8::/64) (FieldValueInvalid)\nspec.ingress[0].from[0]: Forbidden: may not specify both \
                 ipBlock and another peer (FieldValueForbidden)",
            ),
            (
                json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": [
                    "10.1.0.0/16", "10.0.0.0/8", "11.0.0.0/16", "10.1.1.1/16",
                ]}}]}]}}),
                "spec.egress[0].to[0].ipBlock.except[3]: Invalid value: \"10.1.1.1/16\": must not have bits set beyond the \
                 prefix length (FieldValueInvalid)\nspec.egress[0].to[0].ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": \
                 must be a strict subset of `cidr` (FieldValueInvalid)\nspec.egress[0].to[0].ipBlock.except[2]: \
                 Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr` (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"ingress": [{"ports": [{"port": 80, "endPort": 70}]}]}}),
                "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port` \
                 (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"ingress": [{"ports": [{"port": "web", "endPort": 70}]}]}}),
                "spec.ingress[0].ports[0].endPort: Invalid value: 70: may not be specified when `port` is non-numeric \
                 (FieldValueInvalid)",
            ),
            (
                json!({"spec": {"policyTypes": ["Sideways"]}}),
                "spec.policyTypes[0]: Unsupported value: \"Sideways\": supported values: \"Ingress\", \"Egress\" \
                 (FieldValueNotSupported)",
            ),
        ],
    );
    // It belongs to no Service.
    check("EndpointSlice", &[]);
}

#[test]
fn secrets() {
    let secret = |kind: &str, data: Value| json!({"type": format!("kubernetes.io/{kind}"), "stringData": data});
    let redacted = "Invalid value: \"<secret contents redacted>\"";
    check(
        "Secret",
        &[
            (
                secret(
                    "dockerconfigjson",
                    json!({".dockerconfigjson": "{\"auths\":{}}"}),
                ),
                "written",
            ),
            (
                secret("dockerconfigjson", json!({".dockerconfigjson": "x"})),
                &format!(
                    "data[.dockerconfigjson]: {redacted}: invalid character 'x' looking for beginning of value \
                     (FieldValueInvalid)"
                ),
            ),
            (
                secret("dockercfg", json!({".dockercfg": "[]"})),
                &format!(
                    "data[.dockercfg]: {redacted}: json: cannot unmarshal array into Go value of type \
                     map[string]interface {{}} (FieldValueInvalid)"
                ),
            ),
            (
                secret("dockercfg", json!({".dockercfg": ""})),
                &format!(
                    "data[.dockercfg]: {redacted}: unexpected end of JSON input (FieldValueInvalid)"
                ),
            ),
            (
                secret("basic-auth", json!({})),
                "data[username]: Required value (FieldValueRequired)\ndata[password]: Required value (FieldValueRequired)",
            ),
            (secret("basic-auth", json!({"username": "u"})), "written"),
            (
                secret("ssh-auth", json!({"ssh-privatekey": ""})),
                "data[ssh-privatekey]: Required value (FieldValueRequired)",
            ),
        ],
    );
}

#[test]
fn an_object_that_counts_no_generations_gets_none_with_its_deletion() {
    let store = store();
    let mut held = object("ConfigMap");
    held["metadata"]["finalizers"] = json!(["a.example/b"]);
    store.create(held).unwrap();
    store
        .delete("ConfigMap", "default", "a", DeleteOptions::default())
        .unwrap();
    let left = store.get("ConfigMap", "default", "a").unwrap();
    assert!(left["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(left["metadata"]["generation"], Value::Null);
}
