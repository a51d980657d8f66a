//! What is wrong with pods, in the words of `pkg/apis/core/validation/validation.go`.

use super::rules::{merge, object, shown};
use super::*;

/// Creates a pod for each row, with the fields of the first value, and compares the causes of the refusal.
#[track_caller]
fn check(rows: &[(Value, &str)]) {
    let mut wrong = Vec::new();
    for (spec, expect) in rows {
        let created = store().create(object("Pod", &json!({"spec": spec})));
        let found = created.map_or_else(|it| shown(&it), |_| "created".to_owned());
        let found = found.replace("422 Invalid\n", "").replace(CONTAINER, "c0");
        if found != *expect {
            wrong.push(format!("{spec}\n  found: {found}\n  expected: {expect}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const CONTAINER: &str = "spec.containers[0]";

fn container(fields: &Value) -> Value {
    json!({"containers": [fields]})
}

fn env(fields: &Value) -> Value {
    container(&json!({"env": [fields]}))
}

fn mounts(mounts: &Value) -> Value {
    json!({"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"volumeMounts": mounts}]})
}

fn volume(source: &Value) -> Value {
    let mut volume = json!({"name": "v"});
    merge(&mut volume, source);
    json!({"volumes": [volume]})
}

#[test]
fn environments() {
    let sources = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
    check(&[
        (env(&json!({"name": "A", "value": "b"})), "created"),
        (env(&json!({"name": "a b-1.c", "value": "b"})), "created"),
        (
            env(&json!({"name": ""})),
            "c0.env[0].name: Required value (FieldValueRequired)",
        ),
        (
            env(&json!({"name": "a=b"})),
            "c0.env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII \
             characters other than '=' (FieldValueInvalid)",
        ),
        (
            env(
                &json!({"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
            ),
            "c0.env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty (FieldValueInvalid)",
        ),
        (
            env(&json!({"name": "A", "valueFrom": {}})),
            &format!("c0.env[0].valueFrom: Invalid value: \"\": {sources} (FieldValueInvalid)"),
        ),
        (
            env(&json!({"name": "A", "valueFrom": {
                "fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"},
            }})),
            "c0.env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time \
             (FieldValueInvalid)",
        ),
        (
            env(&json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}})),
            "c0.env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.foo\": error converting fieldPath: field label \
             not supported: spec.foo (FieldValueInvalid)",
        ),
        (
            env(&json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}})),
            "c0.env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \
             \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \
             \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\" (FieldValueNotSupported)",
        ),
        (
            env(
                &json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}),
            ),
            "created",
        ),
        (
            env(
                &json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeSelector['a']"}}}),
            ),
            "c0.env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nodeSelector['a']\": error converting fieldPath: \
             field label does not support subscript: spec.nodeSelector['a'] (FieldValueInvalid)",
        ),
        (
            env(
                &json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}),
            ),
            "c0.env[0].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.gpu\": supported values: \
             \"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \
             \"requests.ephemeral-storage\", \"requests.memory\" (FieldValueNotSupported)",
        ),
        (
            env(
                &json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}),
            ),
            "c0.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are \
             supported with the cpu resource (FieldValueInvalid)",
        ),
        (
            env(&json!({"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c"}}})),
            "c0.env[0].valueFrom.configMapKeyRef.key: Required value (FieldValueRequired)",
        ),
        (
            container(&json!({"envFrom": [{"prefix": "a="}]})),
            "c0.envFrom[0].prefix: Invalid value: \"a=\": a valid environment variable name must consist only of printable \
             ASCII characters other than '=' (FieldValueInvalid)\nc0.envFrom: Invalid value: \"\": must specify one of: \
             `configMapRef` or `secretRef` (FieldValueInvalid)",
        ),
        (
            container(
                &json!({"envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]}),
            ),
            "c0.envFrom: Invalid value: \"\": may not have more than one field specified at a time (FieldValueInvalid)",
        ),
        (
            container(&json!({"envFrom": [{"configMapRef": {}}]})),
            "c0.envFrom[0].configMapRef.name: Required value (FieldValueRequired)",
        ),
    ]);
}

#[test]
fn ports_and_probes() {
    let http = json!({"httpGet": {"port": 80}});
    let probe = |name: &str, fields: Value| {
        let mut probe = http.clone();
        merge(&mut probe, &fields);
        container(&json!({name: probe}))
    };
    check(&[
        (
            container(
                &json!({"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]}),
            ),
            "c0.ports[1].name: Duplicate value: \"a\" (FieldValueDuplicate)",
        ),
        (
            container(
                &json!({"ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 8080}]}),
            ),
            "c0.ports[1].hostPort: Duplicate value: \"TCP//8080\" (FieldValueDuplicate)",
        ),
        (
            container(&json!({"ports": [{"containerPort": 0}]})),
            "c0.ports[0].containerPort: Required value (FieldValueRequired)",
        ),
        (
            json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80, "hostPort": 81}]}]}),
            "c0.ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true (FieldValueInvalid)",
        ),
        (
            container(&json!({"livenessProbe": {"periodSeconds": 5}})),
            "c0.livenessProbe: Required value: must specify a handler type (FieldValueRequired)",
        ),
        (
            probe("livenessProbe", json!({"exec": {"command": ["a"]}})),
            "c0.livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type (FieldValueForbidden)",
        ),
        (
            probe(
                "startupProbe",
                json!({"successThreshold": 2, "periodSeconds": -1}),
            ),
            "c0.startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0 (FieldValueInvalid)\n\
             c0.startupProbe.successThreshold: Invalid value: 2: must be 1 (FieldValueInvalid)",
        ),
        (
            probe("readinessProbe", json!({"successThreshold": 2})),
            "created",
        ),
        (
            probe(
                "readinessProbe",
                json!({"terminationGracePeriodSeconds": 2}),
            ),
            "c0.readinessProbe.terminationGracePeriodSeconds: Invalid value: 2: must not be set for readinessProbes \
             (FieldValueInvalid)",
        ),
        (
            probe("livenessProbe", json!({"httpGet": {"port": "80_"}})),
            "c0.livenessProbe.httpGet.port: Invalid value: \"80_\": must contain only alpha-numeric characters (a-z, 0-9), \
             and hyphens (-) (FieldValueInvalid)\nc0.livenessProbe.httpGet.port: Invalid value: \"80_\": must contain at \
             least one letter (a-z) (FieldValueInvalid)",
        ),
        (
            probe(
                "livenessProbe",
                json!({"httpGet": {"port": 0, "httpHeaders": [{"name": "a b", "value": ""}]}}),
            ),
            "c0.livenessProbe.httpGet.httpHeaders[0].name: Invalid value: \"a b\": a valid HTTP header must consist of \
             alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+') \
             (FieldValueInvalid)\nc0.livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive \
             (FieldValueInvalid)",
        ),
        (
            container(&json!({"livenessProbe": {"exec": {}}})),
            "c0.livenessProbe.exec.command: Required value (FieldValueRequired)",
        ),
        (
            container(&json!({"lifecycle": {"preStop": {}}})),
            "c0.lifecycle.preStop: Required value: must specify a handler type (FieldValueRequired)",
        ),
        (
            container(&json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}})),
            "c0.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds \
             (30) (FieldValueInvalid)",
        ),
        (
            container(
                &json!({"lifecycle": {"postStart": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}}}),
            ),
            "c0.lifecycle.postStart.tcpSocket: Forbidden: may not specify more than 1 handler type (FieldValueForbidden)",
        ),
        (
            json!({"initContainers": [{"name": "i", "image": "i", "livenessProbe": http, "lifecycle": {
                "preStop": {"exec": {"command": ["a"]}},
            }}]}),
            "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always \
             (FieldValueForbidden)\nspec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers \
             without restartPolicy=Always (FieldValueForbidden)",
        ),
        (
            json!({"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always", "livenessProbe": http}]}),
            "created",
        ),
        (
            json!({"initContainers": [{"name": "c", "image": "i"}]}),
            "spec.initContainers[0].name: Duplicate value: \"c\" (FieldValueDuplicate)",
        ),
    ]);
}

#[test]
fn volumes_and_mounts() {
    let item = |path: &str| json!([{"key": "k", "path": path}]);
    let mode = "must be a number between 0 and 0777 (octal), both inclusive (FieldValueInvalid)";
    check(&[
        (
            volume(&json!({"configMap": {"name": "c"}, "emptyDir": {}, "hostPath": null})),
            "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type (FieldValueForbidden)",
        ),
        (
            volume(&json!({"name": "", "emptyDir": {}})),
            "spec.volumes[0].name: Required value (FieldValueRequired)",
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}),
            "spec.volumes[1].name: Duplicate value: \"v\" (FieldValueDuplicate)",
        ),
        (
            volume(&json!({"configMap": {}})),
            "spec.volumes[0].configMap.name: Required value (FieldValueRequired)",
        ),
        (
            volume(&json!({"secret": {}})),
            "spec.volumes[0].secret.secretName: Required value (FieldValueRequired)",
        ),
        (
            volume(&json!({"configMap": {"name": "c", "items": item("/a")}})),
            "spec.volumes[0].configMap.items[0].path: Invalid value: \"/a\": must be a relative path (FieldValueInvalid)",
        ),
        (
            volume(&json!({"secret": {"secretName": "c", "items": item("a/../b")}})),
            "spec.volumes[0].secret.items[0].path: Invalid value: \"a/../b\": must not contain '..' (FieldValueInvalid)",
        ),
        (
            volume(&json!({"configMap": {"name": "c", "items": item("..x")}})),
            "spec.volumes[0].configMap.items[0].path: Invalid value: \"..x\": must not start with '..' (FieldValueInvalid)",
        ),
        (
            volume(
                &json!({"configMap": {"name": "c", "defaultMode": 512, "items": [{"key": "k", "path": "p", "mode": -1}]}}),
            ),
            &format!(
                "spec.volumes[0].configMap.defaultMode: Invalid value: 512: {mode}\n\
                 spec.volumes[0].configMap.items[0].mode: Invalid value: -1: {mode}"
            ),
        ),
        (
            volume(&json!({"downwardAPI": {"items": [{"path": "a"}]}})),
            "spec.volumes[0].downwardAPI.items[0]: Required value: one of fieldRef and resourceFieldRef is required \
             (FieldValueRequired)",
        ),
        (
            volume(
                &json!({"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}}),
            ),
            "spec.volumes[0].downwardAPI.items[0].resourceFieldRef.containerName: Required value (FieldValueRequired)",
        ),
        (
            volume(&json!({"projected": {"sources": [
                {"configMap": {"name": "a", "items": item("x")}}, {"configMap": {"name": "b", "items": item("x")}},
            ]}})),
            "spec.volumes[0].projected: Invalid value: \"x\": conflicting duplicate paths (FieldValueInvalid)",
        ),
        (
            volume(
                &json!({"projected": {"sources": [{"configMap": {"name": "a"}, "secret": {"name": "b"}}]}}),
            ),
            "spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source \
             (FieldValueForbidden)",
        ),
        (
            volume(
                &json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}}),
            ),
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a \
             duration less than 10 minutes (FieldValueInvalid)",
        ),
        (
            volume(&json!({"persistentVolumeClaim": {}})),
            "spec.volumes[0].persistentVolumeClaim.claimName: Required value (FieldValueRequired)",
        ),
        (
            mounts(&json!([{"name": "v", "mountPath": "/a"}])),
            "created",
        ),
        (
            mounts(&json!([{"name": "w", "mountPath": "/a"}])),
            "c0.volumeMounts[0].name: Not found: \"w\" (FieldValueNotFound)",
        ),
        (
            mounts(&json!([{"name": "v"}])),
            "c0.volumeMounts[0].mountPath: Required value (FieldValueRequired)",
        ),
        (
            mounts(&json!([{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}])),
            "c0.volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique (FieldValueInvalid)",
        ),
        (
            mounts(&json!([{"name": "v", "mountPath": "/a", "subPath": "../b"}])),
            "c0.volumeMounts[0].subPath: Invalid value: \"../b\": must not contain '..' (FieldValueInvalid)",
        ),
        (
            mounts(
                &json!([{"name": "v", "mountPath": "/a", "subPath": "b", "subPathExpr": "$(C)"}]),
            ),
            "c0.volumeMounts[0].subPathExpr: Invalid value: \"$(C)\": subPathExpr and subPath are mutually exclusive \
             (FieldValueInvalid)",
        ),
        (
            mounts(&json!([{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}])),
            "c0.volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged \
             containers (FieldValueForbidden)",
        ),
    ]);
}

#[test]
fn where_a_pod_runs() {
    let spread = |fields: Value| {
        let mut constraint =
            json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        merge(&mut constraint, &fields);
        json!({"topologySpreadConstraints": [constraint]})
    };
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = |expression: Value| json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}});
    let at = format!("spec.affinity.nodeAffinity.{required}.nodeSelectorTerms");
    let key = format!("spec.affinity.podAntiAffinity.{preferred}[0].podAffinityTerm.topologyKey");
    check(&[
        (
            json!({"tolerations": [{"value": "x"}]}),
            "spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \
             \"match all values and all keys\" (FieldValueInvalid)",
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}),
            "spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists' \
             (FieldValueInvalid)",
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Like"}]}),
            "spec.tolerations[0].operator: Unsupported value: \"Like\": supported values: \"Equal\", \"Exists\" \
             (FieldValueNotSupported)",
        ),
        (
            json!({"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]}),
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` \
             is set (FieldValueInvalid)",
        ),
        (
            json!({"tolerations": [{"key": "a", "effect": "Never"}]}),
            "spec.tolerations[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \
             \"PreferNoSchedule\", \"NoExecute\" (FieldValueNotSupported)",
        ),
        (spread(json!({})), "created"),
        (
            spread(json!({"maxSkew": 0, "topologyKey": ""})),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero (FieldValueInvalid)\n\
             spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty (FieldValueRequired)",
        ),
        (
            spread(json!({"whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2})),
            "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if \
             whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway (FieldValueInvalid)",
        ),
        (
            json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            ]}),
            "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, DoNotSchedule}\" \
             (FieldValueDuplicate)",
        ),
        (
            json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": []}}}}),
            &format!(
                "{at}: Required value: must have at least one node selector term (FieldValueRequired)"
            ),
        ),
        (
            node(json!({"key": "a", "operator": "In"})),
            &format!(
                "{at}[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn' \
                 (FieldValueRequired)"
            ),
        ),
        (
            node(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
            &format!(
                "{at}[0].matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or \
                 'DoesNotExist' (FieldValueForbidden)"
            ),
        ),
        (
            node(json!({"key": "a", "operator": "Near"})),
            &format!(
                "{at}[0].matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator \
                 (FieldValueInvalid)"
            ),
        ),
        (
            json!({"affinity": {"podAntiAffinity": {preferred: [{"weight": 0, "podAffinityTerm": {}}]}}}),
            &format!(
                "{key}: Invalid value: \"\": name part must be non-empty (FieldValueInvalid)\n{key}: Invalid value: \"\": name part \
                 must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') (FieldValueInvalid)\n{key}: Required value: can not be empty \
                 (FieldValueRequired)\nspec.affinity.podAntiAffinity.{preferred}[0].weight: Invalid value: 0: must be in the \
                 range 1-100 (FieldValueInvalid)"
            ),
        ),
        (
            json!({"schedulingGates": [{"name": "a"}, {"name": "a"}]}),
            "spec.schedulingGates[1]: Duplicate value: \"a\" (FieldValueDuplicate)",
        ),
        (
            json!({"schedulingGates": [{"name": "a"}], "nodeName": "n"}),
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared (FieldValueForbidden)",
        ),
    ]);
}

#[test]
fn all_else() {
    let aliases = |it: Value| json!({"hostAliases": [it]});
    check(&[
        (
            aliases(json!({"ip": "1.2.3", "hostnames": ["a"]})),
            "spec.hostAliases[0].ip: Invalid value: \"1.2.3\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff) \
             (FieldValueInvalid)",
        ),
        (
            json!({"restartPolicy": "Sometimes"}),
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\" \
             (FieldValueNotSupported)",
        ),
        (
            json!({"dnsPolicy": "Mine"}),
            "spec.dnsPolicy: Unsupported value: \"Mine\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \
             \"Default\", \"None\" (FieldValueNotSupported)",
        ),
        (
            json!({"dnsPolicy": "None"}),
            "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None (FieldValueRequired)",
        ),
        (
            container(&json!({"terminationMessagePolicy": "Loud"})),
            "c0.terminationMessagePolicy: Unsupported value: \"Loud\": supported values: \"File\", \
             \"FallbackToLogsOnError\" (FieldValueNotSupported)",
        ),
        (
            json!({"activeDeadlineSeconds": 0}),
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive (FieldValueInvalid)",
        ),
        (
            json!({"securityContext": {"runAsUser": -1, "supplementalGroups": [-1], "fsGroupChangePolicy": "Now"}}),
            "spec.securityContext.fsGroupChangePolicy: Unsupported value: \"Now\": supported values: \"Always\", \
             \"OnRootMismatch\" (FieldValueNotSupported)\nspec.securityContext.runAsUser: Invalid value: -1: must be between 0 \
             and 2147483647, inclusive (FieldValueInvalid)\nspec.securityContext.supplementalGroups[0]: Invalid value: -1: \
             must be between 0 and 2147483647, inclusive (FieldValueInvalid)",
        ),
        (
            container(
                &json!({"securityContext": {"allowPrivilegeEscalation": false, "privileged": true}}),
            ),
            "c0.securityContext: Invalid value: {\"allowPrivilegeEscalation\":false,\"privileged\":true}: cannot set \
             `allowPrivilegeEscalation` to false and `privileged` to true (FieldValueInvalid)",
        ),
        (
            container(&json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}})),
            "c0.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost \
             (FieldValueRequired)",
        ),
        (
            json!({"ephemeralContainers": [{"name": "e", "image": "i"}]}),
            "spec.ephemeralContainers: Forbidden: cannot be set on create (FieldValueForbidden)",
        ),
        (
            container(&json!({"image": " i"})),
            "c0.image: Invalid value: \" i\": must not have leading or trailing whitespace (FieldValueInvalid)",
        ),
        (
            container(&json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}})),
            "c0.resources: Forbidden: HugePages require cpu or memory (FieldValueForbidden)",
        ),
        (
            json!({"priorityClassName": "a/b"}),
            &format!("spec.priorityClassName: Invalid value: \"a/b\": {SUBDOMAIN}"),
        ),
        (
            json!({"containers": null}),
            "spec.containers: Required value (FieldValueRequired)",
        ),
    ]);
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
    start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*') (FieldValueInvalid)";

#[test]
fn a_refusal_tells_all_that_is_wrong() {
    let store = store();
    let mut new = Value::clone(&store.create(object("Deployment", &json!({}))).unwrap());
    merge(
        &mut new,
        &json!({"spec": {"replicas": -1, "selector": {"matchLabels": {"a": "c"}}}}),
    );
    assert_eq!(
        shown(&store.update(new).unwrap_err()),
        "422 Invalid\nspec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template \
         `labels` (FieldValueInvalid)\nspec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable \
         (FieldValueInvalid)\nspec.replicas: Invalid value: -1: must be greater than or equal to 0 (FieldValueInvalid)",
    );
}

#[test]
fn claims_of_a_stateful_set_are_volumes() {
    let mounts = json!([{"name": "data", "mountPath": "/data"}]);
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let template = json!({"spec": {"containers": [{"volumeMounts": mounts}]}});
    let set = |claims: Value| {
        object(
            "StatefulSet",
            &json!({"spec": {"template": template, "volumeClaimTemplates": claims}}),
        )
    };
    store().create(set(json!([claim]))).unwrap();
    assert_eq!(
        shown(&store().create(set(Value::Null)).unwrap_err()),
        "422 Invalid\nspec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\" (FieldValueNotFound)",
    );
}
