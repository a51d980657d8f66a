//! The fields as written: `KubeProxyConfiguration` of `kubeproxy.config.k8s.io/v1alpha1`.
//!
//! Names, types and meaning are those of `k8s.io/kube-proxy/config/v1alpha1/types.go` and of the
//! component-base types it embeds. A value that is absent, null or empty is what Go calls the
//! zero value; [`crate::defaults`] gives it a meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::duration::GoDuration;
pub use sections::{ClientConnection, Conntrack, DetectLocal, Iptables, Ipvs, Nftables, Winkernel};

pub use logging::{FormatOptions, Logging, LoggingOptions, VmoduleItem};

mod logging;
mod sections;

/// The `apiVersion` that is understood.
pub const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";

/// The `kind` that is understood.
pub const KIND: &str = "KubeProxyConfiguration";

/// Everything that can be configured of kube-proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeProxyConfiguration {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// Alpha and beta features by name. None of them changes Sluice.
    pub feature_gates: BTreeMap<String, bool>,
    /// How to reach the API server.
    pub client_connection: ClientConnection,
    /// Format and verbosity of the log.
    pub logging: Logging,
    /// Name of the Node; empty for the host's name.
    pub hostname_override: String,
    /// The node's primary address if it is a specific one; binds nothing.
    pub bind_address: String,
    /// `IP:port` of the health server.
    pub healthz_bind_address: String,
    /// `IP:port` of the metrics server.
    pub metrics_bind_address: String,
    /// Whether a server that cannot bind its address ends the process.
    pub bind_address_hard_fail: bool,
    /// Whether the metrics server offers profiles.
    pub enable_profiling: bool,
    /// The previous minor version, to show the metrics it showed.
    pub show_hidden_metrics_for_version: String,
    /// Data plane: `iptables`, `ipvs`, `nftables`; empty for the default.
    pub mode: String,
    /// For the iptables mode; its masquerade values also for ipvs.
    pub iptables: Iptables,
    /// For the ipvs mode.
    pub ipvs: Ipvs,
    /// For the nftables mode.
    pub nftables: Nftables,
    /// For Windows.
    pub winkernel: Winkernel,
    /// How the node recognises traffic of its own pods.
    pub detect_local_mode: String,
    /// Interface names for two of the detection modes.
    pub detect_local: DetectLocal,
    /// Addresses of pods: one prefix, or one of each family after a comma.
    #[serde(rename = "clusterCIDR")]
    pub cluster_cidr: String,
    /// Addresses of the node that answer on NodePorts; `None` for the mode's default.
    pub node_port_addresses: Option<Vec<String>>,
    /// `oom_score_adj` of the process, -1000 to 1000.
    pub oom_score_adj: Option<i32>,
    /// Connection tracking of the kernel.
    pub conntrack: Conntrack,
    /// Interval at which kube-proxy lists all objects again.
    pub config_sync_period: GoDuration,
    /// Has no effect: ports of the userspace mode, which was removed.
    pub port_range: String,
    pub windows_run_as_service: bool,
}
