//! What is written: `KubeProxyConfiguration` of `kubeproxy.config.k8s.io/v1alpha1`.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// What to log, and how.
    pub logging: Logging,
    /// Name of the Node, empty for the host's name.
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
    /// How traffic of this node's pods is recognised.
    pub detect_local_mode: String,
    /// Names for two of the modes of detection.
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
    /// How often the API server is asked for everything again.
    pub config_sync_period: GoDuration,
    /// Does nothing; ports of the userspace mode that is gone.
    pub port_range: String,
    /// For Windows.
    pub windows_run_as_service: bool,
}

impl Default for KubeProxyConfiguration {
    /// Go's zero value, with its type filled in.
    fn default() -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            feature_gates: BTreeMap::new(),
            client_connection: ClientConnection::default(),
            logging: Logging::default(),
            hostname_override: String::new(),
            bind_address: String::new(),
            healthz_bind_address: String::new(),
            metrics_bind_address: String::new(),
            bind_address_hard_fail: false,
            enable_profiling: false,
            show_hidden_metrics_for_version: String::new(),
            mode: String::new(),
            iptables: Iptables::default(),
            ipvs: Ipvs::default(),
            nftables: Nftables::default(),
            winkernel: Winkernel::default(),
            detect_local_mode: String::new(),
            detect_local: DetectLocal::default(),
            cluster_cidr: String::new(),
            node_port_addresses: None,
            oom_score_adj: None,
            conntrack: Conntrack::default(),
            config_sync_period: GoDuration::default(),
            port_range: String::new(),
            windows_run_as_service: false,
        }
    }
}
