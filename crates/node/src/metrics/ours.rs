//! What kube-proxy has no metric for.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::{Gauge, Histogram, IntCounter, IntGauge, IntGaugeVec, exponential_buckets};
use sluice_model::{IpFamily, Protocol};

use super::Identity;
use super::registrar::{PerFamily, Registrar};

/// Metrics whose names begin with `sluice_`.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) services: IntGauge,
    pub(crate) service_ports: PerFamily<IntGauge>,
    pub(crate) frontends: PerFamily<IntGauge>,
    pub(crate) endpoints: PerFamily<IntGauge>,
    issues: IntGaugeVec,
    pub(crate) problems: IntGauge,
    pub(crate) refused: IntGauge,
    unserved: PerFamily<IntGauge>,
    pub(crate) drift_repaired: IntCounter,
    conntrack_deleted: [IntCounter; 3],
    pub(crate) syncs_succeeded: IntCounter,
    pub(crate) syncs_failed: IntCounter,
    pub(crate) last_sync_succeeded: IntGauge,
    pub(crate) objects_added: IntCounter,
    pub(crate) objects_replaced: IntCounter,
    pub(crate) objects_deleted: IntCounter,
    netlink_sent: IntCounter,
    netlink_received: IntCounter,
    netlink_duration: Histogram,
    pub(crate) source_synced: IntGauge,
    pub(crate) source_last_event: Gauge,
    pub(crate) health_checks: IntGauge,
}

/// The reasons of issues; one that is not here appears with the first issue of its kind.
const ISSUES: [&str; 7] = [
    "ClusterIPShared",
    "ExternalIPNotAllowed",
    "FrontendTaken",
    "NoClusterIP",
    "NoNode",
    "Shadows",
    "TooLarge",
];

impl Ours {
    pub(super) fn new(to: Registrar<'_>, identity: &Identity) -> Self {
        let build = to.gauges(
            "sluice_build_info",
            "Always 1; the labels say what was built.",
            &["version", "commit", "mode"],
        );
        let (version, commit) = (&*identity.build.version, &*identity.build.commit);
        build
            .with_label_values(&[version, commit, identity.plane.name])
            .set(1);
        let issues = to.gauges(
            "sluice_issues",
            "Objects that contradict each other or cannot be served, by reason.",
            &["reason"],
        );
        for reason in ISSUES {
            issues.with_label_values(&[reason]);
        }
        let deleted = to.counters(
            "sluice_conntrack_deleted_total",
            "Conntrack entries deleted because their endpoint is gone.",
            &["protocol"],
        );
        let syncs = to.counters("sluice_sync_total", "Syncs by result.", &["result"]);
        let written = to.counters(
            "sluice_objects_written_total",
            "Objects written to the kernel.",
            &["op"],
        );
        let bytes = to.counters(
            "sluice_netlink_bytes_total",
            "Bytes exchanged with nf_tables in transactions.",
            &["direction"],
        );
        Self {
            services: to.gauge("sluice_services", "Services known."),
            service_ports: to.family_gauges("sluice_service_ports", "Service ports planned."),
            frontends: to.family_gauges(
                "sluice_frontends",
                "Addresses and ports that clients can dial.",
            ),
            endpoints: to.family_gauges(
                "sluice_endpoints",
                "Endpoints in use, once per service port.",
            ),
            issues,
            problems: to.gauge("sluice_problems", "What sources could not read."),
            refused: to.gauge(
                "sluice_refused_service_ports",
                "Service ports that the kernel refuses.",
            ),
            unserved: to.family_gauges(
                "sluice_unserved",
                "1 while a family of this machine cannot be served and Services have it.",
            ),
            drift_repaired: to.counter(
                "sluice_drift_repaired_total",
                "Syncs that repaired what other programs had changed.",
            ),
            conntrack_deleted: Protocol::ALL.map(|it| deleted.with_label_values(&[it.as_str()])),
            syncs_succeeded: syncs.with_label_values(&["success"]),
            syncs_failed: syncs.with_label_values(&["failure"]),
            last_sync_succeeded: to.gauge(
                "sluice_last_sync_succeeded",
                "1 when the last sync succeeded, 0 when it failed or there was none.",
            ),
            objects_added: written.with_label_values(&["add"]),
            objects_replaced: written.with_label_values(&["replace"]),
            objects_deleted: written.with_label_values(&["delete"]),
            netlink_sent: bytes.with_label_values(&["sent"]),
            netlink_received: bytes.with_label_values(&["received"]),
            netlink_duration: to.histogram(
                "sluice_netlink_request_duration_seconds",
                "From sending a transaction to the kernel's answer.",
                &exponential_buckets(0.000_1, 2.0, 18).expect("constants"),
            ),
            source_synced: to.gauge(
                "sluice_source_synced",
                "1 when the source has delivered its first complete list.",
            ),
            source_last_event: to.seconds(
                "sluice_source_last_event_timestamp_seconds",
                "When a source last said something, seconds since the epoch.",
            ),
            health_checks: to.gauge(
                "sluice_health_check_services",
                "Services whose health check node port is served.",
            ),
        }
    }

    /// Issues by reason. A reason that is left out keeps its number.
    pub(crate) fn set_issues(&self, counts: &BTreeMap<&'static str, i64>) {
        for (reason, count) in counts {
            self.issues.with_label_values(&[*reason]).set(*count);
        }
    }

    /// Only these families have all that their Services ask for.
    pub(crate) fn set_complete(&self, complete: &[IpFamily]) {
        for family in IpFamily::ALL {
            let is_unserved = !complete.contains(&family);
            self.unserved.of(family).set(is_unserved.into());
        }
    }

    pub(super) fn conntrack_deleted(&self, protocol: Protocol) -> &IntCounter {
        match protocol {
            Protocol::Tcp => &self.conntrack_deleted[0],
            Protocol::Udp => &self.conntrack_deleted[1],
            Protocol::Sctp => &self.conntrack_deleted[2],
        }
    }

    pub(super) fn netlink_request(&self, sent: usize, received: usize, elapsed: Duration) {
        self.netlink_sent.inc_by(sent as u64);
        self.netlink_received.inc_by(received as u64);
        self.netlink_duration.observe(elapsed.as_secs_f64());
    }
}
