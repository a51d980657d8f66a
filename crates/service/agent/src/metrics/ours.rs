//! Metrics that kube-proxy does not have.

use prometheus::{Gauge, Histogram, IntCounter, IntGauge, IntGaugeVec, exponential_buckets};
use sluice_model::{IpFamily, Protocol};
use sluice_node::PerFamily;
use sluice_node::metrics::{Registrar, to_gauge};
use sluice_plan::PortKey;
use sluice_plan::issue::{Issue, Kind};

use super::connections;

/// Metrics whose names begin with `sluice_`.
pub(crate) struct Ours {
    pub(crate) services: IntGauge,
    pub(crate) service_ports: PerFamily<IntGauge>,
    pub(crate) frontends: PerFamily<IntGauge>,
    pub(crate) endpoints: PerFamily<IntGauge>,
    pub(crate) without_endpoints: PerFamily<IntGauge>,
    named_without_endpoints: IntGaugeVec,
    issues: IntGaugeVec,
    pub(crate) problems: IntGauge,
    pub(crate) refused: IntGauge,
    unserved: PerFamily<IntGauge>,
    pub(crate) drift_repaired: IntCounter,
    /// In the order of [`Protocol::ALL`].
    pub(crate) conntrack_deleted: [IntCounter; 3],
    pub(crate) syncs_succeeded: IntCounter,
    pub(crate) syncs_failed: IntCounter,
    pub(crate) last_sync_succeeded: IntGauge,
    pub(crate) objects_added: IntCounter,
    pub(crate) objects_replaced: IntCounter,
    pub(crate) objects_deleted: IntCounter,
    pub(crate) netlink_sent: IntCounter,
    pub(crate) netlink_received: IntCounter,
    pub(crate) netlink_duration: Histogram,
    pub(crate) source_synced: IntGauge,
    pub(crate) source_last_event: Gauge,
    pub(crate) health_checks: IntGauge,
}

/// The kinds of issues of the node.
const OF_NODE: [Kind; 4] = [
    Kind::NoDnsService,
    Kind::NoNode,
    Kind::NoPodCidr,
    Kind::WrongDnsClusterIp,
];

impl Ours {
    pub(super) fn new(to: Registrar<'_>) -> Self {
        let issues = to.gauges("sluice_issues", &["reason"]);
        for reason in Kind::NAMES {
            issues.with_label_values(&[reason]);
        }
        let [syncs_succeeded, syncs_failed] =
            to.counter_of_each("sluice_sync_total", "result", ["success", "failure"]);
        let [objects_added, objects_replaced, objects_deleted] = to.counter_of_each(
            "sluice_objects_written_total",
            "op",
            ["add", "replace", "delete"],
        );
        let [netlink_sent, netlink_received] = to.counter_of_each(
            "sluice_netlink_bytes_total",
            "direction",
            ["sent", "received"],
        );
        let netlink_buckets = exponential_buckets(0.000_1, 2.0, 18).expect("constants");
        Self {
            services: to.gauge("sluice_services"),
            service_ports: to.family_gauges("sluice_service_ports"),
            frontends: to.family_gauges("sluice_frontends"),
            endpoints: to.family_gauges("sluice_endpoints"),
            without_endpoints: to.family_gauges("sluice_service_ports_without_endpoints"),
            named_without_endpoints: to.gauges(
                "sluice_service_without_endpoints_info",
                &connections::SERVICE_LABELS,
            ),
            issues,
            problems: to.gauge("sluice_problems"),
            refused: to.gauge("sluice_refused_service_ports"),
            unserved: to.family_gauges("sluice_unserved"),
            drift_repaired: to.counter("sluice_drift_repaired_total"),
            conntrack_deleted: to.counter_of_each(
                "sluice_conntrack_deleted_total",
                "protocol",
                Protocol::ALL.map(Protocol::as_str),
            ),
            syncs_succeeded,
            syncs_failed,
            last_sync_succeeded: to.gauge("sluice_last_sync_succeeded"),
            objects_added,
            objects_replaced,
            objects_deleted,
            netlink_sent,
            netlink_received,
            netlink_duration: to
                .histogram("sluice_netlink_request_duration_seconds", &netlink_buckets),
            source_synced: to.gauge("sluice_source_synced"),
            source_last_event: to.seconds("sluice_source_last_event_timestamp_seconds"),
            health_checks: to.gauge("sluice_health_check_services"),
        }
    }

    /// Adds the series of a service port without endpoints.
    pub(crate) fn name_without_endpoints(&self, key: &PortKey) {
        let family = key.family.to_string();
        let labels = connections::labels(key, &family);
        let gauge = self.named_without_endpoints.with_label_values(&labels);
        gauge.set(1);
    }

    /// Removes the series of a service port without endpoints.
    pub(crate) fn forget_without_endpoints(&self, key: &PortKey) {
        let family = key.family.to_string();
        let labels = connections::labels(key, &family);
        // No other code removes it.
        let _ = self.named_without_endpoints.remove_label_values(&labels);
    }

    /// Adds issues to the gauges (`sign` 1), or takes them away (`sign` -1).
    pub(crate) fn count_issues(&self, issues: &[Issue], sign: i64) {
        for it in issues {
            let gauge = self.issues.with_label_values(&[it.kind.name()]);
            gauge.add(sign * to_gauge(it.count));
        }
    }

    pub(crate) fn set_node_issues(&self, issues: &[Issue]) {
        for kind in OF_NODE {
            let count = issues.iter().filter(|it| it.kind == kind).count();
            let gauge = self.issues.with_label_values(&[kind.name()]);
            gauge.set(to_gauge(count));
        }
    }

    /// Sets the families that lack rules for one of their Services: all but these.
    pub(crate) fn set_complete(&self, complete: &[IpFamily]) {
        for family in IpFamily::ALL {
            let is_unserved = !complete.contains(&family);
            self.unserved.of(family).set(is_unserved.into());
        }
    }
}
