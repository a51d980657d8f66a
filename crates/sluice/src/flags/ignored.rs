//! Flags without effect, accepted so that a command line of kube-proxy works unchanged.

use super::value::{self, switch, text};
use super::{BOOL, Flag, Heading};

const fn flag(name: &'static str, value: &'static str) -> Flag {
    Flag::new(Heading::Ignored, name, value)
}

/// A flag of klog that Kubernetes 1.26 removed.
const fn klog(name: &'static str, value: &'static str) -> Flag {
    flag(name, value).help("A log flag that Kubernetes 1.26 removed")
}

pub(super) const FLAGS: &[Flag] = &[
    flag("feature-gates", "NAME=BOOL,..")
        .help("Features of Kubernetes")
        .fields(&["featureGates"])
        .set(|c, v| value::gates(&mut c.feature_gates, v)),
    flag("kube-api-content-type", "TYPE")
        .help("Sluice chooses its own content type")
        .fields(&["clientConnection.contentType"])
        .set(|c, v| text(&mut c.client_connection.content_type, v)),
    flag("show-hidden-metrics-for-version", "VERSION")
        .help("Sluice hides no metrics")
        .fields(&["showHiddenMetricsForVersion"])
        .set(|c, v| text(&mut c.show_hidden_metrics_for_version, v)),
    flag("proxy-port-range", "RANGE")
        .help("Deprecated")
        .fields(&["portRange"])
        .set(|c, v| text(&mut c.port_range, v)),
    flag("windows-service", BOOL)
        .help("For Windows")
        .fields(&["windowsRunAsService"])
        .set(|c, v| switch(&mut c.windows_run_as_service, v)),
    flag("network-name", "NAME")
        .help("For Windows")
        .fields(&["winkernel.networkName"])
        .set(|c, v| text(&mut c.winkernel.network_name, v)),
    flag("source-vip", "IP")
        .help("For Windows")
        .fields(&["winkernel.sourceVip"])
        .set(|c, v| text(&mut c.winkernel.source_vip, v)),
    flag("enable-dsr", BOOL)
        .help("For Windows")
        .fields(&["winkernel.enableDSR"])
        .set(|c, v| switch(&mut c.winkernel.enable_dsr, v)),
    flag("root-hnsendpoint-name", "NAME")
        .help("For Windows")
        .fields(&["winkernel.rootHnsEndpointName"])
        .set(|c, v| text(&mut c.winkernel.root_hns_endpoint_name, v)),
    flag("forward-healthcheck-vip", BOOL)
        .help("For Windows")
        .fields(&["winkernel.forwardHealthCheckVip"])
        .set(|c, v| switch(&mut c.winkernel.forward_health_check_vip, v)),
    klog("add-dir-header", BOOL),
    klog("alsologtostderr", BOOL),
    klog("log-backtrace-at", "FILE:LINE"),
    klog("log-dir", "DIR"),
    klog("log-file", "PATH"),
    klog("log-file-max-size", "MB"),
    klog("logtostderr", BOOL),
    klog("one-output", BOOL),
    klog("skip-headers", BOOL),
    klog("skip-log-headers", BOOL),
    klog("stderrthreshold", "LEVEL"),
];
