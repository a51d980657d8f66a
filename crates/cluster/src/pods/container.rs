//! One container of a pod: a process, its log, and why it does not run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container as Spec, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nix::sys::signal::{Signal, killpg};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};

use super::prober::{Kind, Prober};
use super::record::Process;
use crate::process::Identity;

/// The first pause before a container that ended is started again. kubelet begins with 10 s; nobody waits so
/// long in a lab.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// After so long a life the pauses begin anew, as in kubelet.
const LONG_LIFE: Duration = Duration::from_secs(600);

/// What a container does.
#[derive(Debug)]
pub(super) enum State {
    /// Not started, or to be started again.
    Waiting {
        reason: &'static str,
        message: String,
        until: Instant,
    },
    Running {
        process: Identity,
        since: Timestamp,
    },
    /// Ended for good.
    Terminated(ContainerStateTerminated),
}

/// A container of a pod that has a machine.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) spec: Spec,
    pub(super) state: State,
    pub(super) restarts: i32,
    last: Option<ContainerStateTerminated>,
    pub(super) probers: Vec<Prober>,
    /// The runs of this server, so that news of an earlier one is told from that of this one.
    pub(super) run: u64,
    pause: Duration,
    folder: PathBuf,
}

/// A process that was started, to be waited for.
pub(super) struct Started(pub(super) std::process::Child);

impl Container {
    /// `told`: what an earlier server said of it. One that ended for good stays so.
    pub(super) fn new(
        spec: Spec,
        told: Option<&ContainerStatus>,
        folder: &Path,
        now: Instant,
    ) -> Self {
        let ended = told.and_then(|it| it.state.as_ref()?.terminated.clone());
        let begin = State::Waiting {
            reason: "ContainerCreating",
            message: String::new(),
            until: now,
        };
        Self {
            spec,
            state: ended.map_or(begin, State::Terminated),
            restarts: told.map_or(0, |it| it.restart_count),
            last: told.and_then(|it| it.last_state.as_ref()?.terminated.clone()),
            probers: Vec::new(),
            run: 0,
            pause: FIRST_PAUSE,
            folder: folder.to_owned(),
        }
    }

    /// Goes on with the process that an earlier server started.
    pub(super) fn adopt(&mut self, process: &Process, now: Instant) {
        self.restarts = process.restarts;
        self.run += 1;
        self.probers = Prober::of(&self.spec, now);
        self.state = State::Running {
            process: process.identity.clone(),
            since: Timestamp::from_second(process.started).unwrap_or_default(),
        };
    }

    /// What the record says of it.
    pub(super) fn process(&self) -> Option<Process> {
        let State::Running { process, since } = &self.state else {
            return None;
        };
        Some(Process {
            name: self.spec.name.clone(),
            identity: process.clone(),
            restarts: self.restarts,
            started: since.as_second(),
        })
    }

    /// Starts it, with output into its log.
    pub(super) fn start(&mut self, mut command: Command, now: Instant) -> anyhow::Result<Started> {
        let log = self.folder.join(format!("{}.log", self.spec.name));
        if log.exists() {
            let previous = self.folder.join(format!("{}.previous.log", self.spec.name));
            fs::rename(&log, previous).context("keep the log of the previous run")?;
        }
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| log.display().to_string())?;
        let err = out.try_clone()?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        // A group of its own: a shell's children get the signals, too.
        let child = command.process_group(0).spawn()?;
        self.run += 1;
        self.probers = Prober::of(&self.spec, now);
        let process = Identity::of(child.id()).context("it ended at once")?;
        self.state = State::Running {
            process,
            since: Timestamp::now(),
        };
        Ok(Started(child))
    }

    /// It could not be started.
    pub(super) fn failed(&mut self, reason: &'static str, message: String, now: Instant) {
        self.state = State::Waiting {
            reason,
            message,
            until: now + self.next_pause(),
        };
    }

    /// Its process ended. `again`: whether the pod's `restartPolicy` wants it to run again.
    pub(super) fn ended(
        &mut self,
        status: Option<std::process::ExitStatus>,
        again: impl Fn(i32) -> bool,
        now: Instant,
    ) {
        let State::Running { since, process } = &self.state else {
            return;
        };
        // What it left behind would keep its ports; there may be nothing.
        let _ = killpg(process.pid(), Signal::SIGKILL);
        let signal = status.and_then(|it| it.signal());
        // As a shell counts; nobody saw how an adopted process ended.
        let code = status.and_then(|it| it.code());
        let code = code.unwrap_or(128 + signal.unwrap_or(9));
        let ended = ContainerStateTerminated {
            exit_code: code,
            signal,
            reason: Some(if code == 0 { "Completed" } else { "Error" }.to_owned()),
            started_at: Some(Time(*since)),
            finished_at: Some(Time(Timestamp::now())),
            ..ContainerStateTerminated::default()
        };
        if Timestamp::now().duration_since(*since).unsigned_abs() > LONG_LIFE {
            self.pause = FIRST_PAUSE;
        }
        self.probers.clear();
        if !again(code) {
            self.state = State::Terminated(ended);
            return;
        }
        self.last = Some(ended);
        self.restarts += 1;
        let first = self.restarts == 1;
        let pause = if first {
            Duration::ZERO
        } else {
            self.next_pause()
        };
        self.state = State::Waiting {
            reason: "CrashLoopBackOff",
            message: format!("back-off {pause:?} restarting failed container"),
            until: now + pause,
        };
    }

    /// Sends a signal to its processes.
    pub(super) fn signal(&self, signal: Signal) {
        if let State::Running { process, .. } = &self.state
            && process.is_running()
        {
            // It may end by itself in between.
            let _ = killpg(process.pid(), signal);
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Whether it runs and its start was confirmed.
    pub(super) fn is_started(&self) -> bool {
        let mut startup = self.probers.iter().filter(|it| it.kind == Kind::Startup);
        self.is_running() && startup.all(|it| it.passed)
    }

    pub(super) fn is_ready(&self) -> bool {
        let mut readiness = self.probers.iter().filter(|it| it.kind == Kind::Readiness);
        self.is_started() && readiness.all(|it| it.passed)
    }

    pub(super) fn status(&self) -> ContainerStatus {
        let state = match &self.state {
            State::Waiting {
                reason, message, ..
            } => ContainerState {
                waiting: Some(ContainerStateWaiting {
                    reason: Some((*reason).to_owned()),
                    message: (!message.is_empty()).then(|| message.clone()),
                }),
                ..ContainerState::default()
            },
            State::Running { since, .. } => ContainerState {
                running: Some(ContainerStateRunning {
                    started_at: Some(Time(*since)),
                }),
                ..ContainerState::default()
            },
            State::Terminated(ended) => ContainerState {
                terminated: Some(ended.clone()),
                ..ContainerState::default()
            },
        };
        ContainerStatus {
            name: self.spec.name.clone(),
            image: self.spec.image.clone().unwrap_or_default(),
            ready: self.is_ready(),
            started: Some(self.is_started()),
            restart_count: self.restarts,
            state: Some(state),
            last_state: self.last.clone().map(|ended| ContainerState {
                terminated: Some(ended),
                ..ContainerState::default()
            }),
            ..ContainerStatus::default()
        }
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}
