//! Node (core/v1).

use serde::Deserialize;

use super::{ObjectMeta, nullable};

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    /// `status`.
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

/// `spec` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// `podCIDR`: the first of `podCIDRs`.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<String>,
    /// `podCIDRs`.
    #[serde(rename = "podCIDRs", deserialize_with = "nullable")]
    pub pod_cidrs: Vec<String>,
    /// `taints`.
    #[serde(deserialize_with = "nullable")]
    pub taints: Vec<Taint>,
}

/// One of `spec.taints`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// `key`.
    pub key: Option<String>,
}

/// `status` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// `addresses`.
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<NodeAddress>,
}

/// One of `status.addresses`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `type`: InternalIP, ExternalIP, Hostname, ...
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// `address`.
    pub address: Option<String>,
}
