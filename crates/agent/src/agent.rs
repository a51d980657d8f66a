//! The agent: one thread that plans and writes.

mod answer;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sluice_core::backend::{Backend, BackendError};
use sluice_core::model::Event;
use sluice_core::plan::{Changes, Frontend, Plan, Planner, PortKey, PortPlan};
use sluice_core::reconcile::{Reconciler, Report};
use sluice_core::settings::Settings;
use sluice_core::stale::{Keep, StaleFlows, stale_flows, untranslated_flows};
use tracing::{debug, error, info, warn};

use crate::health::Health;
use crate::pace::{Pace, Periods, Resync};
use crate::reports::Reports;
use crate::status::{Status, SyncStatus};

/// Inputs taken in before a sync that is due: a stream of them must not put it off for ever.
const BURST: usize = 1024;

/// What the agent hears.
#[derive(Debug)]
pub enum Input {
    /// A source says something.
    Events(Vec<Event>),
    /// Another program changed our rules: what, and who if known, for the log.
    KernelChanged(String),
    /// Somebody wants to know how things are.
    Status(tokio::sync::oneshot::Sender<Status>),
    /// Leave the rules and return.
    Stop,
}

/// Where the agent reports to.
pub struct Outputs {
    /// Told when a sync is wanted and when it is done.
    pub health: Arc<Health>,
    /// Gets the stale flows after each successful sync.
    pub stale: Sender<Vec<StaleFlows>>,
    /// Conntrack entries deleted so far, for the status.
    pub conntrack_deleted: Arc<AtomicU64>,
    /// Runs once, after the first successful sync.
    pub after_first_sync: Box<dyn FnOnce() + Send>,
}

/// The planner, the kernel's keeper, and the loop that connects them to the world.
pub struct Agent<B: Backend> {
    mode: &'static str,
    planner: Planner,
    reconciler: Reconciler<B>,
    pace: Pace,
    /// Service ports that differ from the plan of the last successful sync.
    changed: BTreeSet<PortKey>,
    /// The plans that the kernel holds, where they differ from the present ones.
    held: BTreeMap<PortKey, Option<Arc<PortPlan>>>,
    outputs: Outputs,
    first: Option<Box<dyn FnOnce() + Send>>,
    /// What another program did to our rules last.
    drift: String,
    reports: Reports,
    last_error: Option<String>,
    started: Instant,
    last_sync: Option<SyncStatus>,
    syncs: u64,
    failures: u64,
    repairs: u64,
}

impl<B: Backend> Agent<B> {
    /// An agent that knows nothing yet. `mode` names the data plane in the status.
    pub fn new(
        mode: &'static str,
        settings: Settings,
        backend: B,
        periods: Periods,
        mut outputs: Outputs,
    ) -> Self {
        let first = std::mem::replace(&mut outputs.after_first_sync, Box::new(|| {}));
        Self {
            mode,
            planner: Planner::new(settings),
            reconciler: Reconciler::new(backend),
            pace: Pace::new(periods),
            changed: BTreeSet::new(),
            held: BTreeMap::new(),
            outputs,
            first: Some(first),
            drift: String::new(),
            reports: Reports::default(),
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
                events.into_iter().for_each(|it| self.planner.absorb(it));
                self.pace.wish();
            }
            // The first sync reads the kernel anyway.
            Input::KernelChanged(_) if self.syncs == 0 => {}
            Input::KernelChanged(what) => {
                self.drift = what;
                self.pace.drifted();
            }
            Input::Status(reply) => {
                // Who asked may have gone away; that is its own affair.
                let _ = reply.send(self.status());
            }
            Input::Stop => {
                info!("stopping: rules stay in place");
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// When there is something to do without any input; `None` while nothing may be written.
    fn due(&self, now: Instant) -> Option<Instant> {
        self.planner
            .is_synced()
            .then(|| self.pace.due(now))
            .flatten()
    }

    /// Plans and writes, if that is due.
    fn step(&mut self, now: Instant) {
        // Half a cluster would delete the other half's rules.
        if !self.planner.is_synced() {
            return;
        }
        if self.pace.is_wanted() {
            self.outputs.health.wanted(now);
        }
        if self.due(now).is_none_or(|due| due > now) {
            return;
        }
        let reason = self.pace.resync_reason(now);
        self.pace.begin(reason, now);
        let spared = reason == Some(Resync::Periodic) && self.reconciler.is_undisturbed();
        if reason.is_some() && !spared {
            self.reconciler.forget();
        }
        if reason == Some(Resync::Drift) {
            self.log_drift();
        }
        let changes = self.planner.replan();
        debug!(
            ports = changes.ports.len(),
            node = changes.node,
            ?reason,
            "planned"
        );
        self.remember(changes);
        let result = self.reconciler.sync(self.planner.plan(), &self.changed);
        let end = Instant::now();
        match result {
            Ok(report) => self.succeeded(&report, reason, now, end),
            Err(error) => self.failed(&error, now, end),
        }
        let (issues, problems, refused) = (self.issues(), self.problems(), self.refused());
        self.reports.update(&issues, &problems, &refused);
    }

    fn log_drift(&self) {
        let by = &self.drift;
        match self.pace.is_fight() {
            false => warn!(by, "rules were changed by another program: repairing"),
            true => warn!(
                by,
                "another program keeps changing our rules: repairing once a second"
            ),
        }
    }

    /// Keeps what changed until a sync succeeds.
    fn remember(&mut self, changes: Changes) {
        for (key, change) in changes.ports {
            self.held.entry(key.clone()).or_insert(change.old);
            self.changed.insert(key);
        }
    }

    fn succeeded(&mut self, report: &Report, reason: Option<Resync>, start: Instant, end: Instant) {
        let any_refused = !self.reconciler.refused().is_empty();
        self.pace.succeed(end, report.full, any_refused);
        self.syncs += 1;
        self.changed.clear();
        if self.last_error.take().is_some() {
            info!("sync works again");
        }
        let repaired = matches!(reason, Some(Resync::Drift | Resync::Periodic));
        if repaired && !report.is_empty() {
            self.repairs += 1;
        }
        // Whoever dialled while there were no rules would be led nowhere for ever.
        let were_away = report.full && !report.is_empty();
        self.hand_over_stale_flows(were_away);
        let now = Timestamp::now();
        self.outputs.health.updated(now);
        let elapsed = end - start;
        if !report.is_empty() {
            info!(
                added = report.added,
                replaced = report.replaced,
                deleted = report.deleted,
                services = self.services(),
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
        if let Some(first) = self.first.take() {
            first();
        }
    }

    fn failed(&mut self, error: &BackendError, start: Instant, end: Instant) {
        self.pace.fail(end);
        self.outputs.health.wanted(start);
        self.failures += 1;
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

    /// Flows are stale only once the kernel holds the new plan. Ports that it refused keep what
    /// they had, and so do their flows.
    fn hand_over_stale_flows(&mut self, were_away: bool) {
        let refused = self.reconciler.refused();
        let (waiting, written): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(key, _)| refused.contains_key(key));
        self.held = waiting;
        let plan = self.planner.plan();
        let stale = written.into_iter().flat_map(|(key, old)| {
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
