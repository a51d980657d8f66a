//! The API objects, cut to the fields that we need. Unknown fields are ignored. A field without a comment has the
//! meaning of the API's field of the same name.
//!
//! They derive `Deserialize`, so they come from manifests as well as from JSON.
//! `null` means absent, as in Go. Numbers are `i64`: the range is the conversion's to judge, so
//! that it can name the field.

mod pod;

use serde::{Deserialize, Deserializer};

pub use pod::{AllLabels, Namespace, Pod};
pub(crate) use pod::{PodDnsOption, PodSpec, PodStatus};

/// `metadata` of every object. `L` is the type of the labels and `A` that of the annotations: [`AllLabels`], or a
/// type with only the labels and annotations that we read.
#[derive(Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound = "L: Default + Deserialize<'de>, A: Default + Deserialize<'de>"
)]
pub struct ObjectMeta<L = Labels, A = Annotations> {
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
    /// `labels`.
    #[serde(deserialize_with = "nullable")]
    pub labels: L,
    /// `annotations`.
    #[serde(deserialize_with = "nullable")]
    pub annotations: A,
}

/// The fields of `metadata` that identify an object and its version.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// `name`.
    pub name: Option<&'a str>,
    /// `namespace`.
    pub namespace: Option<&'a str>,
    /// `resourceVersion`.
    pub version: Option<&'a str>,
}

impl<L, A> ObjectMeta<L, A> {
    /// The name, namespace and version of the object.
    #[must_use]
    pub fn identity(&self) -> Identity<'_> {
        Identity {
            name: self.name.as_deref(),
            namespace: self.namespace.as_deref(),
            version: self.resource_version.as_deref(),
        }
    }
}

/// The labels a proxy looks at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Labels {
    /// The Service that an EndpointSlice belongs to.
    #[serde(rename = "kubernetes.io/service-name")]
    pub(crate) service_name: Option<String>,
    /// Another proxy serves this Service.
    #[serde(rename = "service.kubernetes.io/service-proxy-name")]
    pub(crate) proxy_name: Option<String>,
    /// Present, with any value: proxies leave the object alone.
    #[serde(rename = "service.kubernetes.io/headless")]
    pub(crate) headless: Option<String>,
    /// `true`: the endpoints of an Endpoints object are not mirrored into slices.
    #[serde(rename = "endpoints.kubernetes.io/skip-mirror")]
    pub(crate) skip_mirror: Option<String>,
    /// The controller that wrote an Endpoints object.
    #[serde(rename = "endpoints.kubernetes.io/managed-by")]
    pub(crate) endpoints_managed_by: Option<String>,
    /// The zone of a Node.
    #[serde(rename = "topology.kubernetes.io/zone")]
    pub(crate) zone: Option<String>,
}

/// The annotations a proxy looks at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// When the change happened that this version of an EndpointSlice reports, RFC 3339.
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    pub(crate) trigger_time: Option<String>,
    /// An Endpoints object that is the lock of a leader election.
    #[serde(rename = "control-plane.alpha.kubernetes.io/leader")]
    pub(crate) leader: Option<String>,
    /// How IPVS chooses among the endpoints of a Service.
    #[serde(rename = "sluice.dev/ipvs-scheduler")]
    pub(crate) ipvs_scheduler: Option<String>,
    /// How eBPF programs choose among the endpoints of a Service.
    #[serde(rename = "sluice.dev/lb-algorithm")]
    pub(crate) lb_algorithm: Option<String>,
    /// How eBPF programs send connections from outside to other nodes.
    #[serde(rename = "sluice.dev/forwarding")]
    pub(crate) forwarding: Option<String>,
    /// Shares of the endpoints of an EndpointSlice: `ADDRESS=WEIGHT,ADDRESS=WEIGHT`.
    #[serde(rename = "sluice.dev/endpoint-weights")]
    pub(crate) endpoint_weights: Option<String>,
}

/// A Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: ServiceSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: ServiceStatus,
}

/// `spec` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    /// `type`, default ClusterIP.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// `clusterIP`: an address, `None` (headless) or empty.
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs", deserialize_with = "nullable")]
    pub(crate) cluster_ips: Vec<String>,
    pub(crate) external_name: Option<String>,
    /// `ipFamilies`, in the order of `clusterIPs`.
    #[serde(deserialize_with = "nullable")]
    pub(crate) ip_families: Vec<String>,
    /// `loadBalancerIP`: the address that a load balancer is asked for.
    #[serde(rename = "loadBalancerIP")]
    pub(crate) load_balancer_ip: Option<String>,
    #[serde(rename = "externalIPs", deserialize_with = "nullable")]
    pub(crate) external_ips: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) load_balancer_source_ranges: Vec<String>,
    pub(crate) internal_traffic_policy: Option<String>,
    pub(crate) external_traffic_policy: Option<String>,
    pub(crate) session_affinity: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) session_affinity_config: AffinityConfig,
    /// `healthCheckNodePort`; 0 is none.
    pub(crate) health_check_node_port: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ports: Vec<ServicePort>,
}

/// `sessionAffinityConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AffinityConfig {
    #[serde(rename = "clientIP", deserialize_with = "nullable")]
    pub(crate) client_ip: ClientIpConfig,
}

/// `sessionAffinityConfig.clientIP`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClientIpConfig {
    pub(crate) timeout_seconds: Option<i64>,
}

/// One of `spec.ports`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServicePort {
    pub(crate) name: Option<String>,
    /// `protocol`, default TCP.
    pub(crate) protocol: Option<String>,
    pub(crate) port: Option<i64>,
    /// `nodePort`; 0 is none.
    pub(crate) node_port: Option<i64>,
}

/// `status` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) load_balancer: LoadBalancerStatus,
}

/// `status.loadBalancer`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoadBalancerStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) ingress: Vec<Ingress>,
}

/// One of `status.loadBalancer.ingress`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Ingress {
    /// `ip`; `None` where the load balancer has only a host name.
    pub(crate) ip: Option<String>,
    /// `ipMode`, default VIP.
    pub(crate) ip_mode: Option<String>,
}

/// An EndpointSlice.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) address_type: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) endpoints: Vec<Endpoint>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ports: Vec<EndpointPort>,
}

/// An entry of `endpoints` of an EndpointSlice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Endpoint {
    /// `addresses`: all of them mean the same endpoint.
    #[serde(deserialize_with = "nullable")]
    pub(crate) addresses: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: EndpointConditions,
    pub(crate) node_name: Option<String>,
    pub(crate) zone: Option<String>,
    /// `hostname`: the name of the endpoint in DNS.
    pub(crate) hostname: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) hints: EndpointHints,
    #[serde(deserialize_with = "nullable")]
    pub(crate) target_ref: TargetRef,
}

/// `conditions` of an endpoint; `None` is unknown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointConditions {
    pub(crate) ready: Option<bool>,
    pub(crate) serving: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

/// `hints` of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointHints {
    #[serde(deserialize_with = "nullable")]
    pub(crate) for_zones: Vec<HintName>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) for_nodes: Vec<HintName>,
}

/// One of `hints.forZones` or `hints.forNodes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HintName {
    pub(crate) name: Option<String>,
}

/// `targetRef` of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    /// `name`: usually a pod.
    pub(crate) name: Option<String>,
}

/// An entry of `ports`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointPort {
    /// `name`; a proxy ignores a port without one (an empty one counts).
    pub(crate) name: Option<String>,
    /// `protocol`, default TCP.
    pub(crate) protocol: Option<String>,
    /// `port`; a proxy ignores a port without one.
    pub(crate) port: Option<i64>,
}

/// An Endpoints object: what EndpointSlices were before Kubernetes 1.21.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Endpoints {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) subsets: Vec<EndpointSubset>,
}

/// One of `subsets`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointSubset {
    /// `addresses`: the ready endpoints.
    #[serde(deserialize_with = "nullable")]
    pub(crate) addresses: Vec<EndpointAddress>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) not_ready_addresses: Vec<EndpointAddress>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ports: Vec<EndpointPort>,
}

/// One of `addresses` or `notReadyAddresses`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointAddress {
    pub(crate) ip: Option<String>,
    pub(crate) node_name: Option<String>,
    /// `hostname`: the name of the endpoint in DNS.
    pub(crate) hostname: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) target_ref: TargetRef,
}

/// A Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    pub(crate) status: NodeStatus,
}

/// `spec` of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    /// `podCIDR`: the first of `podCIDRs`.
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs", deserialize_with = "nullable")]
    pub(crate) pod_cidrs: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) taints: Vec<Taint>,
}

/// One of `spec.taints`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Taint {
    pub(crate) key: Option<String>,
}

/// `status` of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    #[serde(deserialize_with = "nullable")]
    pub(crate) addresses: Vec<NodeAddress>,
}

/// One of `status.addresses`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAddress {
    /// `type`: InternalIP, ExternalIP, Hostname, ...
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) address: Option<String>,
}

/// A ServiceCIDR.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) spec: ServiceCidrSpec,
}

/// `spec` of a ServiceCIDR.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceCidrSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) cidrs: Vec<String>,
}

/// Reads `null` as the default.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
