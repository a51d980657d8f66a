//! kube-proxy's own metrics: names, types, labels and buckets of its release 1.36
//! (`pkg/proxy/metrics/metrics.go`), so that dashboards and alerts go on working.

use prometheus::{
    Gauge, Histogram, IntCounter, IntGauge, IntGaugeVec, exponential_buckets, linear_buckets,
};
use sluice_model::IpFamily;
use sluice_plane::{FailureMetrics, RuleCount, RuleMetrics};

use super::packets::Packets;
use super::registrar::{PerFamily, Registrar, word};

/// What kube-proxy counts.
#[derive(Debug)]
pub(crate) struct KubeProxy {
    pub(crate) sync_duration: PerFamily<Histogram>,
    /// Syncs that read the kernel; IPVS makes no difference.
    pub(crate) full_sync_duration: Option<PerFamily<Histogram>>,
    /// Syncs that wrote differences.
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
    /// Writes that failed; only in the mode that this is about.
    pub(crate) nftables_failures: Option<PerFamily<IntCounter>>,
    /// Full syncs that iptables-restore failed in; nothing in the nftables mode.
    pub(crate) restore_failures: Option<PerFamily<IntCounter>>,
    /// The same for differences, in the iptables mode.
    pub(crate) partial_restore_failures: Option<PerFamily<IntCounter>>,
    /// By table and family, in the iptables mode.
    pub(crate) rules: Option<Rules>,
    /// What rules count, in the iptables mode.
    pub(crate) packets: Option<Packets>,
    pub(crate) conntrack_duration: PerFamily<Histogram>,
    pub(crate) conntrack_deleted: PerFamily<IntCounter>,
    pub(crate) healthz: Answers,
    pub(crate) livez: Answers,
}

/// How many rules there are.
#[derive(Debug)]
pub(crate) struct Rules {
    total: IntGaugeVec,
    last: IntGaugeVec,
}

impl Rules {
    fn new(to: Registrar<'_>) -> Self {
        let gauges = |name: &str, help: &str| {
            let name = format!("kubeproxy_sync_proxy_rules_iptables_{name}");
            let all = to.gauges(&name, help, &["table", "ip_family"]);
            for table in ["filter", "nat"] {
                PerFamily::new(|it| all.with_label_values(&[table, word(it)]));
            }
            all
        };
        Self {
            total: gauges("total", "Rules that there are."),
            last: gauges("last", "Rules written by the last sync that wrote any."),
        }
    }

    /// Tables that kube-proxy has no numbers of are left out.
    pub(crate) fn set(&self, counts: &[RuleCount]) {
        for it in counts.iter().filter(|it| it.table != "mangle") {
            let labels = [it.table, word(it.family)];
            let set = |gauge: &IntGaugeVec, value: usize| {
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                gauge.with_label_values(&labels).set(value);
            };
            set(&self.total, it.total);
            set(&self.last, it.last);
        }
    }
}

/// Answers of a health server, by what they said.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) ok: IntCounter,
    pub(crate) unavailable: IntCounter,
}

impl KubeProxy {
    pub(super) fn new(to: Registrar<'_>, has: RuleMetrics) -> Self {
        let latencies = exponential_buckets(0.001, 2.0, 15).expect("constants");
        let durations = |name: &str, help: &str| {
            to.family_histograms(&format!("kubeproxy_{name}"), help, &latencies)
        };
        let no_local = to.gauges(
            "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
            "Service ports whose clients are dropped: policy Local and no endpoint on this node.",
            &["traffic_policy", "ip_family"],
        );
        let no_local = |policy: &str| {
            PerFamily::new(|it: IpFamily| no_local.with_label_values(&[policy, word(it)]))
        };
        let is_nftables = has.failures == FailureMetrics::Nftables;
        if is_nftables {
            // Nothing here moves it. It is zero, which is true: an alert on a metric that does not
            // exist never fires, and never says that it cannot.
            to.family_counters(
                "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
                "Deletions that had to wait and failed; here nothing has to wait.",
            );
        }
        Self {
            sync_duration: durations(
                "sync_proxy_rules_duration_seconds",
                "How long syncs took, failed ones included.",
            ),
            full_sync_duration: has.tells_full_syncs.then(|| {
                durations(
                    "sync_full_proxy_rules_duration_seconds",
                    "How long syncs took that read the kernel and compared everything.",
                )
            }),
            partial_sync_duration: has.tells_full_syncs.then(|| {
                durations(
                    "sync_partial_proxy_rules_duration_seconds",
                    "How long syncs took that wrote what had changed.",
                )
            }),
            last_sync: to.family_seconds(
                "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
                "When a sync last succeeded, seconds since the epoch.",
            ),
            last_queued: to.family_seconds(
                "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
                "When a sync was last asked for, seconds since the epoch.",
            ),
            network_programming: to.family_histograms(
                "kubeproxy_network_programming_duration_seconds",
                "From the change of a pod or Service, as its EndpointSlice says, to the rules.",
                &programming_buckets(),
            ),
            endpoint_changes: to.counter(
                "kubeproxy_sync_proxy_rules_endpoint_changes_total",
                "Changes of EndpointSlices heard.",
            ),
            endpoint_changes_pending: to.gauge(
                "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
                "EndpointSlices that changed since the last sync that succeeded.",
            ),
            service_changes: to.counter(
                "kubeproxy_sync_proxy_rules_service_changes_total",
                "Changes of Services heard.",
            ),
            service_changes_pending: to.gauge(
                "kubeproxy_sync_proxy_rules_service_changes_pending",
                "Services that changed since the last sync that succeeded.",
            ),
            no_local_endpoints_internal: no_local("internal"),
            no_local_endpoints_external: no_local("external"),
            nftables_failures: is_nftables.then(|| {
                to.family_counters(
                    "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
                    "Syncs that failed.",
                )
            }),
            restore_failures: (!is_nftables).then(|| {
                to.family_counters(
                    "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
                    "Full syncs that failed.",
                )
            }),
            partial_restore_failures: (has.failures == FailureMetrics::RestoreAndPartial).then(
                || {
                    to.family_counters(
                        "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
                        "Syncs with differences that failed: a full one followed.",
                    )
                },
            ),
            rules: has.counts_rules.then(|| Rules::new(to)),
            packets: has.counts_rules.then(|| to.register(Ok(Packets::new()))),
            conntrack_duration: durations(
                "conntrack_reconciler_sync_duration_seconds",
                "How long walks through the conntrack table took.",
            ),
            conntrack_deleted: to.family_counters(
                "kubeproxy_conntrack_reconciler_deleted_entries_total",
                "Conntrack entries deleted because their endpoint is gone.",
            ),
            healthz: answers(to, "healthz"),
            livez: answers(to, "livez"),
        }
    }
}

fn answers(to: Registrar<'_>, path: &str) -> Answers {
    let name = format!("kubeproxy_proxy_{path}_total");
    let all = to.counters(&name, &format!("Answers of /{path} by status."), &["code"]);
    Answers {
        ok: all.with_label_values(&["200"]),
        unavailable: all.with_label_values(&["503"]),
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
