//! The Service proxy: plans and writes.

mod allowance;
mod changelog;
mod count;
mod findings;
mod history;
mod outcome;
mod report;
mod status;
#[cfg(test)]
mod tests;
mod waiting;
mod without_endpoints;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sluice_model::{Announcement, IpFamily, NamespacedName};
use sluice_node::metrics::seconds_since_epoch;
use sluice_node::{Consumer, Handle, Health, NodeState, Section, Settled, StepClock, chain};
use sluice_plan::Planner;
use sluice_plan::settings::Settings;
use sluice_plan::stale::StaleFlows;
use sluice_plane::{DataPlane, ForeignChange, Proxy, Superseded, Sysctl};
use sluice_reconcile::Upkeep;
use tracing::{Level, debug, enabled, info, trace};

use self::changelog::Changelog;
use self::findings::Findings;
use self::history::History;
use self::waiting::Waiting;
use self::without_endpoints::WithoutEndpoints;
use crate::change::TimedEvent;
use crate::health_check::HealthChecks;
use crate::metrics::ServiceMetrics;
use crate::pace::{Pace, Periods, Resync};
use crate::questions::{Facts, Plans};
use crate::status::SyncStatus;
use crate::takeover::Carried;

/// Removes an earlier proxy's rules of these families.
pub type TakeOver = Box<dyn FnMut(&[IpFamily]) + Send>;

/// Sets sysctls, and logs those that cannot be set.
pub type SetSysctls = Box<dyn FnMut(Vec<Sysctl>) + Send>;

/// Receivers of the results.
pub struct Outputs {
    /// Told when a sync is wanted and when it is done.
    pub clock: StepClock,
    /// Told which families are up to date, and whether the node is leaving.
    pub health: Arc<Health>,
    pub metrics: Arc<ServiceMetrics>,
    /// Gets the health check node ports after each successful sync.
    pub health_checks: HealthChecks,
    /// Gets Events for users of Services.
    pub announce: Sender<Announcement>,
    /// Gets the stale flows after each successful sync.
    pub stale: Sender<Vec<StaleFlows>>,
    /// Gets foreign changes of our rules from the first successful sync on; `None` after it.
    pub foreign_changes: Option<ForeignChange>,
    /// Sets the sysctls that are safe only with our rules.
    pub set_sysctls: SetSysctls,
    /// Called with all families that are served, after the first successful sync and whenever
    /// another family is served.
    pub take_over: TakeOver,
    /// Whether another consumer waits for what is settled.
    pub awaited: bool,
    /// The connections that an earlier proxy's programs or virtual servers still carry.
    pub carried: Carried,
}

/// The Service proxy.
pub struct Services<P: DataPlane> {
    proxy: Proxy<P>,
    pace: Pace,
    outputs: Outputs,
    taken_over: Vec<IpFamily>,
    /// The families that this process has served.
    ever_served: BTreeSet<IpFamily>,
    /// The family that is tried again, and how many of its retries are counted.
    retried: Option<(IpFamily, u64)>,
    /// The last foreign change; `None` once a full sync has read the kernel.
    drift: Option<String>,
    findings: Findings,
    changelog: Changelog,
    without_endpoints: WithoutEndpoints,
    waiting: Waiting,
    /// When to call the data plane's upkeep.
    upkeep: Option<Instant>,
    last_error: Option<String>,
    history: History,
    /// When the Services that are not written were named last.
    counted: Option<Instant>,
    syncs: u64,
    failures: u64,
    repairs: u64,
}

impl<P: DataPlane> Services<P> {
    /// Where questions to this proxy are asked.
    pub fn plans(proxy: Handle<Self>) -> Plans {
        Plans::through(move |question| proxy.tell(move |it| question(it)))
    }

    /// A proxy without a cluster state. It writes nothing before its source is complete.
    pub fn new(settings: Settings, plane: P, periods: Periods, outputs: Outputs) -> Self {
        outputs.metrics.sync_requested();
        Self {
            proxy: Proxy::new(settings, plane),
            pace: Pace::new(periods, P::PAUSE),
            outputs,
            taken_over: Vec::new(),
            ever_served: BTreeSet::new(),
            retried: None,
            drift: None,
            findings: Findings::default(),
            changelog: Changelog::default(),
            without_endpoints: WithoutEndpoints::default(),
            waiting: Waiting::new(Timestamp::now().as_millisecond()),
            upkeep: None,
            last_error: None,
            history: History::default(),
            counted: None,
            syncs: 0,
            failures: 0,
            repairs: 0,
        }
    }

    /// Takes on a changed configuration. See [`StepClock::set_timeout`].
    pub fn configure(&mut self, settings: Settings, periods: Periods, health_timeout: Duration) {
        self.outputs.clock.set_timeout(health_timeout);
        self.proxy.configure(settings);
        self.pace.configure(periods);
        self.pace.request();
    }

    /// Another program changed our rules: the change, and the program if known, for the log.
    pub fn kernel_changed(&mut self, change: String) {
        // The first sync reads the kernel anyway.
        if self.syncs > 0 {
            self.drift = Some(change);
            self.pace.drifted();
        }
    }

    fn node_state(&self) -> NodeState {
        let name = &self.proxy.planner().settings().node_name;
        match self.proxy.planner().state().node(name) {
            None => NodeState::Unknown,
            Some(node) if node.leaving => NodeState::Leaving,
            Some(_) => NodeState::Present,
        }
    }

    /// Lets the data plane do the work that it deferred.
    fn keep_up(&mut self, now: Instant) {
        self.upkeep = match self.proxy.reconciler_mut().upkeep() {
            Ok(Upkeep::Nothing) => None,
            Ok(Upkeep::After(wait)) => Some(now + wait),
            Ok(Upkeep::Resync(reason)) => {
                info!(reason, "reading the kernel again");
                self.pace.request();
                None
            }
            Err(error) => {
                self.drift = Some(chain(&error));
                self.pace.drifted();
                None
            }
        };
        self.count_retries();
    }

    fn prepare_resync(&mut self, reason: Option<Resync>) {
        let reconciler = self.proxy.reconciler_mut();
        match reason {
            Some(Resync::Periodic) if reconciler.is_undisturbed() => {}
            Some(Resync::Periodic | Resync::Drift) => reconciler.doubt(),
            Some(Resync::Probe) => {
                if let Err(error) = reconciler.probe() {
                    let error = chain(&error);
                    debug!(error, "cannot probe for what the machine lacks");
                }
            }
            None => {}
        }
    }
}

impl<P: DataPlane> Consumer for Services<P> {
    type Event = TimedEvent;

    fn absorb(&mut self, changes: Vec<TimedEvent>) {
        let metrics = &self.outputs.metrics;
        for change in changes {
            let state = self.proxy.planner().state();
            self.waiting.add(&change, state, metrics);
            if enabled!(Level::TRACE)
                && let Some(object) = change.event.reference()
            {
                let is_deletion = change.event.is_deletion();
                trace!(%object, "{}", if is_deletion { "deleted" } else { "changed" });
            }
            self.proxy.absorb(change.event);
        }
        self.waiting.show(metrics);
        metrics.ours.source_last_event.set(seconds_since_epoch());
        let synced = self.proxy.planner().is_synced();
        metrics.ours.source_synced.set(synced.into());
        metrics.sync_requested();
        if synced {
            self.outputs.health.set_node(self.node_state());
        }
        self.pace.request();
    }

    /// `None` while nothing may be written.
    fn due(&self, now: Instant) -> Option<Instant> {
        if !self.proxy.planner().is_synced() {
            return None;
        }
        let findings = self.findings.due();
        let due = [
            self.pace.due(now),
            self.upkeep,
            self.changelog.due(),
            findings,
        ];
        due.into_iter().flatten().min()
    }

    /// Plans and writes, if a sync is due.
    fn step(&mut self, now: Instant) -> Option<Settled> {
        // An incomplete state would delete the rules of the missing Services.
        if !self.proxy.planner().is_synced() {
            self.report_stale();
            return None;
        }
        self.changelog.end_window(now);
        self.findings.ripen(now, &self.outputs.announce);
        if self.pace.is_wanted() {
            self.outputs.clock.wanted(now);
        }
        if self.upkeep.is_some_and(|due| due <= now) {
            self.keep_up(now);
        }
        if self.pace.due(now).is_none_or(|due| due > now) {
            return None;
        }
        let reason = self.pace.resync_reason(now);
        self.pace.begin(reason, now);
        self.prepare_resync(reason);
        let changes = self.proxy.replan();
        debug!(
            ports = changes.ports.len(),
            node = changes.node,
            ?reason,
            "planned"
        );
        for change in changes.ports.values() {
            if let Some(old) = &change.old {
                self.count_port(old, -1);
            }
            if let Some(new) = &change.new {
                self.count_port(new, 1);
            }
        }
        let metrics = &self.outputs.metrics.ours;
        self.without_endpoints.update(&changes, metrics);
        let full = self.proxy.reconciler().is_resync_due();
        // A sync that fails may stop serving a family. That family's sync has failed too.
        let served = self.served();
        let mut written = BTreeSet::new();
        let had_failed = self.last_error.is_some();
        let result = self.proxy.sync();
        let is_synced = result.is_ok();
        let end = Instant::now();
        self.proxy.took(end - now);
        let last_sync = SyncStatus {
            when: Timestamp::now().to_string(),
            elapsed_seconds: (end - now).as_secs_f64(),
            ..SyncStatus::default()
        };
        match result {
            Ok(synced) => {
                let (full, served) = (synced.report.full, self.served());
                written = services(&synced.superseded);
                for service in &written {
                    trace!(%service, "written");
                }
                let sizes = self.sync_sizes(full, synced.superseded.keys());
                self.observe_duration(full, &sizes, &served, end - now);
                self.log_written(&synced, now, end);
                self.succeeded(synced, &written, reason, last_sync, end);
            }
            Err(error) => {
                let sizes = self.sync_sizes(full, self.proxy.waiting());
                self.observe_duration(full, &sizes, &served, end - now);
                self.outputs.clock.wanted(now);
                // The sync failed for a family that is served no more; else for all.
                let left = self.served();
                let lost: Vec<IpFamily> = served
                    .iter()
                    .copied()
                    .filter(|it| !left.contains(it))
                    .collect();
                let complete = self.complete();
                let is_missed =
                    |it: &&IpFamily| self.ever_served.contains(it) && !complete.contains(it);
                for family in lost.iter().filter(is_missed) {
                    // Since this sync was due, which may have waited long for it.
                    self.outputs.clock.family(*family, true, now);
                }
                self.count_failure(full, if lost.is_empty() { &served } else { &lost });
                self.failed(&error, full, last_sync, end);
            }
        }
        let written = (!full && !changes.node).then_some(written);
        self.report(&changes, written, is_synced, now);
        if is_synced && had_failed {
            match self.proxy.reconciler().backend().unserved() {
                Some(it) => info!("sync works again, without {}", it.family),
                None => info!("sync works again"),
            }
        }
        // Afterwards: a family that may be served again is not served before the next sync has written it.
        if !is_synced {
            return None;
        }
        self.keep_up(end);
        // The watch for foreign changes has begun: a table that another consumer writes now is no reason to
        // read all rules.
        self.settled(end)
    }

    fn status(&self) -> Section {
        Section::beside(&self.service_status())
    }

    fn begin(&mut self) {
        for it in self.unprotected() {
            info!("off, as in kube-proxy: {it}");
        }
    }

    fn stop(&mut self) {
        info!("stopping: rules stay in place");
    }
}

impl<P: DataPlane> Facts for Services<P> {
    fn planner(&self) -> &Planner {
        self.proxy.planner()
    }

    fn syncs(&self) -> Vec<SyncStatus> {
        self.history.all()
    }
}

fn services(ports: &Superseded) -> BTreeSet<NamespacedName> {
    ports.keys().map(|it| it.name.service.clone()).collect()
}
