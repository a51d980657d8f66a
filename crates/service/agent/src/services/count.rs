//! The metrics of a sync.

use std::time::Duration;

use sluice_model::IpFamily;
use sluice_node::PerFamily;
use sluice_node::metrics::{seconds_since_epoch, to_gauge};
use sluice_plan::{PortKey, PortPlan, Route, Verdict};
use sluice_plane::DataPlane;
use sluice_reconcile::Report;

use super::Services;

impl<P: DataPlane> Services<P> {
    /// Adds a planned service port to the gauges (`sign` 1), or takes it away (`sign` -1). The cost
    /// is that of the change, not of the plan.
    pub(super) fn count_port(&self, port: &PortPlan, sign: i64) {
        let (ours, theirs) = (&self.outputs.metrics.ours, &self.outputs.metrics.kube_proxy);
        let drops = |is_drop: fn(&Route) -> bool| {
            let mut routes = port.frontends.iter().map(|it| &it.route);
            i64::from(routes.any(is_drop))
        };
        let drops_external = |it: &Route| {
            let far = Route::ExternalLocal { far: Verdict::Drop };
            *it == far || *it == Route::External(Verdict::Drop)
        };
        for (gauge, count) in [
            (&ours.service_ports, 1),
            (&ours.frontends, to_gauge(port.frontends.len())),
            (&ours.endpoints, to_gauge(port.reachable().len())),
            (&ours.without_endpoints, port.is_without_endpoints().into()),
            (
                &theirs.no_local_endpoints_internal,
                drops(|it| *it == Route::Internal(Verdict::Drop)),
            ),
            (&theirs.no_local_endpoints_external, drops(drops_external)),
        ] {
            gauge.of(port.key.family).add(sign * count);
        }
    }

    /// The number of service ports of each family in a sync: all in a full one, else these.
    pub(super) fn sync_sizes<'a>(
        &self,
        full: bool,
        changed: impl Iterator<Item = &'a PortKey>,
    ) -> PerFamily<i64> {
        let all = &self.outputs.metrics.ours.service_ports;
        if full {
            return PerFamily::new(|it| all.of(it).get());
        }
        let mut sizes = PerFamily::default();
        for key in changed {
            *sizes.of_mut(key.family) += 1;
        }
        sizes
    }

    /// Records the duration of a sync. One sync writes both families, where kube-proxy has a sync
    /// for each: the families share the duration by their service ports in the sync, so that sums
    /// over families are true. A family without one had no sync; a sync without any is shared
    /// equally.
    pub(super) fn observe_duration(
        &self,
        full: bool,
        sizes: &PerFamily<i64>,
        served: &[IpFamily],
        elapsed: Duration,
    ) {
        let theirs = &self.outputs.metrics.kube_proxy;
        let by_kind = if full {
            &theirs.full_sync_duration
        } else {
            &theirs.partial_sync_duration
        };
        let total: i64 = served.iter().map(|it| sizes.of(*it)).sum();
        for family in served {
            let share = match (total, *sizes.of(*family)) {
                (0, _) => 1.0 / served.len() as f64,
                (_, 0) => continue,
                (total, size) => size as f64 / total as f64,
            };
            for durations in by_kind.iter().chain([&theirs.sync_duration]) {
                let duration = elapsed.as_secs_f64() * share;
                durations.of(*family).observe(duration);
            }
        }
    }

    pub(super) fn count_success(&self, report: &Report, served: &[IpFamily]) {
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

    /// Counts the retries of a family that is not served as failures of that family.
    pub(super) fn count_retries(&mut self) {
        let unserved = self.proxy.reconciler().backend().unserved();
        let now = unserved.map(|it| (it.family, it.retries));
        if let Some((family, retries)) = now {
            let counted = match self.retried {
                Some((of, counted)) if of == family && counted <= retries => counted,
                _ => 0,
            };
            let failures = &self.outputs.metrics.kube_proxy.full_failures;
            failures.of(family).inc_by(retries - counted);
        }
        self.retried = now;
    }

    pub(super) fn count_failure(&self, full: bool, served: &[IpFamily]) {
        let metrics = &self.outputs.metrics;
        let theirs = &metrics.kube_proxy;
        let failures = if full {
            &theirs.full_failures
        } else {
            &theirs.partial_failures
        };
        served.iter().for_each(|it| failures.of(*it).inc());
        metrics.ours.syncs_failed.inc();
        metrics.ours.last_sync_succeeded.set(0);
    }
}
