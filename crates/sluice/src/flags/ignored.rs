//! What is accepted so that nobody has to edit a command line.

use super::value::{self, text, to};
use super::{Flag, Heading};

const BASE: Flag = Flag {
    heading: Heading::Ignored,
    ..Flag::NOTHING
};

/// Each with the field it sets.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "feature-gates",
        value: Some("NAME=BOOL,.."),
        help: "Features of Kubernetes",
        fields: &["featureGates"],
        set: |c, v| value::gates(&mut c.feature_gates, v),
        ..BASE
    },
    Flag {
        name: "kube-api-content-type",
        value: Some("TYPE"),
        help: "Sluice chooses its own content type",
        fields: &["clientConnection.contentType"],
        set: |c, v| text(&mut c.client_connection.content_type, v),
        ..BASE
    },
    Flag {
        name: "show-hidden-metrics-for-version",
        value: Some("VERSION"),
        help: "Sluice hides no metrics",
        fields: &["showHiddenMetricsForVersion"],
        set: |c, v| text(&mut c.show_hidden_metrics_for_version, v),
        ..BASE
    },
    Flag {
        name: "proxy-port-range",
        value: Some("RANGE"),
        help: "Deprecated",
        fields: &["portRange"],
        set: |c, v| text(&mut c.port_range, v),
        ..BASE
    },
    Flag {
        name: "windows-service",
        help: "For Windows",
        fields: &["windowsRunAsService"],
        set: |c, v| to(&mut c.windows_run_as_service, value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "network-name",
        value: Some("NAME"),
        help: "For Windows",
        fields: &["winkernel.networkName"],
        set: |c, v| text(&mut c.winkernel.network_name, v),
        ..BASE
    },
    Flag {
        name: "source-vip",
        value: Some("IP"),
        help: "For Windows",
        fields: &["winkernel.sourceVip"],
        set: |c, v| text(&mut c.winkernel.source_vip, v),
        ..BASE
    },
    Flag {
        name: "enable-dsr",
        help: "For Windows",
        fields: &["winkernel.enableDSR"],
        set: |c, v| to(&mut c.winkernel.enable_dsr, value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "root-hnsendpoint-name",
        value: Some("NAME"),
        help: "For Windows",
        fields: &["winkernel.rootHnsEndpointName"],
        set: |c, v| text(&mut c.winkernel.root_hns_endpoint_name, v),
        ..BASE
    },
    Flag {
        name: "forward-healthcheck-vip",
        help: "For Windows",
        fields: &["winkernel.forwardHealthCheckVip"],
        set: |c, v| to(&mut c.winkernel.forward_health_check_vip, value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "add-dir-header",
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "alsologtostderr",
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "log-backtrace-at",
        value: Some("FILE:LINE"),
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "log-dir",
        value: Some("DIR"),
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "log-file",
        value: Some("PATH"),
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "log-file-max-size",
        value: Some("MB"),
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "logtostderr",
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "one-output",
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "skip-headers",
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "skip-log-headers",
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
    Flag {
        name: "stderrthreshold",
        value: Some("LEVEL"),
        help: "Of klog before Kubernetes 1.26",
        ..BASE
    },
];
