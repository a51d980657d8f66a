//! Warnings of fields that are set and have no effect.

use serde_json::Value;

use crate::duration::GoDuration;
use crate::problem::{Lines, Problem};
use crate::types::KubeProxyConfiguration;

/// Paths of fields that Sluice ignores, with all fields below them, and why.
pub const IGNORED: &[(&str, &str)] = &[
    (
        "clientConnection.acceptContentTypes",
        "Sluice chooses its own content type",
    ),
    (
        "clientConnection.contentType",
        "Sluice chooses its own content type",
    ),
    ("logging.flushFrequency", "Sluice logs without a buffer"),
    ("logging.options", "Sluice logs to stderr without a buffer"),
    (
        "logging.vmodule",
        "the source files of Sluice have other names",
    ),
    ("portRange", "deprecated, it has no effect"),
    ("showHiddenMetricsForVersion", "Sluice hides no metrics"),
    ("windowsRunAsService", "for Windows only"),
    ("winkernel", "for Windows only"),
];

/// Feature gates of Kubernetes 1.36 that kube-proxy reads: name, stage as the metric
/// `kubernetes_feature_enabled` writes it (GA is empty), and whether it is on by default. None of them
/// changes Sluice, so an unknown name does no harm and is a warning, where kube-proxy refuses it. A
/// list of all gates of Kubernetes would be wrong after the next release.
const GATES: [(&str, &str, bool); 19] = [
    ("AllAlpha", ALPHA, false),
    ("AllBeta", BETA, false),
    ("ComponentFlagz", BETA, true),
    ("ComponentSLIs", GA, true),
    ("ComponentStatusz", BETA, true),
    ("ContextualLogging", BETA, true),
    ("InformerResourceVersion", GA, true),
    ("KubeProxyDrainingTerminatingNodes", GA, true),
    ("LoggingAlphaOptions", ALPHA, false),
    ("LoggingBetaOptions", BETA, true),
    ("MultiCIDRServiceAllocator", GA, true),
    ("NFTablesProxyMode", GA, true),
    ("NativeHistograms", ALPHA, false),
    ("PreferSameTrafficDistribution", GA, true),
    ("ServiceTrafficDistribution", GA, true),
    ("StrictIPCIDRValidation", ALPHA, false),
    ("TopologyAwareHints", GA, true),
    ("WatchListClient", BETA, true),
    ("WinDSR", GA, true),
];

const ALPHA: &str = "ALPHA";
const BETA: &str = "BETA";
const GA: &str = "";

/// The feature gates that kube-proxy reads, as a configuration sets them: name, stage (`ALPHA`,
/// `BETA`; empty for GA), and whether it is on. As in Kubernetes, `AllAlpha` and `AllBeta` set those of
/// their stage that are not named themselves, and a GA gate stays as it is.
pub fn feature_gates(config: &KubeProxyConfiguration) -> Vec<(&'static str, &'static str, bool)> {
    let set = |name| config.feature_gates.get(name).copied();
    let is_on = |name, stage, default: bool| match stage {
        ALPHA => set(name).or(set("AllAlpha")).unwrap_or(default),
        BETA => set(name).or(set("AllBeta")).unwrap_or(default),
        _ => default,
    };
    let all = GATES.iter();
    all.map(|&(name, stage, default)| (name, stage, is_on(name, stage, default)))
        .collect()
}

/// Sections of modes, ignored while another mode runs.
fn other_sections(mode: &str) -> &'static [(&'static str, &'static str)] {
    match mode {
        "" => &[
            ("ipvs", "for the ipvs mode"),
            ("nftables", "without a mode the iptables section counts"),
        ],
        "iptables" => &[
            ("ipvs", "for the ipvs mode"),
            ("nftables", "for the nftables mode"),
        ],
        "ipvs" => &[("nftables", "for the nftables mode")],
        _ => &[
            ("iptables", "for the iptables and ipvs modes"),
            ("ipvs", "for the ipvs mode"),
        ],
    }
}

/// A warning for each field that differs from its default and has no effect in Sluice, with the
/// reason. The configuration must have its defaults.
pub fn warnings(config: &KubeProxyConfiguration, lines: &Lines) -> Vec<Problem> {
    let json = |it| serde_json::to_value(it).expect("plain values and text keys");
    let default = json(KubeProxyConfiguration::defaulted());
    let mut config = config.clone();
    // What kube-proxy's defaults say nobody has chosen.
    for it in [
        &mut config.iptables.min_sync_period,
        &mut config.nftables.min_sync_period,
    ] {
        if *it == GoDuration::from_secs(1) {
            *it = GoDuration::default();
        }
    }
    let value = json(config.clone());
    let mut found = Vec::new();
    let sections = other_sections(&config.mode);
    for (field, why) in IGNORED.iter().chain(sections) {
        let (value, default) = (lookup(&value, field), lookup(&default, field));
        differences((*field).to_owned(), value, default, why, &mut found);
    }
    for gate in config.feature_gates.keys() {
        if !GATES.iter().any(|(name, ..)| name == gate) {
            let field = format!("featureGates.{gate}");
            found.push(Problem::new(field, "not a feature gate of kube-proxy 1.36"));
        }
    }
    for problem in &mut found {
        problem.line = lines.of(&problem.field);
    }
    found.sort_by(|a, b| (a.line, &a.field).cmp(&(b.line, &b.field)));
    found
}

fn lookup<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |value, name| &value[name])
}

fn differences(path: String, value: &Value, default: &Value, why: &str, found: &mut Vec<Problem>) {
    match (value, default) {
        (Value::Object(value), Value::Object(default)) => {
            for (name, value) in value {
                let default = default.get(name).unwrap_or(&Value::Null);
                differences(format!("{path}.{name}"), value, default, why, found);
            }
        }
        _ if value == default => {}
        _ => found.push(Problem::new(path, format!("is ignored: {why}"))),
    }
}

#[cfg(test)]
mod tests;
