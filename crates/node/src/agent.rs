//! The agent: one thread that plans and writes.

mod changelog;
mod count;
mod findings;
mod history;
mod names;
mod outcome;
mod report;
mod status;
mod waiting;
mod without_endpoints;

use std::collections::BTreeSet;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sluice_model::{Announcement, Event, IpFamily, NamespacedName};
use sluice_plan::PortPlan;
use sluice_plan::settings::Settings;
use sluice_plan::stale::StaleFlows;
use sluice_plane::{DataPlane, ForeignChange, Proxy, Superseded, Sysctl};
use sluice_reconcile::Upkeep;
use tracing::{debug, info, trace};

use self::changelog::Changelog;
use self::findings::Findings;
use self::history::History;
use self::names::NamesWaiting;
use self::waiting::Waiting;
use self::without_endpoints::WithoutEndpoints;
use crate::events::{Change, EventQueue};

pub use self::names::Names;
use crate::health::{Health, NodeState};
use crate::health_check::HealthChecks;
use crate::metrics::{Metrics, seconds_since_epoch};
use crate::pace::{Pace, Periods, Resync};
use crate::questions::Question;
use crate::status::{Status, SyncStatus};

/// Most inputs taken in before a sync that is due: a stream of inputs must not delay it for ever.
const BURST: usize = 1024;

/// A message to the agent.
#[derive(Debug)]
pub enum Input {
    /// Events of a source are in the queue: all of them are taken with this input.
    Events(EventQueue),
    /// A changed configuration.
    Configure {
        /// The planner's settings.
        settings: Box<Settings>,
        /// How often to sync.
        periods: Periods,
        /// See [`Health::set_timeout`].
        health_timeout: Duration,
    },
    /// Another program changed our rules: the change, and the program if known, for the log.
    KernelChanged(String),
    /// A request for the status.
    Status(tokio::sync::oneshot::Sender<Status>),
    /// A request for the last syncs, the oldest first.
    Syncs(tokio::sync::oneshot::Sender<Vec<SyncStatus>>),
    /// A question about the plan.
    Question(Question),
    /// A request for the plan of every service port.
    Plans(SyncSender<Vec<Arc<PortPlan>>>),
    /// The rules stay, and the agent returns.
    Stop,
}

/// Removes the rules that an earlier proxy left of these families.
pub type TakeOver = Box<dyn FnMut(&[IpFamily]) + Send>;

/// Sets sysctls, and logs those that cannot be set.
pub type SetSysctls = Box<dyn FnMut(Vec<Sysctl>) + Send>;

/// Receivers of the agent's results.
pub struct Outputs {
    /// Told when a sync is wanted and when it is done.
    pub health: Arc<Health>,
    /// All metrics.
    pub metrics: Arc<Metrics>,
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
    /// Gets the events that a DNS server may answer from, in parts: an object with its rules only after a
    /// sync that wrote them succeeded, and [`Event::Synced`] after the first one. A deleted object comes
    /// before its rules go, and so does every object without rules, such as a Pod or a headless Service.
    /// Of each object the last event counts; those of problems and of the machine's addresses are left out.
    /// `None` without a DNS server.
    pub names: Option<Names>,
}

/// The proxy, and the loop around it.
pub struct Agent<P: DataPlane> {
    proxy: Proxy<P>,
    pace: Pace,
    outputs: Outputs,
    taken_over: Vec<IpFamily>,
    /// The last foreign change; `None` once a full sync has read the kernel.
    drift: Option<String>,
    findings: Findings,
    changelog: Changelog,
    without_endpoints: WithoutEndpoints,
    waiting: Waiting,
    names: NamesWaiting,
    /// When to call the data plane's upkeep.
    upkeep: Option<Instant>,
    last_error: Option<String>,
    started: Instant,
    history: History,
    syncs: u64,
    failures: u64,
    repairs: u64,
}

impl<P: DataPlane> Agent<P> {
    /// An agent without a cluster state. It writes nothing before its source is complete.
    pub fn new(settings: Settings, plane: P, periods: Periods, mut outputs: Outputs) -> Self {
        outputs.metrics.sync_requested();
        Self {
            proxy: Proxy::new(settings, plane),
            pace: Pace::new(periods),
            names: NamesWaiting::new(outputs.names.take()),
            outputs,
            taken_over: Vec::new(),
            drift: None,
            findings: Findings::default(),
            changelog: Changelog::default(),
            without_endpoints: WithoutEndpoints::default(),
            waiting: Waiting::new(Timestamp::now().as_millisecond()),
            upkeep: None,
            last_error: None,
            started: Instant::now(),
            history: History::default(),
            syncs: 0,
            failures: 0,
            repairs: 0,
        }
    }

    /// Works until [`Input::Stop`], or until every sender of inputs is dropped.
    pub fn run(mut self, inputs: &Receiver<Input>) {
        for it in self.unprotected() {
            info!("off, as in kube-proxy: {it}");
        }
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
            // A burst costs one sync.
            for input in input.into_iter().chain(inputs.try_iter().take(BURST)) {
                if self.take(input).is_break() {
                    return;
                }
            }
            self.step(Instant::now());
        }
    }

    /// Takes in one input. Cheap: [`step`](Self::step) plans and writes.
    fn take(&mut self, input: Input) -> ControlFlow<()> {
        match input {
            Input::Events(queue) => {
                self.absorb(queue.take());
                self.pace.request();
            }
            Input::Configure {
                settings,
                periods,
                health_timeout,
            } => {
                self.outputs.health.set_timeout(health_timeout);
                self.proxy.configure(*settings);
                self.pace.configure(periods);
                self.pace.request();
            }
            // The first sync reads the kernel anyway.
            Input::KernelChanged(_) if self.syncs == 0 => {}
            Input::KernelChanged(change) => {
                self.drift = Some(change);
                self.pace.drifted();
            }
            Input::Status(reply) => {
                // The client may have gone away.
                let _ = reply.send(self.status());
            }
            Input::Syncs(reply) => {
                let _ = reply.send(self.history.all());
            }
            Input::Question(question) => question.answer(self.proxy.planner()),
            Input::Plans(reply) => {
                let plans = self.proxy.plan().ports.values().cloned();
                // The channel has room for the one answer; the reader may have gone away.
                let _ = reply.try_send(plans.collect());
            }
            Input::Stop => {
                info!("stopping: rules stay in place");
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn absorb(&mut self, changes: Vec<Change>) {
        self.names.add(changes.iter().map(|it| &it.event));
        let metrics = &self.outputs.metrics;
        for change in changes {
            let state = self.proxy.planner().state();
            self.waiting.add(&change, state, metrics);
            match &change.event {
                Event::Set(object) => trace!(object = %object.key(), "changed"),
                Event::Delete(object) => trace!(%object, "deleted"),
                Event::Problems { .. } | Event::LocalAddresses(_) | Event::Synced => {}
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
    }

    fn node_state(&self) -> NodeState {
        let name = &self.proxy.planner().settings().node_name;
        match self.proxy.planner().state().node(name) {
            None => NodeState::Unknown,
            Some(node) if node.leaving => NodeState::Leaving,
            Some(_) => NodeState::Present,
        }
    }

    /// When to work without any input; `None` while nothing may be written.
    fn due(&self, now: Instant) -> Option<Instant> {
        if !self.proxy.planner().is_synced() {
            return None;
        }
        let due = [self.pace.due(now), self.upkeep, self.changelog.due()];
        due.into_iter().flatten().min()
    }

    /// Lets the data plane do its deferred work.
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
    }

    /// Plans and writes, if a sync is due.
    fn step(&mut self, now: Instant) {
        // Half a cluster would delete the other half's rules.
        if !self.proxy.planner().is_synced() {
            return;
        }
        self.changelog.end_window(now);
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
        let result = self.proxy.sync();
        let end = Instant::now();
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
                self.succeeded(synced, reason, last_sync, end);
                self.keep_up(end);
            }
            Err(error) => {
                let sizes = self.sync_sizes(full, self.proxy.waiting());
                self.observe_duration(full, &sizes, &served, end - now);
                self.outputs.health.wanted(now);
                self.count_failure(full, &served);
                self.failed(&error, full, last_sync, end);
            }
        }
        self.report(&changes, (!full && !changes.node).then_some(written));
    }

    fn prepare_resync(&mut self, reason: Option<Resync>) {
        let reconciler = self.proxy.reconciler_mut();
        match reason {
            Some(Resync::Periodic) if reconciler.is_undisturbed() => {}
            Some(Resync::Periodic | Resync::Drift) => reconciler.forget(),
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

fn services(ports: &Superseded) -> BTreeSet<NamespacedName> {
    ports.keys().map(|it| it.name.service.clone()).collect()
}

/// An error and its causes in one line. A cause that the message already contains is left out.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
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
