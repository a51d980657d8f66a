//! `metadata`.

use serde::Deserialize;

use super::nullable;

/// `metadata` of every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// `name`.
    pub name: Option<String>,
    /// `namespace`; `None` for cluster-scoped objects and where `default` is meant.
    pub namespace: Option<String>,
    /// `creationTimestamp`, RFC 3339.
    pub creation_timestamp: Option<String>,
    /// `deletionTimestamp`, RFC 3339: the object is being deleted.
    pub deletion_timestamp: Option<String>,
    /// `resourceVersion`, for list and watch.
    pub resource_version: Option<String>,
    /// `labels` that mean something to a proxy.
    #[serde(deserialize_with = "nullable")]
    pub labels: Labels,
    /// `annotations` that mean something to a proxy.
    #[serde(deserialize_with = "nullable")]
    pub annotations: Annotations,
}

/// The labels a proxy looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Labels {
    /// The Service that an EndpointSlice belongs to.
    #[serde(rename = "kubernetes.io/service-name")]
    pub service_name: Option<String>,
    /// Another proxy serves this Service.
    #[serde(rename = "service.kubernetes.io/service-proxy-name")]
    pub proxy_name: Option<String>,
    /// Present, with any value: proxies leave the object alone.
    #[serde(rename = "service.kubernetes.io/headless")]
    pub headless: Option<String>,
    /// The zone of a Node.
    #[serde(rename = "topology.kubernetes.io/zone")]
    pub zone: Option<String>,
}

/// The annotations a proxy looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// When the change happened that this version of an EndpointSlice reports, RFC 3339.
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    pub trigger_time: Option<String>,
    /// How IPVS chooses among the endpoints of a Service.
    #[serde(rename = "sluice.dev/ipvs-scheduler")]
    pub ipvs_scheduler: Option<String>,
    /// Shares of the endpoints of an EndpointSlice: `ADDRESS=WEIGHT,ADDRESS=WEIGHT`.
    #[serde(rename = "sluice.dev/endpoint-weights")]
    pub endpoint_weights: Option<String>,
}
