//! The work after a sync: counts, health, conntrack entries, rules of an earlier proxy.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sluice_model::{IpFamily, NamespacedName};
use sluice_node::{Settled, chain};
use sluice_plan::stale::{Keep, StaleFlows, stale_flows, untranslated_flows};
use sluice_plan::{Frontend, Plan};
use sluice_plane::{DataPlane, Superseded, Synced};
use sluice_reconcile::{BackendError, Report};
use tracing::{debug, error, info, warn};

use super::Services;
use super::status::sum;
use crate::pace::Resync;
use crate::status::SyncStatus;

/// So many Services are named once in a [`MOMENT`], not after each part.
const MANY: usize = 1000;
const MOMENT: Duration = Duration::from_millis(100);

/// From this duration on, the log says which service port a sync was for.
const SLOW: Duration = Duration::from_secs(1);

impl<P: DataPlane> Services<P> {
    /// Logs the result of a full sync after a foreign change.
    fn log_drift(&self, by: &str, found: &Report) {
        if found.foreign == 0 {
            info!(by, "compared all rules: ours were not changed");
        } else if self.pace.is_conflict() {
            warn!(
                by,
                "another program keeps changing our rules: repairing once a second"
            );
        } else {
            warn!(by, "another program had changed our rules: repaired");
        }
    }

    /// Logs the changes that a sync wrote, by name; of the first sync only their number, and of a slow sync the
    /// largest service port.
    pub(super) fn log_written(&mut self, synced: &Synced, begin: Instant, end: Instant) {
        let plan = self.proxy.plan();
        let ours = &self.outputs.metrics.ours;
        if self.syncs == 0 {
            info!(
                services = ours.services.get(),
                service_ports = sum(&ours.service_ports),
                without_endpoints = sum(&ours.without_endpoints),
                "first sync"
            );
        } else {
            self.changelog.written(&synced.superseded, plan, end);
        }
        let elapsed = end - begin;
        if elapsed >= SLOW {
            info!(
                elapsed_ms = elapsed.as_millis() as u64,
                changed = synced.superseded.len(),
                largest = largest::<P>(synced, plan),
                full = synced.report.full,
                "slow sync"
            );
        }
    }

    /// `written` are the Services that the sync wrote, `status` has its time and duration.
    pub(super) fn succeeded(
        &mut self,
        synced: Synced,
        written: &BTreeSet<NamespacedName>,
        reason: Option<Resync>,
        status: SyncStatus,
        end: Instant,
    ) {
        let Synced { report, superseded } = synced;
        let any_refused = !self.proxy.reconciler().refusals().is_empty();
        self.pace.succeed(end, report.full, any_refused);
        self.syncs += 1;
        self.last_error = None;
        if report.full
            && let Some(by) = self.drift.take()
        {
            if report.foreign > 0 {
                self.pace.repaired(end);
            }
            self.log_drift(&by, &report);
        }
        let repaired = matches!(reason, Some(Resync::Drift | Resync::Periodic));
        if repaired && report.foreign > 0 {
            self.repairs += 1;
            self.outputs.metrics.ours.drift_repaired.inc();
        }
        // A flow that began while rules were missing would stay untranslated for ever.
        let were_missing = report.full && !report.is_empty();
        self.hand_over_stale_flows(superseded, were_missing);
        let served = self.served();
        let now = Timestamp::now();
        let is_any_left = self.proxy.is_any_left();
        let complete = if is_any_left {
            self.pace.go_on();
            Vec::new()
        } else {
            self.complete()
        };
        self.outputs.clock.done();
        self.outputs.health.updated(now, &complete);
        self.ever_served.extend(&served);
        let with_rules = self.complete();
        for family in IpFamily::ALL {
            let fails = self.ever_served.contains(&family) && !with_rules.contains(&family);
            self.outputs.clock.family(family, fails, end);
        }
        self.count_success(&report, &served);
        let settled = is_any_left.then(|| {
            let planned = self.proxy.planner().planned().iter();
            let settled = planned.chain(written).filter(|it| !self.proxy.is_left(it));
            settled.cloned().collect()
        });
        let metrics = &self.outputs.metrics;
        self.waiting
            .done(now.as_millisecond(), &served, settled.as_ref(), metrics);
        self.serve_health_checks();
        if !report.is_empty() {
            macro_rules! tell {
                ($level:ident) => {
                    $level!(
                        added = report.added,
                        replaced = report.replaced,
                        deleted = report.deleted,
                        services = self.outputs.metrics.ours.services.get(),
                        elapsed_ms = (status.elapsed_seconds * 1000.0) as u64,
                        full = report.full,
                        "synced"
                    )
                };
            }
            if report.full || self.changelog.tells_sync(end) {
                tell!(info);
            } else {
                tell!(debug);
            }
        }
        self.history.push(SyncStatus {
            full: report.full,
            added: report.added,
            replaced: report.replaced,
            deleted: report.deleted,
            ..status
        });
        if let Some(report) = self.outputs.foreign_changes.take() {
            let wanted = self.proxy.reconciler_mut().backend_mut().started(report);
            (self.outputs.set_sysctls)(wanted);
        }
        self.take_over();
    }

    /// What other consumers need not wait for any more; `None` while much is left and it is a moment ago that it was named, and
    /// when nobody waits.
    pub(super) fn settled(&mut self, now: Instant) -> Option<Settled> {
        if !self.outputs.awaited {
            return None;
        }
        let waiting = self.proxy.waiting().map(|it| &it.name.service);
        let all = waiting.chain(self.proxy.planner().unplanned());
        let is_counted = self.counted.is_some_and(|it| now < it + MOMENT);
        if is_counted && all.clone().nth(MANY).is_some() {
            return None;
        }
        let except = all.cloned().collect();
        self.counted = Some(now);
        Some(Settled {
            except,
            ..Settled::default()
        })
    }

    pub(super) fn failed(
        &mut self,
        error: &BackendError,
        full: bool,
        status: SyncStatus,
        end: Instant,
    ) {
        self.pace.fail(end, full);
        self.failures += 1;
        let text = chain(error);
        if self.last_error.as_ref() != Some(&text) {
            error!(error = text, "sync failed: will retry");
        }
        self.last_error = Some(text.clone());
        self.history.push(SyncStatus {
            full,
            error: Some(text),
            ..status
        });
    }

    /// Updates the health check node ports after the kernel was written.
    fn serve_health_checks(&self) {
        let plan = self.proxy.plan();
        let local = self.proxy.planner().state().local_addresses();
        let addresses = plan.node.health_check_addresses(&local.all);
        let servers = &self.outputs.health_checks;
        servers.update(&plan.health_checks, &addresses, |it| self.proxy.is_left(it));
    }

    /// The families whose rules are written.
    pub(super) fn served(&self) -> Vec<IpFamily> {
        let unserved = self.proxy.reconciler().backend().unserved();
        let unserved = unserved.map(|it| it.family);
        let served = |it: &IpFamily| Some(*it) != unserved;
        IpFamily::ALL.into_iter().filter(served).collect()
    }

    /// The families whose Services all have their rules: those that are served, and those without
    /// a Service.
    pub(super) fn complete(&self) -> Vec<IpFamily> {
        let (served, ours) = (self.served(), &self.outputs.metrics.ours);
        let is_complete =
            |it: &IpFamily| served.contains(it) || ours.service_ports.of(*it).get() == 0;
        IpFamily::ALL.into_iter().filter(is_complete).collect()
    }

    /// Removes an earlier proxy's rules of the families that are served. A family that we cannot serve yet keeps
    /// them: old rules are better than none.
    fn take_over(&mut self) {
        let served = self.served();
        let mut taken_over = IpFamily::ALL.to_vec();
        taken_over.retain(|it| served.contains(it) || self.taken_over.contains(it));
        if taken_over != self.taken_over {
            (self.outputs.take_over)(&taken_over);
            self.taken_over = taken_over;
        }
    }

    /// Sends the stale flows of the old plan, after the kernel has the new plan: only then are they stale.
    fn hand_over_stale_flows(&self, superseded: Superseded, were_missing: bool) {
        let plan = self.proxy.plan();
        let stale = superseded.into_iter().flat_map(|(key, old)| {
            stale_flows(old.as_deref(), plan.ports.get(&key).map(AsRef::as_ref))
        });
        // A frontend that has another Service as its owner may have flows to that Service by now.
        let no_endpoint = Keep::Endpoints(Vec::new());
        let mut stale: Vec<StaleFlows> = stale
            .filter(|it| it.keep != no_endpoint || is_unserved(plan, &it.frontend))
            .collect();
        if were_missing {
            stale.extend(untranslated_flows(plan));
        }
        if !stale.is_empty() {
            // A cleanup thread that ended has logged why.
            let _ = self.outputs.stale.send(stale);
        }
    }
}

/// The largest service port of a sync, with its size: of those that changed, or of all if the sync
/// compared all.
pub(super) fn largest<P: DataPlane>(synced: &Synced, plan: &Plan) -> Option<String> {
    let changed = &synced.superseded;
    let old = changed.values().flatten();
    let new = plan.ports.iter();
    let new = new.filter(|(key, _)| synced.report.full || changed.contains_key(key));
    let all = old.chain(new.map(|(_, it)| it));
    let largest = all.max_by_key(|it| P::cost(it))?;
    let (frontends, endpoints) = (largest.frontends.len(), largest.reachable().len());
    let name = &largest.key.name;
    Some(format!(
        "{name} with {frontends} frontends and {endpoints} endpoints"
    ))
}

/// Whether a frontend has no owner, or an owner without an endpoint that serves.
fn is_unserved(plan: &Plan, frontend: &Frontend) -> bool {
    let owner = plan.claims.owner(frontend);
    let owner = owner.and_then(|key| plan.ports.get(key));
    let serving = owner.and_then(|port| port.serving.as_ref());
    serving.is_none_or(Vec::is_empty)
}
