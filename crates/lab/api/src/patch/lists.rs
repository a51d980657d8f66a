//! Which lists of Kubernetes' types are merged, and by which key.
//!
//! The facts are the tags `patchStrategy`, `patchMergeKey`, `listType` and `listMapKey` of
//! `k8s.io/api/*/types.go`. A field has the same meaning wherever it is, but for `ports`,
//! `addresses` and `secrets`.

use serde_json::Value;

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    /// As one value: a patch replaces it.
    Atomic,
    /// As a set of texts.
    Set,
    /// By key fields: by the first one alone in strategic merge patches, by all of them in
    /// server-side apply.
    Keyed(&'static [&'static str]),
}

const CONTAINER_PORT: ListType = ListType::Keyed(&["containerPort", "protocol"]);
const SERVICE_PORT: ListType = ListType::Keyed(&["port", "protocol"]);
const SPREAD: ListType = ListType::Keyed(&["topologyKey", "whenUnsatisfiable"]);

/// The type of the list in `field` of objects of `kind`.
pub(crate) fn list_type(kind: &str, field: &str) -> ListType {
    let holds_pods = [
        "Pod",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "DaemonSet",
        "ControllerRevision",
    ];
    match (kind, field) {
        (_, "finalizers") | ("Node", "podCIDRs") => ListType::Set,
        (_, "ownerReferences") => ListType::Keyed(&["uid"]),
        ("EndpointSlice" | "Endpoints" | "ConfigMap" | "Secret", _) => ListType::Atomic,
        (_, "conditions") | ("Node", "addresses") => ListType::Keyed(&["type"]),
        ("Service", "ports") => SERVICE_PORT,
        ("ServiceAccount", "secrets" | "imagePullSecrets") => ListType::Keyed(&["name"]),
        (kind, field) if holds_pods.contains(&kind) => match field {
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "env"
            | "volumes"
            | "imagePullSecrets"
            | "schedulingGates"
            | "resourceClaims" => ListType::Keyed(&["name"]),
            "ports" => CONTAINER_PORT,
            "volumeMounts" => ListType::Keyed(&["mountPath"]),
            "volumeDevices" => ListType::Keyed(&["devicePath"]),
            "hostAliases" | "podIPs" | "hostIPs" => ListType::Keyed(&["ip"]),
            "topologySpreadConstraints" => SPREAD,
            _ => ListType::Atomic,
        },
        _ => ListType::Atomic,
    }
}

/// The value of a key field. `protocol` has a default.
pub(crate) fn key_value(item: &Value, key: &str) -> Option<Value> {
    match (item.get(key), key) {
        (None | Some(Value::Null), "protocol") => Some("TCP".into()),
        (None | Some(Value::Null), _) => None,
        (Some(value), _) => Some(value.clone()),
    }
}
