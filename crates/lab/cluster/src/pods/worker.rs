//! The life of one pod: machine, containers, probes, end. Each pod has a thread.

mod hooks;
mod order;
mod starting;

use std::fs;
use std::net::IpAddr;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use nix::sys::signal::Signal;
use sluice_lab::HeldPod;
use sluice_reconcile::{Waits, chain};

use super::container::{Container, Role, State};
use super::prober::{Kind, Verdict};
use super::status::status;
use super::volumes::Volumes;
use super::{Read, Report};
use crate::machines::Machines;
use crate::process::Identity;
use crate::record::Record;
use hooks::Hook;

/// Interval at which an adopted process is checked: it is no child, so its end is not signalled.
const LOOK: Duration = Duration::from_millis(100);

/// Longest wait when nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

/// Back-off after a machine could not be made.
const RETRY: Duration = Duration::from_secs(1);

/// Longest back-off of volumes that cannot be made. The objects that they are made from end it, too.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// A message to a worker.
#[derive(Debug)]
pub(super) enum News {
    /// The Pod changed; whether its node is switched on.
    Pod(Arc<Pod>, bool),
    /// The Pod was deleted without a grace period.
    Remove,
    /// The process of run `run` ended, with its status if that is known.
    Ended {
        container: usize,
        run: u64,
        status: Option<ExitStatus>,
    },
    /// A hook of run `run` is done.
    Hooked {
        container: usize,
        run: u64,
        hook: Hook,
        done: Result<(), String>,
    },
    /// An object changed that volumes or variables may be made from.
    Refresh,
    /// A probe of run `run` has a result.
    Probed {
        container: usize,
        prober: usize,
        run: u64,
        answer: Result<(), String>,
    },
}

pub(super) struct Worker {
    pub(super) pod: Arc<Pod>,
    /// Whether the node is switched on. While it is off, the kubelet does nothing and reports nothing.
    pub(super) power: bool,
    pub(super) machines: Arc<Machines>,
    pub(super) report: Arc<dyn Report>,
    pub(super) objects: Arc<dyn Read>,
    pub(super) news: Sender<News>,
    pub(super) uid: String,
    /// Init containers first.
    pub(super) containers: Vec<Container>,
    volumes: Volumes,
    /// Whether an object changed that volumes may be made from.
    volumes_due: bool,
    retry: Waits,
    /// When volumes that failed are tried again.
    retry_at: Option<Instant>,
    /// Whether the init containers have ended once.
    initialized: bool,
    /// The machine, once it is made.
    pub(super) held: Option<HeldPod>,
    pub(super) addresses: Option<[IpAddr; 2]>,
    /// Process 1 of the pid namespace that the containers share, if they do.
    pub(super) first: Option<Identity>,
    pub(super) start: Timestamp,
    /// Whether the object is deleted.
    pub(super) removed: bool,
    /// When SIGKILL follows SIGTERM.
    pub(super) deadline: Option<Instant>,
    /// Seconds between SIGTERM and SIGKILL, as the Pod last said.
    pub(super) grace: Option<u64>,
    /// The status that this worker last wrote.
    pub(super) reported: Option<PodStatus>,
    /// Whether somebody else changed what was written: the node controller, while the node was silent.
    overwritten: bool,
}

impl Worker {
    pub(super) fn new(
        pod: &Arc<Pod>,
        power: bool,
        machines: Arc<Machines>,
        report: Arc<dyn Report>,
        objects: Arc<dyn Read>,
        news: Sender<News>,
    ) -> Self {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let folder = machines.lab_dir().pod(&uid);
        let volumes = Volumes::new(&folder, machines.lab_dir().claims());
        Self {
            containers: order::containers(pod, &folder),
            volumes,
            volumes_due: true,
            retry: Waits::new(RETRY, LONGEST_RETRY),
            retry_at: None,
            initialized: false,
            uid,
            pod: pod.clone(),
            power,
            machines,
            report,
            objects,
            news,
            held: None,
            addresses: None,
            first: None,
            start: Timestamp::now(),
            removed: false,
            deadline: None,
            grace: None,
            reported: None,
            overwritten: false,
        }
    }

    /// Takes over the machine and the processes that an earlier server made.
    pub(super) fn adopt(&mut self, record: &Record) {
        self.held = Some(record.pod());
        self.first.clone_from(&record.first);
        self.addresses = self.addresses_of(&record.machine);
        for process in &record.containers {
            let named = |it: &Container| it.spec.name == process.name;
            if let Some(position) = self.containers.iter().position(named) {
                self.containers[position].adopt(process, Instant::now());
                self.watch_adopted(position, process.identity.clone());
                self.initialized |= self.containers[position].role == Role::App;
                let name = &process.name;
                self.containers[position].inside = self.machines.lab_dir().inside(&self.uid, name);
            }
        }
    }

    pub(super) fn run(mut self, news: &Receiver<News>) {
        loop {
            let now = Instant::now();
            let mut until = now + IDLE;
            if self.power || self.removed {
                until = self.act(now);
                if self.is_over() {
                    // Controllers that wait for the end of a pod read how it ended.
                    self.tell();
                    return self.finish();
                }
                if !self.tell() {
                    until = until.min(now + RETRY);
                }
            }
            match news.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(it) => self.absorb(it),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn absorb(&mut self, news: News) {
        let now = Instant::now();
        match news {
            News::Pod(pod, power) => {
                let (old, new) = (&self.pod.metadata, &pod.metadata);
                self.volumes_due |= old.labels != new.labels || old.annotations != new.annotations;
                let written = self.reported.as_ref();
                self.overwritten |= written.is_some_and(|it| !is_of(it, &pod));
                (self.pod, self.power) = (pod, power);
                self.take_changes(now);
                self.take_ephemeral(now);
            }
            News::Refresh => self.refresh(now),
            News::Hooked {
                container,
                run,
                hook,
                done,
            } => self.hooked(container, run, hook, done),
            News::Remove => {
                self.removed = true;
                self.deadline = Some(now);
                self.signal(Signal::SIGKILL);
            }
            News::Ended {
                container,
                run,
                status,
            } => {
                let again = self.restarts(container);
                let it = &mut self.containers[container];
                if it.run == run {
                    if it.ended(status, again, now) {
                        let text = it.back_off(&self.pod);
                        self.report.event(&self.pod, "BackOff", &text, true);
                    }
                    if self.is_complete() && !self.containers.iter().any(Container::is_running) {
                        self.end_first();
                    }
                    self.write_record();
                }
            }
            News::Probed {
                container,
                prober,
                run,
                answer,
            } => self.probed(container, prober, run, answer),
        }
    }

    /// Ends the containers that are to start again: with another image, or with resources that need it.
    fn take_changes(&mut self, now: Instant) {
        let pod = self.pod.clone();
        let Some(spec) = &pod.spec else { return };
        let specs = spec
            .init_containers
            .iter()
            .flatten()
            .chain(&spec.containers);
        for wanted in specs {
            let name = &wanted.name;
            let position = self.containers.iter().position(|it| it.spec.name == *name);
            let Some(position) = position else { continue };
            if self.containers[position].change(wanted, now) {
                let text = format!("Container {name} definition changed, will be restarted");
                self.report.event(&self.pod, "Killing", &text, false);
                self.stop(position, self.grace_of_spec());
            }
        }
    }

    /// Does what is due at `now`. Returns when the next action is due.
    fn act(&mut self, now: Instant) -> Instant {
        if self.pod.metadata.deletion_timestamp.is_some() {
            self.set_deadline(now);
        }
        if let Some(deadline) = self.deadline {
            if deadline <= now {
                self.signal(Signal::SIGKILL);
            } else {
                self.end_sidecars();
            }
            // Containers that wait are not started any more.
            for it in &mut self.containers {
                if matches!(it.state, State::Waiting { .. }) {
                    it.never_ran();
                }
            }
            let kept = (0..self.containers.len()).map(|it| self.keep(it, now));
            return kept.min().unwrap_or(deadline).min(deadline.max(now + LOOK));
        }
        if self.held.is_none()
            && let Err(error) = self.make_machine()
        {
            let why = format!("Failed to create pod sandbox: {}", chain(error.as_ref()));
            self.report
                .event(&self.pod, "FailedCreatePodSandBox", &why, true);
            return now + RETRY;
        }
        let mut next = self.keep_volumes(now);
        self.end_sidecars();
        for position in 0..self.containers.len() {
            if let State::Waiting { until, .. } = self.containers[position].state
                && self.may_start(position)
            {
                if until <= now || self.mirrors_agent() {
                    self.start_container(position, now);
                }
                if let State::Waiting { until, .. } = self.containers[position].state {
                    next = next.min(until);
                }
            }
            next = next.min(self.keep(position, now));
        }
        next
    }

    /// Begins to terminate the pod. A later request with a shorter grace period shortens the time that is left, as in
    /// kubelet.
    fn set_deadline(&mut self, now: Instant) {
        let grace = self.pod.metadata.deletion_grace_period_seconds;
        let grace = grace.and_then(|it| u64::try_from(it).ok()).unwrap_or(30);
        if self.grace == Some(grace) {
            return;
        }
        let end = now + Duration::from_secs(grace);
        if self.deadline.is_none() {
            for position in 0..self.containers.len() {
                if self.containers[position].role != Role::Sidecar {
                    self.stop(position, Duration::from_secs(grace));
                }
            }
        }
        self.deadline = Some(self.deadline.map_or(end, |it| it.min(end)));
        self.grace = Some(grace);
    }

    /// Does what is due of a container that runs. Returns when the next action is due.
    fn keep(&mut self, position: usize, now: Instant) -> Instant {
        let next = self.ask(position, now);
        let killed = self.containers[position].kill_late(now);
        killed.map_or(next, |it| it.min(next))
    }

    /// Starts the probes that are due. Returns when the next one is due.
    fn ask(&mut self, position: usize, now: Instant) -> Instant {
        let mut next = now + IDLE;
        let container = &self.containers[position];
        let (started, is_ending) = (container.is_started(), self.is_ending(position));
        let (run, spec) = (container.run, container.spec.clone());
        let Some(ip) = self.addresses.map(|it| it[0]) else {
            return next;
        };
        for index in 0..self.containers[position].probers.len() {
            let prober = &self.containers[position].probers[index];
            let Some(due) = prober.due() else { continue };
            // Until a container has ended, it may become unready, and it is not started again.
            if is_ending && prober.kind != Kind::Readiness {
                continue;
            }
            if due > now {
                next = next.min(due);
                continue;
            }
            if prober.kind != Kind::Startup && !started {
                let later = now + LOOK;
                self.containers[position].probers[index].postpone(later);
                next = next.min(later);
                continue;
            }
            let timeout = prober.timeout();
            let exec = prober.exec().map(|it| self.inside(position, it));
            let prober = &mut self.containers[position].probers[index];
            let question = prober.question(&spec, ip, exec);
            let netns = self.netns();
            let news = self.news.clone();
            thread::spawn(move || {
                let answer = match (question, netns) {
                    (Some(question), Ok(netns)) => question.ask(&netns, timeout),
                    (None, _) => Err("the probe names no port that exists".to_owned()),
                    (_, Err(error)) => Err(error.to_string()),
                };
                let _ = news.send(News::Probed {
                    container: position,
                    prober: index,
                    run,
                    answer,
                });
            });
        }
        next
    }

    fn probed(&mut self, position: usize, index: usize, run: u64, answer: Result<(), String>) {
        let is_ending = self.is_ending(position);
        let container = &mut self.containers[position];
        if container.run != run {
            return;
        }
        let Some(prober) = container.probers.get_mut(index) else {
            return;
        };
        let (kind, grace) = (prober.kind, prober.grace());
        if is_ending && kind != Kind::Readiness {
            return;
        }
        let verdict = prober.answered(answer.is_ok(), Instant::now());
        if let Err(why) = answer
            && verdict != Verdict::Early
        {
            let text = format!("{kind:?} probe failed: {why}");
            self.report.event(&self.pod, "Unhealthy", &text, true);
        }
        if verdict == Verdict::Fatal {
            let name = &container.spec.name;
            let text = format!("Container {name} failed {kind:?} probe, will be restarted");
            self.report.event(&self.pod, "Killing", &text, false);
            self.stop(position, grace.unwrap_or_else(|| self.grace_of_spec()));
        }
    }

    /// Whether a container has been asked to end.
    fn is_ending(&self, position: usize) -> bool {
        self.deadline.is_some() || self.containers[position].is_ending()
    }

    fn signal(&self, signal: Signal) {
        self.containers.iter().for_each(|it| it.signal(signal));
    }

    /// Ends the process that belongs to no container.
    fn end_first(&self) {
        if let Some(first) = &self.first {
            first.signal(Signal::SIGKILL);
        }
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some() && !self.containers.iter().any(Container::is_running)
    }

    /// Removes the machine, then reports that the pod is finished.
    fn finish(self) {
        self.end_first();
        if let Some(held) = &self.held {
            let removed = self.machines.lock().remove_pod(&held.name);
            if let Err(error) = removed {
                tracing::debug!(%error, pod = %held.name, "its node may be gone");
            }
        }
        self.machines.consoles().remove(&self.uid);
        // Logs are removed with the pod, as by kubelet.
        let _ = fs::remove_dir_all(self.machines.lab_dir().pod(&self.uid));
        while !self.report.finished(&self.pod) {
            #[expect(clippy::disallowed_methods, reason = "back-off")]
            thread::sleep(RETRY);
        }
    }

    /// Writes the status if it changed. Returns whether it is written.
    fn tell(&mut self) -> bool {
        let Some(node) = self.node_addresses() else {
            return true;
        };
        let status = status(
            &self.pod,
            self.reported.as_ref(),
            &self.containers,
            self.addresses,
            node,
            self.start,
        );
        if self.reported.as_ref() != Some(&status) || self.overwritten {
            if !self.report.status(&self.pod, &status) {
                return false;
            }
            self.reported = Some(status);
            self.overwritten = false;
        }
        true
    }

    fn write_record(&self) {
        let Some(HeldPod {
            name: machine,
            node,
            host,
        }) = self.held.clone()
        else {
            return;
        };
        let processes = self.containers.iter().filter_map(Container::process);
        let record = Record {
            uid: self.uid.clone(),
            machine,
            node,
            host,
            containers: processes.collect(),
            first: self.first.clone(),
        };
        if let Err(error) = record.write(self.machines.lab_dir()) {
            let why = chain(error.as_ref());
            let text = format!("a restart of the lab's server will restart it: {why}");
            self.report.event(&self.pod, "FailedRecord", &text, true);
        }
    }
}

/// Whether the conditions of a Pod are these, times aside.
fn is_of(reported: &PodStatus, pod: &Pod) -> bool {
    let found = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut reported = reported.conditions.iter().flatten();
    reported.all(|it| {
        let same = |found: &PodCondition| found.type_ == it.type_ && found.status == it.status;
        found.into_iter().flatten().any(same)
    })
}
