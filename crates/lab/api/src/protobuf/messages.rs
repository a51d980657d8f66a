//! The messages that kubectl's own commands send, as far as they fill them: numbers and names of
//! fields are those of `k8s.io/api/*/generated.proto`.

/// The empty status of a new object, which Go sends as zeros.
const STATUS: Field = one(3, "status", Type::Message(&[]));

/// The fields of a message.
pub(super) type Message = &'static [Field];

#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// The name in JSON.
    pub(super) name: &'static str,
    pub(super) value: Type,
    pub(super) is_list: bool,
    /// The field is a pointer in Go: a zero is kept.
    pub(super) keeps_zero: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    Text,
    Int,
    Bool,
    Message(Message),
    /// A map of strings.
    Labels,
    /// A map of bytes, base64 in JSON.
    Data,
    /// A map of quantities.
    Quantities,
    Time,
    IntOrString,
}

use Type::{Bool, Data, Int, IntOrString, Labels, Quantities, Text, Time};

const fn one(number: u64, name: &'static str, value: Type) -> Field {
    Field {
        number,
        name,
        value,
        is_list: false,
        keeps_zero: false,
    }
}

const fn many(number: u64, name: &'static str, value: Type) -> Field {
    Field {
        is_list: true,
        ..one(number, name, value)
    }
}

const fn pointer(number: u64, name: &'static str, value: Type) -> Field {
    Field {
        keeps_zero: true,
        ..one(number, name, value)
    }
}

pub(super) fn of_kind(kind: &str) -> Option<Message> {
    Some(match kind {
        "Namespace" => NAMESPACE,
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "Service" => SERVICE,
        "Deployment" => DEPLOYMENT,
        "DeleteOptions" => DELETE_OPTIONS,
        "Eviction" => EVICTION,
        _ => return None,
    })
}

const METADATA: Field = one(1, "metadata", Type::Message(OBJECT_META));

const OBJECT_META: Message = &[
    one(1, "name", Text),
    one(2, "generateName", Text),
    one(3, "namespace", Text),
    one(4, "selfLink", Text),
    one(5, "uid", Text),
    one(6, "resourceVersion", Text),
    one(7, "generation", Int),
    one(8, "creationTimestamp", Time),
    one(9, "deletionTimestamp", Time),
    pointer(10, "deletionGracePeriodSeconds", Int),
    one(11, "labels", Labels),
    one(12, "annotations", Labels),
    many(13, "ownerReferences", Type::Message(OWNER)),
    many(14, "finalizers", Text),
];

const OWNER: Message = &[
    one(1, "kind", Text),
    one(3, "name", Text),
    one(4, "uid", Text),
    one(5, "apiVersion", Text),
    pointer(6, "controller", Bool),
    pointer(7, "blockOwnerDeletion", Bool),
];

const NAMESPACE: Message = &[
    METADATA,
    one(2, "spec", Type::Message(&[many(1, "finalizers", Text)])),
    one(3, "status", Type::Message(&[one(1, "phase", Text)])),
];

const CONFIG_MAP: Message = &[
    METADATA,
    one(2, "data", Labels),
    one(3, "binaryData", Data),
    pointer(4, "immutable", Bool),
];

const SECRET: Message = &[
    METADATA,
    one(2, "data", Data),
    one(3, "type", Text),
    one(4, "stringData", Labels),
    pointer(5, "immutable", Bool),
];

const SERVICE_ACCOUNT: Message = &[
    METADATA,
    many(
        3,
        "imagePullSecrets",
        Type::Message(&[one(1, "name", Text)]),
    ),
    pointer(4, "automountServiceAccountToken", Bool),
];

const SERVICE: Message = &[
    METADATA,
    one(2, "spec", Type::Message(SERVICE_SPEC)),
    STATUS,
];

const SERVICE_SPEC: Message = &[
    many(1, "ports", Type::Message(SERVICE_PORT)),
    one(2, "selector", Labels),
    one(3, "clusterIP", Text),
    one(4, "type", Text),
    many(5, "externalIPs", Text),
    one(7, "sessionAffinity", Text),
    one(8, "loadBalancerIP", Text),
    many(9, "loadBalancerSourceRanges", Text),
    one(10, "externalName", Text),
    one(11, "externalTrafficPolicy", Text),
    one(12, "healthCheckNodePort", Int),
    one(13, "publishNotReadyAddresses", Bool),
    pointer(17, "ipFamilyPolicy", Text),
    many(18, "clusterIPs", Text),
    many(19, "ipFamilies", Text),
    pointer(20, "allocateLoadBalancerNodePorts", Bool),
    pointer(21, "loadBalancerClass", Text),
    pointer(22, "internalTrafficPolicy", Text),
    pointer(23, "trafficDistribution", Text),
];

const SERVICE_PORT: Message = &[
    one(1, "name", Text),
    one(2, "protocol", Text),
    one(3, "port", Int),
    one(4, "targetPort", IntOrString),
    one(5, "nodePort", Int),
    pointer(6, "appProtocol", Text),
];

const DEPLOYMENT: Message = &[
    METADATA,
    one(2, "spec", Type::Message(DEPLOYMENT_SPEC)),
    STATUS,
];

const DEPLOYMENT_SPEC: Message = &[
    pointer(1, "replicas", Int),
    one(2, "selector", Type::Message(SELECTOR)),
    one(3, "template", Type::Message(POD_TEMPLATE)),
    one(4, "strategy", Type::Message(&[one(1, "type", Text)])),
    one(5, "minReadySeconds", Int),
    pointer(6, "revisionHistoryLimit", Int),
    one(7, "paused", Bool),
    pointer(9, "progressDeadlineSeconds", Int),
];

const SELECTOR: Message = &[
    one(1, "matchLabels", Labels),
    many(
        2,
        "matchExpressions",
        Type::Message(&[
            one(1, "key", Text),
            one(2, "operator", Text),
            many(3, "values", Text),
        ]),
    ),
];

const POD_TEMPLATE: Message = &[METADATA, one(2, "spec", Type::Message(POD_SPEC))];

const POD_SPEC: Message = &[
    many(2, "containers", Type::Message(CONTAINER)),
    one(3, "restartPolicy", Text),
    pointer(4, "terminationGracePeriodSeconds", Int),
    one(6, "dnsPolicy", Text),
    one(7, "nodeSelector", Labels),
    one(8, "serviceAccountName", Text),
    one(9, "serviceAccount", Text),
    one(10, "nodeName", Text),
    one(11, "hostNetwork", Bool),
    one(16, "hostname", Text),
    one(17, "subdomain", Text),
    one(19, "schedulerName", Text),
    many(20, "initContainers", Type::Message(CONTAINER)),
];

const CONTAINER: Message = &[
    one(1, "name", Text),
    one(2, "image", Text),
    many(3, "command", Text),
    many(4, "args", Text),
    one(5, "workingDir", Text),
    many(6, "ports", Type::Message(CONTAINER_PORT)),
    many(
        7,
        "env",
        Type::Message(&[one(1, "name", Text), one(2, "value", Text)]),
    ),
    one(
        8,
        "resources",
        Type::Message(&[one(1, "limits", Quantities), one(2, "requests", Quantities)]),
    ),
    one(13, "terminationMessagePath", Text),
    one(14, "imagePullPolicy", Text),
];

const CONTAINER_PORT: Message = &[
    one(1, "name", Text),
    one(2, "hostPort", Int),
    one(3, "containerPort", Int),
    one(4, "protocol", Text),
    one(5, "hostIP", Text),
];

const DELETE_OPTIONS: Message = &[
    pointer(1, "gracePeriodSeconds", Int),
    one(
        2,
        "preconditions",
        Type::Message(&[pointer(1, "uid", Text), pointer(2, "resourceVersion", Text)]),
    ),
    pointer(3, "orphanDependents", Bool),
    pointer(4, "propagationPolicy", Text),
    many(5, "dryRun", Text),
];

const EVICTION: Message = &[
    METADATA,
    one(2, "deleteOptions", Type::Message(DELETE_OPTIONS)),
];
