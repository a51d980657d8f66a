//! The metrics server's pages beside the metrics.

use std::collections::BTreeMap;

use serde_json::json;
use sluice_config::{Effective, KubeProxyConfiguration, feature_gates};
use sluice_node::MetricsServer;
use sluice_node::metrics::Identity;

use crate::logging;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Version and features, for the metrics.
pub(super) fn identity(mode: &'static str, config: &KubeProxyConfiguration) -> Identity {
    Identity {
        mode,
        version: VERSION.to_owned(),
        features: feature_gates(config),
    }
}

/// `None` without an address for it in the configuration.
pub(super) fn metrics_server(
    mode: &'static str,
    effective: &Effective,
    config: &KubeProxyConfiguration,
    flags: BTreeMap<String, String>,
) -> Option<MetricsServer> {
    Some(MetricsServer {
        address: effective.metrics_address?,
        mode,
        config: json!({ "kubeproxy.config.k8s.io": config }),
        flags,
        version: VERSION.to_owned(),
        set_verbosity: effective.profiling.then_some(set_verbosity),
    })
}

fn set_verbosity(text: &str) -> Result<(), String> {
    let verbosity = text.parse().map_err(|_| format!("{text:?} is no level"))?;
    logging::set_verbosity(verbosity);
    Ok(())
}
