//! EndpointSlice (discovery.k8s.io/v1).

use serde::Deserialize;

use super::{ObjectMeta, nullable};

/// An EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `addressType`.
    pub address_type: Option<String>,
    /// `endpoints`.
    #[serde(deserialize_with = "nullable")]
    pub endpoints: Vec<Endpoint>,
    /// `ports`.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<EndpointPort>,
}

/// One of `endpoints`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// `addresses`: all of them mean the same endpoint.
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<String>,
    /// `conditions`.
    #[serde(deserialize_with = "nullable")]
    pub conditions: EndpointConditions,
    /// `nodeName`.
    pub node_name: Option<String>,
    /// `hints`.
    #[serde(deserialize_with = "nullable")]
    pub hints: EndpointHints,
    /// `targetRef`.
    #[serde(deserialize_with = "nullable")]
    pub target_ref: TargetRef,
}

/// `conditions` of an endpoint; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// `ready`.
    pub ready: Option<bool>,
    /// `serving`.
    pub serving: Option<bool>,
    /// `terminating`.
    pub terminating: Option<bool>,
}

/// `hints` of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// `forZones`.
    #[serde(deserialize_with = "nullable")]
    pub for_zones: Vec<HintName>,
    /// `forNodes`.
    #[serde(deserialize_with = "nullable")]
    pub for_nodes: Vec<HintName>,
}

/// One of `hints.forZones` or `hints.forNodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HintName {
    /// `name`.
    pub name: Option<String>,
}

/// `targetRef` of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TargetRef {
    /// `name`: usually a pod.
    pub name: Option<String>,
}

/// One of `ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// `name`; a proxy ignores a port without one (an empty one counts).
    pub name: Option<String>,
    /// `protocol`, default TCP.
    pub protocol: Option<String>,
    /// `port`; a proxy ignores a port without one.
    pub port: Option<i64>,
}
