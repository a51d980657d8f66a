//! The sections of the configuration.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

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
    #[serde(deserialize_with = "finite")]
    pub qps: f32,
    /// Requests at once before `qps` counts.
    pub burst: i32,
}

/// A number that JSON can hold.
fn finite<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
    let number = f32::deserialize(from)?;
    match number.is_finite() {
        true => Ok(number),
        false => Err(de::Error::custom("expected a number of 32 bits")),
    }
}

/// For the iptables mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Iptables {
    /// Bit of the packet mark that says "masquerade this", 0 to 31.
    pub masquerade_bit: Option<i32>,
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// Whether NodePorts answer on the loopback address.
    pub localhost_node_ports: Option<bool>,
    /// Between two repairs.
    pub sync_period: GoDuration,
    /// Between two syncs, at least.
    pub min_sync_period: GoDuration,
}

/// For the nftables mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nftables {
    /// Bit of the packet mark that says "masquerade this", 0 to 31.
    pub masquerade_bit: Option<i32>,
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// Between two repairs.
    pub sync_period: GoDuration,
    /// Between two syncs, at least.
    pub min_sync_period: GoDuration,
}

/// For the ipvs mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ipvs {
    /// Between two repairs.
    pub sync_period: GoDuration,
    /// Between two syncs, at least.
    pub min_sync_period: GoDuration,
    /// How endpoints are chosen.
    pub scheduler: String,
    /// Virtual servers in these prefixes are left alone.
    #[serde(rename = "excludeCIDRs")]
    pub exclude_cidrs: Option<Vec<String>>,
    /// Sets `arp_ignore` and `arp_announce`.
    #[serde(rename = "strictARP")]
    pub strict_arp: bool,
    /// Of idle TCP connections; 0 leaves it alone.
    pub tcp_timeout: GoDuration,
    /// Of TCP connections after a FIN; 0 leaves it alone.
    pub tcp_fin_timeout: GoDuration,
    /// Of UDP; 0 leaves it alone.
    pub udp_timeout: GoDuration,
}

/// For Windows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Winkernel {
    /// Name of the network.
    pub network_name: String,
    /// Source of masqueraded packets.
    pub source_vip: String,
    /// Direct server return.
    #[serde(rename = "enableDSR")]
    pub enable_dsr: bool,
    /// Name of the endpoint of l2bridge.
    pub root_hns_endpoint_name: String,
    /// Forwards health checks of the load balancer.
    pub forward_health_check_vip: bool,
}

/// Names for the modes `BridgeInterface` and `InterfaceNamePrefix`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DetectLocal {
    /// The bridge of this node's pods.
    pub bridge_interface: String,
    /// Beginning of the names of this node's pod interfaces.
    pub interface_name_prefix: String,
}

/// Connection tracking of the kernel. Where `None` and 0 differ, 0 leaves the kernel's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conntrack {
    /// Entries per core of the machine; 0 leaves the limit and ignores `min`.
    pub max_per_core: Option<i32>,
    /// Entries at least.
    pub min: Option<i32>,
    /// Of established TCP connections.
    pub tcp_established_timeout: Option<GoDuration>,
    /// Of TCP connections in CLOSE_WAIT.
    pub tcp_close_wait_timeout: Option<GoDuration>,
    /// Takes packets outside the TCP window for valid.
    pub tcp_be_liberal: bool,
    /// Of UDP flows without an answer; 0 leaves it.
    pub udp_timeout: GoDuration,
    /// Of UDP flows with answers; 0 leaves it.
    pub udp_stream_timeout: GoDuration,
}
