//! The sections of the configuration.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use crate::duration::GoDuration;

/// How to reach the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConnection {
    /// Path of the kubeconfig; empty for the pod's service account.
    pub kubeconfig: String,
    /// The `Accept` header.
    pub accept_content_types: String,
    /// The `Content-Type` header.
    pub content_type: String,
    /// Requests per second.
    #[serde(deserialize_with = "finite", serialize_with = "shortest")]
    pub qps: f32,
    /// Requests that may go out at once before `qps` limits them.
    pub burst: i32,
}

/// Refuses infinity and NaN, which JSON cannot hold.
fn finite<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
    let number = f32::deserialize(from)?;
    if number.is_finite() {
        Ok(number)
    } else {
        Err(de::Error::custom("expected a number of 32 bits"))
    }
}

/// Writes `5`, not `5.0`, as Go does.
fn shortest<S: Serializer>(number: &f32, to: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        to.serialize_i64(*number as i64)
    } else {
        to.serialize_f32(*number)
    }
}

/// For the iptables mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Iptables {
    /// Bit of the packet mark for packets to masquerade, 0 to 31.
    pub masquerade_bit: Option<i32>,
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// Whether NodePorts answer on the loopback address.
    pub localhost_node_ports: Option<bool>,
    /// Interval between two full repairs.
    pub sync_period: GoDuration,
    /// Shortest time between two syncs; 0 leaves it to the mode.
    pub min_sync_period: GoDuration,
}

/// For the nftables mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nftables {
    /// Bit of the packet mark for packets to masquerade, 0 to 31.
    pub masquerade_bit: Option<i32>,
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// Interval between two full repairs.
    pub sync_period: GoDuration,
    /// Shortest time between two syncs; 0 leaves it to the mode.
    pub min_sync_period: GoDuration,
}

/// For the ipvs mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ipvs {
    /// Interval between two full repairs.
    pub sync_period: GoDuration,
    /// Shortest time between two syncs; 0 leaves it to the mode.
    pub min_sync_period: GoDuration,
    /// How endpoints are chosen.
    pub scheduler: String,
    /// Prefixes of virtual servers that are not ours.
    #[serde(rename = "excludeCIDRs")]
    pub exclude_cidrs: Option<Vec<String>>,
    /// Sets `arp_ignore` and `arp_announce`.
    #[serde(rename = "strictARP")]
    pub strict_arp: bool,
    /// Timeout of idle TCP connections; 0 keeps the kernel's.
    pub tcp_timeout: GoDuration,
    /// Timeout of TCP connections after a FIN; 0 keeps the kernel's.
    pub tcp_fin_timeout: GoDuration,
    /// Timeout of UDP flows; 0 keeps the kernel's.
    pub udp_timeout: GoDuration,
}

/// For Windows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Winkernel {
    pub network_name: String,
    /// Source address of masqueraded packets.
    pub source_vip: String,
    /// Direct server return.
    #[serde(rename = "enableDSR")]
    pub enable_dsr: bool,
    /// Name of the endpoint of l2bridge.
    pub root_hns_endpoint_name: String,
    /// Forwards health checks of the load balancer.
    pub forward_health_check_vip: bool,
}

/// Interfaces for the detection modes `BridgeInterface` and `InterfaceNamePrefix`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DetectLocal {
    /// The bridge of this node's pods.
    pub bridge_interface: String,
    /// Prefix of the names of this node's pod interfaces.
    pub interface_name_prefix: String,
}

/// Connection tracking of the kernel. `None` takes the default; 0 keeps the kernel's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conntrack {
    /// Most entries per core of the machine; 0 keeps the kernel's limit and ignores `min`.
    pub max_per_core: Option<i32>,
    /// Lower bound of the limit, in entries.
    pub min: Option<i32>,
    /// Timeout of established TCP connections.
    pub tcp_established_timeout: Option<GoDuration>,
    /// Timeout of TCP connections in CLOSE_WAIT.
    pub tcp_close_wait_timeout: Option<GoDuration>,
    /// Accepts packets outside the TCP window as valid.
    pub tcp_be_liberal: bool,
    /// Timeout of UDP flows without an answer; 0 keeps the kernel's.
    pub udp_timeout: GoDuration,
    /// Timeout of UDP flows with answers; 0 keeps the kernel's.
    pub udp_stream_timeout: GoDuration,
}
