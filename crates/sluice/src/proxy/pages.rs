//! What the metrics server says beside the metrics.

use std::collections::BTreeMap;

use serde_json::json;
use sluice_config::{Effective, KubeProxyConfiguration};
use sluice_node::metrics::{BuildInfo, Feature, Identity};
use sluice_node::{MetricsServer, Profiling};
use sluice_plane::Description;

use crate::logging;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What this process is.
pub(super) fn identity(plane: Description, config: &KubeProxyConfiguration) -> Identity {
    let features = config.feature_gates.iter();
    let features = features.map(|(name, enabled)| {
        let feature = Feature {
            stage: String::new(),
            enabled: *enabled,
        };
        (name.clone(), feature)
    });
    Identity {
        plane,
        build: BuildInfo {
            version: VERSION.to_owned(),
            commit: String::new(),
        },
        features: features.collect(),
    }
}

/// The metrics server, where the configuration asks for one.
pub(super) fn metrics_server(
    mode: &'static str,
    effective: &Effective,
    config: &KubeProxyConfiguration,
    flags: BTreeMap<String, String>,
) -> Option<MetricsServer> {
    let profiling = || Profiling {
        set_verbosity: Box::new(|text| {
            let verbosity = text.parse().map_err(|_| format!("{text:?} is no level"))?;
            logging::set_verbosity(verbosity);
            Ok(())
        }),
    };
    Some(MetricsServer {
        address: effective.metrics_address?,
        mode,
        config: json!({ "kubeproxy.config.k8s.io": config }),
        flags,
        version: VERSION.to_owned(),
        profiling: effective.profiling.then(profiling),
    })
}
