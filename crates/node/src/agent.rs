//! The agent: one thread that plans and writes.

mod announce;
mod answer;
mod families;
mod measure;
mod tally;
mod waiting;

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sluice_model::{Announcement, Event, IpFamily};
use sluice_plan::issue::Issue;
use sluice_plan::settings::Settings;
use sluice_plan::stale::{Keep, StaleFlows, stale_flows, untranslated_flows};
use sluice_plan::{Frontend, Plan, PortPlan};
use sluice_plane::{DataPlane, ForeignChange, Proxy, Superseded, Synced};
use sluice_reconcile::{BackendError, Report, Upkeep};
use tracing::{debug, error, info, warn};

use self::announce::Announced;
use self::tally::Tally;
use self::waiting::Waiting;
use crate::health::{Health, NodeState};
use crate::health_check::HealthChecks;
use crate::metrics::Metrics;
use crate::pace::{Pace, Periods, Resync};
use crate::reports::{Complaint, Reports};
use crate::status::{RefusedStatus, Status, SyncStatus};

/// Inputs taken in before a sync that is due: a stream of them must not put it off for ever.
const BURST: usize = 1024;

/// What the agent hears.
#[derive(Debug)]
pub enum Input {
    /// A source says something.
    Events(Vec<Event>),
    /// The operator chose otherwise.
    Configure {
        /// What the plan is made with from now on.
        settings: Settings,
        /// How often to sync from now on.
        periods: Periods,
        /// How long a sync may be wanted from now on.
        patience: Duration,
    },
    /// Another program changed our rules: what, and who if known, for the log.
    KernelChanged(String),
    /// Somebody wants to know how things are.
    Status(tokio::sync::oneshot::Sender<Status>),
    /// Somebody wants to know what is planned for every service port.
    Plans(SyncSender<Vec<Arc<PortPlan>>>),
    /// Leave the rules and return.
    Stop,
}

/// Lets go what others left of families that are served.
pub type TakeOver = Box<dyn FnMut(&[IpFamily]) + Send>;

/// Where the agent reports to.
pub struct Outputs {
    /// Told when a sync is wanted and when it is done.
    pub health: Arc<Health>,
    /// Counts everything.
    pub metrics: Arc<Metrics>,
    /// Told after each successful sync which health check node ports to serve.
    pub health_checks: HealthChecks,
    /// Gets what users of Services should know.
    pub announce: Sender<Announcement>,
    /// Gets the stale flows after each successful sync.
    pub stale: Sender<Vec<StaleFlows>>,
    /// Told of foreign changes of our rules, after the first successful sync; `None` after it.
    pub foreign_changes: Option<ForeignChange>,
    /// Told all families that are served, after the first successful sync and whenever one has
    /// joined them: nobody needs the rules that others left of these.
    pub take_over: TakeOver,
}

/// The proxy, and the loop that connects it to the world.
pub struct Agent<P: DataPlane> {
    proxy: Proxy<P>,
    pace: Pace,
    outputs: Outputs,
    taken_over: Vec<IpFamily>,
    /// What another program may have done to our rules last; `None` once we have looked.
    drift: Option<String>,
    reports: Reports,
    announced: Announced,
    /// Issues by reason. A reason that was there once stays, at zero.
    issues: BTreeMap<&'static str, i64>,
    tally: Tally,
    waiting: Waiting,
    /// When the data plane has something to do that had to wait.
    upkeep: Option<Instant>,
    last_error: Option<String>,
    started: Instant,
    last_sync: Option<SyncStatus>,
    syncs: u64,
    failures: u64,
    repairs: u64,
}

impl<P: DataPlane> Agent<P> {
    /// An agent that knows nothing yet.
    pub fn new(settings: Settings, plane: P, periods: Periods, outputs: Outputs) -> Self {
        queued(&outputs.metrics);
        Self {
            proxy: Proxy::new(settings, plane),
            pace: Pace::new(periods),
            outputs,
            taken_over: Vec::new(),
            drift: None,
            reports: Reports::default(),
            announced: Announced::default(),
            issues: BTreeMap::new(),
            tally: Tally::default(),
            waiting: Waiting::new(Timestamp::now().as_millisecond()),
            upkeep: None,
            last_error: None,
            started: Instant::now(),
            last_sync: None,
            syncs: 0,
            failures: 0,
            repairs: 0,
        }
    }

    /// Works until told to stop, or until nobody can tell it anything any more.
    pub fn run(mut self, inputs: &Receiver<Input>) {
        loop {
            let input = match self.due(Instant::now()) {
                Some(due) => inputs.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => inputs.recv().map_err(RecvTimeoutError::from),
            };
            let input = match input {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // A burst costs one pass.
            for input in input.into_iter().chain(inputs.try_iter().take(BURST)) {
                if self.hear(input).is_break() {
                    return;
                }
            }
            self.step(Instant::now());
        }
    }

    /// Takes in one input. Cheap: the work waits for [`step`](Self::step).
    fn hear(&mut self, input: Input) -> ControlFlow<()> {
        match input {
            Input::Events(events) => {
                self.absorb(events);
                self.pace.wish();
            }
            Input::Configure {
                settings,
                periods,
                patience,
            } => {
                self.outputs.health.patience(patience);
                self.proxy.configure(settings);
                self.pace.configure(periods);
                self.pace.wish();
            }
            // The first sync reads the kernel anyway.
            Input::KernelChanged(_) if self.syncs == 0 => {}
            Input::KernelChanged(what) => {
                self.drift = Some(what);
                self.pace.drifted();
            }
            Input::Status(reply) => {
                // Who asked may have gone away; that is its own affair.
                let _ = reply.send(self.status());
            }
            Input::Plans(reply) => {
                let plans = self.proxy.plan().ports.values().cloned();
                // There is room for one answer; who asked may have gone away.
                let _ = reply.try_send(plans.collect());
            }
            Input::Stop => {
                info!("stopping: rules stay in place");
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn absorb(&mut self, events: Vec<Event>) {
        let metrics = &self.outputs.metrics;
        for event in events {
            let state = self.proxy.planner().state();
            self.tally.hear(&event, state);
            self.waiting.hear(&event, state, metrics);
            self.proxy.absorb(event);
        }
        self.waiting.show(metrics);
        metrics.ours.source_last_event.set(seconds_since_epoch());
        let synced = self.proxy.planner().is_synced();
        metrics.ours.source_synced.set(synced.into());
        queued(metrics);
        if synced {
            self.outputs.health.node(self.node_state());
        }
    }

    /// What load balancers should know of the Node.
    fn node_state(&self) -> NodeState {
        let name = &self.proxy.planner().settings().node_name;
        match self.proxy.planner().state().node(name) {
            None => NodeState::Unknown,
            Some(node) if node.leaving => NodeState::Leaving,
            Some(_) => NodeState::Present,
        }
    }

    /// When there is something to do without any input; `None` while nothing may be written.
    fn due(&self, now: Instant) -> Option<Instant> {
        if !self.proxy.planner().is_synced() {
            return None;
        }
        self.pace.due(now).into_iter().chain(self.upkeep).min()
    }

    /// Lets the data plane do what had to wait.
    fn keep_up(&mut self, now: Instant) {
        self.upkeep = match self.proxy.reconciler_mut().upkeep() {
            Ok(Upkeep::Nothing) => None,
            Ok(Upkeep::After(wait)) => Some(now + wait),
            Ok(Upkeep::Resync(reason)) => {
                info!(reason, "reading the kernel again");
                self.pace.wish();
                None
            }
            Err(error) => {
                self.drift = Some(chain(&error));
                self.pace.drifted();
                None
            }
        };
    }

    /// Plans and writes, if that is due.
    fn step(&mut self, now: Instant) {
        // Half a cluster would delete the other half's rules.
        if !self.proxy.planner().is_synced() {
            return;
        }
        if self.pace.is_wanted() {
            self.outputs.health.wanted(now);
        }
        if self.upkeep.is_some_and(|due| due <= now) {
            self.keep_up(now);
        }
        if self.pace.due(now).is_none_or(|due| due > now) {
            return;
        }
        let reason = self.pace.resync_reason(now);
        self.pace.begin(reason, now);
        let reconciler = self.proxy.reconciler_mut();
        match reason {
            Some(Resync::Periodic) if reconciler.is_undisturbed() => {}
            Some(Resync::Periodic | Resync::Drift) => reconciler.forget(),
            Some(Resync::Probe) => {
                if let Err(error) = reconciler.probe() {
                    debug!(
                        error = chain(&error),
                        "what the machine lacks cannot be asked for"
                    );
                }
            }
            None => {}
        }
        let changes = self.proxy.replan();
        debug!(
            ports = changes.ports.len(),
            node = changes.node,
            ?reason,
            "planned"
        );
        for change in changes.ports.values() {
            self.tally
                .replan(change.old.as_deref(), change.new.as_deref());
        }
        let full = self.proxy.reconciler().is_resync_due();
        // What fails may cost a family, which then has failed.
        let served = self.served();
        let parts = self.parts(full);
        let result = self.proxy.sync();
        let end = Instant::now();
        match result {
            Ok(synced) => {
                let served = self.served();
                self.observe_duration(synced.report.full, &parts, &served, end - now);
                self.succeeded(synced, reason, now, end);
                self.keep_up(end);
            }
            Err(error) => {
                self.observe_duration(full, &parts, &served, end - now);
                self.failed(&error, full, &served, now, end);
            }
        }
        self.report();
    }

    /// Says what is wrong, wherever somebody may look.
    fn report(&mut self) {
        let issues: Vec<Issue> = self.proxy.planner().issues().collect();
        let problems = self.problems();
        let refusals = self.proxy.reconciler().refusals();
        self.announced
            .update(&issues, refusals, &problems, &self.outputs.announce);
        self.issues.values_mut().for_each(|count| *count = 0);
        for issue in &issues {
            *self.issues.entry(issue.reason()).or_default() += 1;
        }
        let refused = self.refused();
        let ours = &self.outputs.metrics.ours;
        ours.set_issues(&self.issues);
        ours.problems.set(to_gauge(problems.len()));
        ours.refused.set(to_gauge(refused.len()));
        ours.set_complete(&self.complete());
        self.tally.show(&self.outputs.metrics);
        let issues = issues.iter().map(|it| {
            let service = it.service().map_or_else(String::new, ToString::to_string);
            (format!("{} {service}", it.reason()), it.to_string())
        });
        self.complain("object", issues);
        let problems = problems.into_iter();
        self.complain(
            "source",
            problems.map(|it| (it.origin.clone(), it.to_string())),
        );
        let unserved = self.unserved().into_iter();
        let unserved = unserved.map(|it| (it.family.to_string(), it.to_string()));
        let refused = refused.iter().map(|it| {
            let RefusedStatus {
                service_port,
                family,
                protocol,
                ..
            } = it;
            (
                format!("{service_port} {family} {protocol}"),
                it.to_string(),
            )
        });
        self.complain("kernel", unserved.chain(refused));
    }

    /// Logs what is wrong: what it is about, and a line for a person.
    fn complain(&mut self, from: &'static str, all: impl Iterator<Item = (String, String)>) {
        let all = all.map(|(about, text)| Complaint { about, text });
        self.reports.update(from, all.collect());
    }

    /// What a look at all rules found.
    fn log_drift(&self, by: &str, found: &Report) {
        match self.pace.is_fight() {
            _ if found.is_empty() => info!(by, "looked at all rules: ours are as we wrote them"),
            false => warn!(by, "rules were not as we wrote them: repaired"),
            true => warn!(
                by,
                "another program keeps changing our rules: repairing once a second"
            ),
        }
    }

    fn succeeded(&mut self, synced: Synced, reason: Option<Resync>, start: Instant, end: Instant) {
        let Synced { report, superseded } = synced;
        let any_refused = !self.proxy.reconciler().refusals().is_empty();
        self.pace.succeed(end, report.full, any_refused);
        self.syncs += 1;
        if self.last_error.take().is_some() {
            info!("sync works again");
        }
        if report.full
            && let Some(by) = self.drift.take()
        {
            if !report.is_empty() {
                self.pace.repaired(end);
            }
            self.log_drift(&by, &report);
        }
        let repaired = matches!(reason, Some(Resync::Drift | Resync::Periodic));
        if repaired && !report.is_empty() {
            self.repairs += 1;
            self.outputs.metrics.ours.drift_repaired.inc();
        }
        // Whoever dialled while there were no rules would be led nowhere for ever.
        let were_away = report.full && !report.is_empty();
        self.hand_over_stale_flows(superseded, were_away);
        let now = Timestamp::now();
        let served = self.served();
        self.outputs.health.updated(now, &self.complete());
        let elapsed = end - start;
        self.measure(&report, &served);
        self.waiting
            .done(now.as_millisecond(), &served, &self.outputs.metrics);
        self.serve_health_checks();
        if !report.is_empty() {
            info!(
                added = report.added,
                replaced = report.replaced,
                deleted = report.deleted,
                services = self.tally.services,
                elapsed_ms = elapsed.as_millis(),
                full = report.full,
                "synced"
            );
        }
        self.last_sync = Some(SyncStatus {
            when: now.to_string(),
            full: report.full,
            added: report.added,
            replaced: report.replaced,
            deleted: report.deleted,
            elapsed_seconds: seconds(elapsed),
            error: None,
        });
        if let Some(report) = self.outputs.foreign_changes.take() {
            self.proxy.reconciler_mut().backend_mut().started(report);
        }
        self.take_over();
    }

    /// Load balancers hear of endpoints only once the kernel leads to them.
    fn serve_health_checks(&self) {
        let plan = self.proxy.plan();
        let local = self.proxy.planner().state().local_addresses();
        let addresses = plan.node.health_check_addresses(&local.all);
        self.outputs
            .health_checks
            .update(&plan.health_checks, &addresses);
    }

    /// A sync failed, which was of these families.
    fn failed(
        &mut self,
        error: &BackendError,
        full: bool,
        families: &[IpFamily],
        start: Instant,
        end: Instant,
    ) {
        self.pace.fail(end, full);
        self.outputs.health.wanted(start);
        self.failures += 1;
        let metrics = &self.outputs.metrics;
        let theirs = &metrics.kube_proxy;
        let of_kind = match full || theirs.partial_restore_failures.is_none() {
            true => &theirs.restore_failures,
            false => &theirs.partial_restore_failures,
        };
        for family in families {
            let failures = theirs.nftables_failures.iter().chain(of_kind);
            failures.for_each(|it| it.of(*family).inc());
        }
        metrics.ours.syncs_failed.inc();
        metrics.ours.last_sync_succeeded.set(0);
        let text = chain(error);
        if self.last_error.as_ref() != Some(&text) {
            error!(error = text, "sync failed: will retry");
        }
        self.last_error = Some(text.clone());
        self.last_sync = Some(SyncStatus {
            when: Timestamp::now().to_string(),
            elapsed_seconds: seconds(end - start),
            error: Some(text),
            ..SyncStatus::default()
        });
    }

    /// Flows are stale only once the kernel holds the new plan.
    fn hand_over_stale_flows(&self, superseded: Superseded, were_away: bool) {
        let plan = self.proxy.plan();
        let stale = superseded.into_iter().flat_map(|(key, old)| {
            stale_flows(old.as_deref(), plan.ports.get(&key).map(AsRef::as_ref))
        });
        // A frontend that another Service took over has flows to that one by now.
        let nobody = Keep::Endpoints(Vec::new());
        let mut stale: Vec<StaleFlows> = stale
            .filter(|it| it.keep != nobody || is_unserved(plan, &it.frontend))
            .collect();
        if were_away {
            stale.extend(untranslated_flows(plan));
        }
        if !stale.is_empty() {
            // Cleanup that has died has said so itself; the rules matter more.
            let _ = self.outputs.stale.send(stale);
        }
    }
}

/// Whether nobody owns a frontend, or its owner has nobody who serves it.
fn is_unserved(plan: &Plan, frontend: &Frontend) -> bool {
    let owner = plan.claims.owner(frontend);
    let owner = owner.and_then(|key| plan.ports.get(key));
    owner.is_none_or(|port| port.serving.is_empty())
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn seconds_since_epoch() -> f64 {
    Timestamp::now().as_millisecond() as f64 / 1000.0
}

/// A sync has been asked for.
fn queued(metrics: &Metrics) {
    for family in IpFamily::ALL {
        let last = metrics.kube_proxy.last_queued.of(family);
        last.set(seconds_since_epoch());
    }
}

fn to_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// An error and everything beneath it in one line. What a message already contains is not said
/// twice.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
