//! kube-proxy's own metrics: names, types, labels and buckets of its release 1.36
//! (`pkg/proxy/metrics/metrics.go`), so that dashboards and alerts go on working.

use prometheus::{
    Gauge, Histogram, IntCounter, IntGauge, IntGaugeVec, exponential_buckets, linear_buckets,
};
use sluice_node::PerFamily;
use sluice_node::metrics::{Registrar, per_family, to_gauge};
use sluice_plane::{FailureMetrics, RuleCount, RuleMetrics};

use super::packets::Packets;

/// Metrics under kube-proxy's names.
pub(crate) struct KubeProxy {
    pub(crate) sync_duration: PerFamily<Histogram>,
    /// Syncs that read the kernel; `None` in the ipvs mode, which has one kind.
    pub(crate) full_sync_duration: Option<PerFamily<Histogram>>,
    /// Syncs that wrote a difference; `None` in the ipvs mode.
    pub(crate) partial_sync_duration: Option<PerFamily<Histogram>>,
    pub(crate) last_sync: PerFamily<Gauge>,
    pub(crate) last_queued: PerFamily<Gauge>,
    pub(crate) network_programming: PerFamily<Histogram>,
    pub(crate) endpoint_changes: IntCounter,
    pub(crate) endpoint_changes_pending: IntGauge,
    pub(crate) service_changes: IntCounter,
    pub(crate) service_changes_pending: IntGauge,
    pub(crate) no_local_endpoints_internal: PerFamily<IntGauge>,
    pub(crate) no_local_endpoints_external: PerFamily<IntGauge>,
    /// Full syncs that failed.
    pub(crate) full_failures: PerFamily<IntCounter>,
    /// Other syncs that failed; the same counters where kube-proxy has one for both.
    pub(crate) partial_failures: PerFamily<IntCounter>,
    /// In the iptables mode.
    pub(crate) rules: Option<Rules>,
    /// In the iptables mode.
    pub(crate) packets: Option<Packets>,
    pub(crate) conntrack_duration: PerFamily<Histogram>,
    pub(crate) conntrack_deleted: PerFamily<IntCounter>,
}

/// The number of rules by table and family.
pub(crate) struct Rules {
    total: IntGaugeVec,
    last: IntGaugeVec,
}

impl Rules {
    fn new(to: Registrar<'_>) -> Self {
        let gauges = |name: &str| {
            let all = to.gauges(name, &["table", "ip_family"]);
            for table in ["filter", "nat"] {
                per_family(&all, &[table]);
            }
            all
        };
        Self {
            total: gauges("kubeproxy_sync_proxy_rules_iptables_total"),
            last: gauges("kubeproxy_sync_proxy_rules_iptables_last"),
        }
    }

    /// kube-proxy has no metric of the rules in `mangle`.
    pub(crate) fn set(&self, counts: &[RuleCount]) {
        for it in counts.iter().filter(|it| it.table != "mangle") {
            let labels = [it.table, &it.family.to_string()];
            for (gauges, count) in [(&self.total, it.total), (&self.last, it.last)] {
                gauges.with_label_values(&labels).set(to_gauge(count));
            }
        }
    }
}

impl KubeProxy {
    pub(super) fn new(to: Registrar<'_>, has: RuleMetrics) -> Self {
        let latencies = exponential_buckets(0.001, 2.0, 15).expect("constants");
        let durations = |name| to.family_histograms(name, &latencies);
        let no_local = to.gauges(
            "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
            &["traffic_policy", "ip_family"],
        );
        if has.failures == FailureMetrics::Nftables {
            // Always zero here. An alert on a metric that does not exist never fires.
            to.family_counters("kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total");
        }
        let failures = match has.failures {
            FailureMetrics::Nftables => "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
            _ => "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
        };
        let full_failures = to.family_counters(failures);
        let partial_failures = match has.failures {
            FailureMetrics::RestoreAndPartial => to.family_counters(
                "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
            ),
            _ => full_failures.clone(),
        };
        Self {
            sync_duration: durations("kubeproxy_sync_proxy_rules_duration_seconds"),
            full_sync_duration: has
                .tells_full_syncs
                .then(|| durations("kubeproxy_sync_full_proxy_rules_duration_seconds")),
            partial_sync_duration: has
                .tells_full_syncs
                .then(|| durations("kubeproxy_sync_partial_proxy_rules_duration_seconds")),
            last_sync: to.family_seconds("kubeproxy_sync_proxy_rules_last_timestamp_seconds"),
            last_queued: to
                .family_seconds("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds"),
            network_programming: to.family_histograms(
                "kubeproxy_network_programming_duration_seconds",
                &programming_buckets(),
            ),
            endpoint_changes: to.counter("kubeproxy_sync_proxy_rules_endpoint_changes_total"),
            endpoint_changes_pending: to
                .gauge("kubeproxy_sync_proxy_rules_endpoint_changes_pending"),
            service_changes: to.counter("kubeproxy_sync_proxy_rules_service_changes_total"),
            service_changes_pending: to.gauge("kubeproxy_sync_proxy_rules_service_changes_pending"),
            no_local_endpoints_internal: per_family(&no_local, &["internal"]),
            no_local_endpoints_external: per_family(&no_local, &["external"]),
            full_failures,
            partial_failures,
            rules: has.counts_rules.then(|| Rules::new(to)),
            packets: has.counts_rules.then(|| Packets::new(to)),
            conntrack_duration: durations("kubeproxy_conntrack_reconciler_sync_duration_seconds"),
            conntrack_deleted: to
                .family_counters("kubeproxy_conntrack_reconciler_deleted_entries_total"),
        }
    }
}

/// kube-proxy joins its ranges onto a list that begins with one zero.
fn programming_buckets() -> Vec<f64> {
    let range = |start, width, count| linear_buckets(start, width, count).expect("constants");
    let ranges = [
        vec![0.0],
        range(0.25, 0.25, 2),
        range(1.0, 1.0, 59),
        range(60.0, 5.0, 12),
        range(120.0, 30.0, 7),
    ];
    ranges.concat()
}
