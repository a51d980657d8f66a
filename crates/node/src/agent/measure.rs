//! What a sync is counted as.

use std::time::Duration;

use sluice_model::IpFamily;
use sluice_plane::DataPlane;
use sluice_reconcile::Report;

use super::{Agent, seconds, seconds_since_epoch};
use crate::metrics::PerFamily;

impl<P: DataPlane> Agent<P> {
    /// How many service ports of each family the next sync is about.
    pub(super) fn parts(&self, full: bool) -> PerFamily<usize> {
        if full {
            return PerFamily::new(|it| self.tally.service_ports_of(it));
        }
        let mut parts = PerFamily::default();
        for key in self.proxy.pending() {
            *parts.of_mut(key.family) += 1;
        }
        parts
    }

    /// Books the time of a sync. One sync writes both families, where kube-proxy has a sync for
    /// each: they share the time by their service ports in it, so that sums over families are true.
    /// A family without a part in it had no sync; a sync without service ports is shared equally.
    pub(super) fn observe_duration(
        &self,
        full: bool,
        parts: &PerFamily<usize>,
        served: &[IpFamily],
        elapsed: Duration,
    ) {
        let theirs = &self.outputs.metrics.kube_proxy;
        let by_kind = match full {
            true => &theirs.full_sync_duration,
            false => &theirs.partial_sync_duration,
        };
        let durations = || by_kind.iter().chain([&theirs.sync_duration]);
        let total: usize = served.iter().map(|it| parts.of(*it)).sum();
        for family in served {
            let share = match (total, *parts.of(*family)) {
                (0, _) => 1.0 / served.len() as f64,
                (_, 0) => continue,
                (total, part) => part as f64 / total as f64,
            };
            durations().for_each(|it| it.of(*family).observe(seconds(elapsed) * share));
        }
    }

    pub(super) fn measure(&self, report: &Report, served: &[IpFamily]) {
        let metrics = &self.outputs.metrics;
        for family in served {
            let last = metrics.kube_proxy.last_sync.of(*family);
            last.set(seconds_since_epoch());
        }
        if let Some(rules) = &metrics.kube_proxy.rules {
            rules.set(&self.proxy.reconciler().backend().rule_counts());
        }
        let ours = &metrics.ours;
        ours.syncs_succeeded.inc();
        ours.last_sync_succeeded.set(1);
        ours.objects_added.inc_by(report.added as u64);
        ours.objects_replaced.inc_by(report.replaced as u64);
        ours.objects_deleted.inc_by(report.deleted as u64);
    }
}
