//! Service (core/v1).

use serde::Deserialize;

use super::{ObjectMeta, nullable};

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    /// `metadata`.
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(deserialize_with = "nullable")]
    pub spec: ServiceSpec,
    /// `status`.
    #[serde(deserialize_with = "nullable")]
    pub status: ServiceStatus,
}

/// `spec` of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `type`, default ClusterIP.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// `clusterIP`: an address, `None` (headless) or empty.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// `clusterIPs`.
    #[serde(rename = "clusterIPs", deserialize_with = "nullable")]
    pub cluster_ips: Vec<String>,
    /// `ipFamilies`, in the order of `clusterIPs`.
    #[serde(deserialize_with = "nullable")]
    pub ip_families: Vec<String>,
    /// `externalIPs`.
    #[serde(rename = "externalIPs", deserialize_with = "nullable")]
    pub external_ips: Vec<String>,
    /// `loadBalancerSourceRanges`.
    #[serde(deserialize_with = "nullable")]
    pub load_balancer_source_ranges: Vec<String>,
    /// `internalTrafficPolicy`.
    pub internal_traffic_policy: Option<String>,
    /// `externalTrafficPolicy`.
    pub external_traffic_policy: Option<String>,
    /// `sessionAffinity`.
    pub session_affinity: Option<String>,
    /// `sessionAffinityConfig`.
    #[serde(deserialize_with = "nullable")]
    pub session_affinity_config: AffinityConfig,
    /// `healthCheckNodePort`; 0 is none.
    pub health_check_node_port: Option<i64>,
    /// `ports`.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ServicePort>,
}

/// `sessionAffinityConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AffinityConfig {
    /// `clientIP`.
    #[serde(rename = "clientIP", deserialize_with = "nullable")]
    pub client_ip: ClientIpConfig,
}

/// `sessionAffinityConfig.clientIP`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    /// `timeoutSeconds`.
    pub timeout_seconds: Option<i64>,
}

/// One of `spec.ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// `name`.
    pub name: Option<String>,
    /// `protocol`, default TCP.
    pub protocol: Option<String>,
    /// `port`.
    pub port: Option<i64>,
    /// `nodePort`; 0 is none.
    pub node_port: Option<i64>,
}

/// `status` of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// `loadBalancer`.
    #[serde(deserialize_with = "nullable")]
    pub load_balancer: LoadBalancerStatus,
}

/// `status.loadBalancer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus {
    /// `ingress`.
    #[serde(deserialize_with = "nullable")]
    pub ingress: Vec<Ingress>,
}

/// One of `status.loadBalancer.ingress`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ingress {
    /// `ip`; `None` where the load balancer has only a host name.
    pub ip: Option<String>,
    /// `ipMode`, default VIP.
    pub ip_mode: Option<String>,
}
