//! Namespaces and Pods.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ObjectMeta, nullable};

/// All labels of an object, for selectors. `null` is the empty text, as in Go.
pub type AllLabels = BTreeMap<String, Option<String>>;

/// A Namespace. It exists until it is gone, also while it is being deleted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta<AllLabels>,
}

/// A Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta<AllLabels>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: PodSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: PodStatus,
}

/// `spec` of a Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    /// `nodeName`; `None` before the pod is scheduled.
    pub(crate) node_name: Option<String>,
    pub(crate) host_network: Option<bool>,
    /// `dnsPolicy`, default ClusterFirst.
    pub(crate) dns_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) dns_config: PodDnsConfig,
    /// `containers`. Init containers are none of them: a sidecar's ports have no names for Services and policies
    /// (`FindPort` in Kubernetes' `pkg/api/v1/pod`).
    #[serde(deserialize_with = "nullable")]
    pub(crate) containers: Vec<Container>,
}

/// One of `spec.containers`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    #[serde(deserialize_with = "nullable")]
    pub(crate) ports: Vec<ContainerPort>,
}

/// One of `spec.containers[].ports`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    pub(crate) name: Option<String>,
    pub(crate) container_port: Option<i64>,
    /// `protocol`, default TCP.
    pub(crate) protocol: Option<String>,
}

/// `spec.dnsConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodDnsConfig {
    #[serde(deserialize_with = "nullable")]
    pub(crate) searches: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) options: Vec<PodDnsOption>,
}

/// One of `spec.dnsConfig.options`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodDnsOption {
    pub(crate) name: Option<String>,
    pub(crate) value: Option<String>,
}

/// `status` of a Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    pub(crate) phase: Option<String>,
    /// `podIP`: the first of `podIPs`.
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: Option<String>,
    #[serde(rename = "podIPs", deserialize_with = "nullable")]
    pub(crate) pod_ips: Vec<PodIp>,
}

/// One of `status.podIPs`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodIp {
    pub(crate) ip: Option<String>,
}
