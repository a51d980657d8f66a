//! One container of a pod: its process, its log, and its state.

use std::fs::{self, File};
use std::mem;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container as Spec, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nix::sys::signal::{Signal, killpg};
use sluice_reconcile::Waits;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};

use super::prober::{Kind, Prober};
use crate::console::Streams;
use crate::enter::Pids;
use crate::entry::Entry;
use crate::process::Identity;
use crate::record::Process;

/// First back-off before a container is started again. kubelet starts with 10 s, which is long for a lab.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest back-off.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The back-off is reset after a run of this length, as in kubelet.
const LONG_LIFE: Duration = Duration::from_secs(600);

/// Most bytes of a termination message (`MaxContainerTerminationMessageLength`).
const MOST_WORDS: usize = 4096;

#[derive(Debug)]
pub(super) enum State {
    /// Not started yet, or waiting for a restart.
    Waiting {
        reason: &'static str,
        message: String,
        until: Instant,
    },
    Running {
        process: Identity,
        since: Timestamp,
        /// Why the container is still told to wait: its hook `postStart` runs.
        starting: Option<&'static str>,
    },
    /// Ended; it is not started again.
    Terminated(ContainerStateTerminated),
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Once, before all that follow.
    Init,
    /// An init container that goes on until the others have ended: `restartPolicy: Always`.
    Sidecar,
    App,
    /// Once, at any time: for people who look into a pod that runs.
    Ephemeral,
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) spec: Spec,
    pub(super) role: Role,
    /// Mounts and variables of the last start.
    pub(super) inside: Entry,
    pub(super) state: State,
    pub(super) restarts: i32,
    last: Option<ContainerStateTerminated>,
    pub(super) probers: Vec<Prober>,
    /// The number of the present run, which tells messages about an earlier run apart.
    pub(super) run: u64,
    pauses: Waits,
    folder: PathBuf,
    /// Whether the container has another image than the present run.
    has_changed: bool,
    /// When the present run is killed, which was asked to end.
    kill_at: Option<Instant>,
}

/// A process that was started, to be waited for.
pub(super) struct Started(pub(super) std::process::Child);

impl Container {
    /// `reason` says why it waits at first. `told` is the state that an earlier server reported. A container that terminated stays so.
    pub(super) fn new(
        spec: Spec,
        role: Role,
        reason: &'static str,
        told: Option<&ContainerStatus>,
        folder: &Path,
        now: Instant,
    ) -> Self {
        let ended = told.and_then(|it| it.state.as_ref()?.terminated.clone());
        let begin = State::Waiting {
            reason,
            message: String::new(),
            until: now,
        };
        Self {
            spec,
            role,
            inside: Entry::default(),
            state: ended.map_or(begin, State::Terminated),
            restarts: told.map_or(0, |it| it.restart_count),
            last: told.and_then(|it| it.last_state.as_ref()?.terminated.clone()),
            probers: Vec::new(),
            run: 0,
            pauses: Waits::new(FIRST_PAUSE, LONGEST_PAUSE),
            folder: folder.to_owned(),
            has_changed: false,
            kill_at: None,
        }
    }

    /// Takes over the process that an earlier server started.
    pub(super) fn adopt(&mut self, process: &Process, now: Instant) {
        self.restarts = process.restarts;
        self.run += 1;
        self.probers = Prober::of(&self.spec, now);
        self.state = State::Running {
            process: process.identity.clone(),
            since: Timestamp::from_second(process.started).unwrap_or_default(),
            starting: None,
        };
    }

    /// An empty file for the last words of the next run, and where the container writes them; the error is in kubelet's words.
    pub(super) fn termination_log(&self) -> Result<(PathBuf, PathBuf), String> {
        let file = self.words();
        fs::write(&file, "").map_err(|it| format!("{}: {it}", file.display()))?;
        let path = self.spec.termination_message_path.as_deref();
        let path = path
            .filter(|it| !it.is_empty())
            .unwrap_or("/dev/termination-log");
        Ok((file, path.into()))
    }

    fn words(&self) -> PathBuf {
        self.folder.join(format!("{}.termination", self.spec.name))
    }

    /// The process, as the record stores it.
    pub(super) fn process(&self) -> Option<Process> {
        let State::Running { process, since, .. } = &self.state else {
            return None;
        };
        Some(Process {
            name: self.spec.name.clone(),
            identity: process.clone(),
            restarts: self.restarts,
            started: since.as_second(),
        })
    }

    /// Starts the process among `pids`, with its output in the log. `streams`: what it has besides. What follows is
    /// [`begun`](Self::begun).
    pub(super) fn start(
        &mut self,
        mut command: Command,
        streams: Option<Streams>,
        pids: &Pids,
    ) -> anyhow::Result<Started> {
        let log = self.log();
        if log.exists() {
            let previous = self.folder.join(format!("{}.previous.log", self.spec.name));
            fs::rename(&log, previous).context("keep the log of the previous run")?;
        }
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| log.display().to_string())?;
        let child = match streams {
            Some(streams) => streams.spawn(command, out, pids)?,
            None => {
                let err = out.try_clone()?;
                command.stdin(Stdio::null()).stdout(out).stderr(err);
                // A process group of its own, so that signals reach the children of a shell, too.
                pids.spawn(|| command.process_group(0).spawn())?
            }
        };
        self.run += 1;
        let process = Identity::of(child.id()).context("it ended at once")?;
        let starting = match self.state {
            State::Waiting { reason, .. } => Some(reason),
            _ => None,
        };
        self.state = State::Running {
            process,
            since: Timestamp::now(),
            starting,
        };
        Ok(Started(child))
    }

    /// The present run is told to run from now on, and is probed.
    pub(super) fn begun(&mut self, now: Instant) {
        if let State::Running { starting, .. } = &mut self.state {
            *starting = None;
        }
        self.probers = Prober::of(&self.spec, now);
    }

    /// The name of the present run, or of the last one.
    fn id(&self) -> String {
        let uid = self.folder.file_name().unwrap_or_default();
        let (uid, name) = (uid.display(), &self.spec.name);
        format!("sluice://{uid}/{name}/{}", self.restarts)
    }

    /// The file of what it writes.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.spec.name))
    }

    /// A container that waits is asked about again at this time.
    pub(super) fn wait_until(&mut self, at: Instant) {
        if let State::Waiting { until, .. } = &mut self.state {
            *until = at;
        }
    }

    /// The Pod changed, of which the image and the resources count. Nothing limits a container, so that it has other
    /// resources at once. Returns whether the process must end, to be started again.
    pub(super) fn change(&mut self, spec: &Spec, now: Instant) -> bool {
        let has_other_image = self.spec.image != spec.image;
        let must_end = has_other_image || self.ends_with(spec);
        self.spec.image.clone_from(&spec.image);
        self.spec.resources.clone_from(&spec.resources);
        if !must_end {
            return false;
        }
        self.wait_until(now);
        self.has_changed = self.is_running();
        self.has_changed
    }

    /// Whether a resource differs for which `resizePolicy` asks for a restart.
    fn ends_with(&self, spec: &Spec) -> bool {
        let amounts = |it: &Spec, name: &str| {
            let lists = it.resources.clone().unwrap_or_default();
            [lists.requests, lists.limits].map(|it| it.and_then(|it| it.get(name).cloned()))
        };
        let mut policies = spec.resize_policy.iter().flatten();
        policies.any(|it| {
            let name = &it.resource_name;
            it.restart_policy == "RestartContainer"
                && amounts(&self.spec, name) != amounts(spec, name)
        })
    }

    /// The start failed.
    pub(super) fn failed(&mut self, reason: &'static str, message: String, now: Instant) {
        self.state = State::Waiting {
            reason,
            message,
            until: now + self.pauses.take(),
        };
    }

    /// The process ended. `again`: whether the pod's `restartPolicy` asks for a restart. Returns whether that waits: the
    /// container has failed before.
    pub(super) fn ended(
        &mut self,
        status: Option<std::process::ExitStatus>,
        again: impl Fn(i32) -> bool,
        now: Instant,
    ) -> bool {
        let State::Running { since, process, .. } = &self.state else {
            return false;
        };
        // Kill the rest of the process group, which would keep its ports in use.
        let _ = killpg(process.pid(), Signal::SIGKILL);
        let signal = status.and_then(|it| it.signal());
        // 128 plus the signal, as a shell reports it. The status of an adopted process is unknown.
        let code = status.and_then(|it| it.code());
        let code = code.unwrap_or(128 + signal.unwrap_or(9));
        let words = fs::read(self.words()).unwrap_or_default();
        let words = String::from_utf8_lossy(&words[..words.len().min(MOST_WORDS)]).into_owned();
        let ended = ContainerStateTerminated {
            exit_code: code,
            message: Some(words).filter(|it| !it.is_empty()),
            signal,
            reason: Some(if code == 0 { "Completed" } else { "Error" }.to_owned()),
            started_at: Some(Time(*since)),
            finished_at: Some(Time(Timestamp::now())),
            container_id: Some(self.id()),
        };
        if Timestamp::now().duration_since(*since).unsigned_abs() > LONG_LIFE {
            self.pauses.reset();
        }
        self.probers.clear();
        self.kill_at = None;
        let has_changed = mem::take(&mut self.has_changed);
        if !has_changed && !again(code) {
            self.state = State::Terminated(ended);
            return false;
        }
        self.last = Some(ended);
        self.restarts += 1;
        let at_once = self.restarts == 1 || has_changed;
        let pause = if at_once {
            Duration::ZERO
        } else {
            self.pauses.take()
        };
        self.state = State::Waiting {
            reason: "CrashLoopBackOff",
            message: format!("back-off {pause:?} restarting failed container"),
            until: now + pause,
        };
        !at_once
    }

    /// kubelet's message about a container that waits for its restart.
    pub(super) fn back_off(&self, pod: &Pod) -> String {
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        let metadata = &pod.metadata;
        let (name, namespace) = (text(&metadata.name), text(&metadata.namespace));
        format!(
            "Back-off restarting failed container {} in pod {name}_{namespace}({})",
            self.spec.name,
            text(&metadata.uid),
        )
    }

    /// Sends a signal to the process group.
    pub(super) fn signal(&self, signal: Signal) {
        if let State::Running { process, .. } = &self.state
            && process.is_running()
        {
            // The processes may end by themselves meanwhile.
            let _ = killpg(process.pid(), signal);
            if signal == Signal::SIGTERM && !process.handles(signal) {
                // Process 1 of a namespace would go on for the whole grace period, as in a real cluster.
                process.signal(Signal::SIGKILL);
            }
        }
    }

    /// The pod ends before the container could be started (again), as kubelet reports it.
    pub(super) fn never_ran(&mut self) {
        let ended = ContainerStateTerminated {
            exit_code: 137,
            reason: Some("ContainerStatusUnknown".to_owned()),
            message: Some(
                "The container could not be located when the pod was terminated".to_owned(),
            ),
            ..ContainerStateTerminated::default()
        };
        self.state = State::Terminated(self.last.take().unwrap_or(ended));
    }

    /// The present run is to end, and is killed at a time. Returns `false` where nothing runs, or a run that was asked before,
    /// whose time stays.
    pub(super) fn end_by(&mut self, at: Instant) -> bool {
        if !self.is_running() || self.is_ending() {
            return false;
        }
        self.kill_at = Some(at);
        true
    }

    /// Whether the present run was asked to end.
    pub(super) fn is_ending(&self) -> bool {
        self.kill_at.is_some()
    }

    /// Kills a run that was asked to end and took too long. Returns when that is due.
    pub(super) fn kill_late(&self, now: Instant) -> Option<Instant> {
        let at = self.kill_at?;
        if at > now {
            return Some(at);
        }
        self.signal(Signal::SIGKILL);
        None
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Whether the process runs, and the hook `postStart`, too.
    pub(super) fn is_starting(&self) -> bool {
        matches!(
            self.state,
            State::Running {
                starting: Some(_),
                ..
            }
        )
    }

    /// Whether the container is told to run.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Running { starting: None, .. })
    }

    /// Whether the container is told to run and its startup probe succeeded.
    pub(super) fn is_started(&self) -> bool {
        let mut startup = self.probers.iter().filter(|it| it.kind == Kind::Startup);
        self.is_up() && startup.all(|it| it.passed)
    }

    /// Whether an init container has succeeded.
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.state, State::Terminated(it) if it.exit_code == 0)
    }

    pub(super) fn is_ready(&self) -> bool {
        if self.role == Role::Init {
            return self.is_done();
        }
        let mut readiness = self.probers.iter().filter(|it| it.kind == Kind::Readiness);
        self.is_started() && readiness.all(|it| it.passed)
    }

    pub(super) fn status(&self) -> ContainerStatus {
        let waits = |reason: &str, message: &str| ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason.to_owned()),
                message: (!message.is_empty()).then(|| message.to_owned()),
            }),
            ..ContainerState::default()
        };
        let state = match &self.state {
            State::Waiting {
                reason, message, ..
            } => waits(reason, message),
            State::Running {
                starting: Some(reason),
                ..
            } => waits(reason, ""),
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
        let image = self.spec.image.clone().unwrap_or_default();
        let resources = self.spec.resources.clone().unwrap_or_default();
        let of_ended = |it: &ContainerStateTerminated| it.container_id.clone();
        ContainerStatus {
            name: self.spec.name.clone(),
            image_id: image.clone(),
            image,
            container_id: match &self.state {
                State::Running { starting: None, .. } => Some(self.id()),
                State::Terminated(ended) => of_ended(ended),
                _ => self.last.as_ref().and_then(of_ended),
            },
            ready: self.is_ready(),
            started: Some(self.is_started()),
            restart_count: self.restarts,
            allocated_resources: resources.requests.clone(),
            resources: Some(resources),
            state: Some(state),
            last_state: self.last.clone().map(|ended| ContainerState {
                terminated: Some(ended),
                ..ContainerState::default()
            }),
            ..ContainerStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_image_starts_a_container_again() {
        let folder = tempfile::tempdir().unwrap();
        let spec = |image: &str| Spec {
            name: "app".to_owned(),
            image: Some(image.to_owned()),
            ..Spec::default()
        };
        let now = Instant::now();
        let waiting = "ContainerCreating";
        let mut container = Container::new(spec("a"), Role::App, waiting, None, folder.path(), now);
        let mut command = Command::new("sleep");
        command.arg("1000");
        let started = container.start(command, None, &Pids::Same);
        let Started(mut child) = started.unwrap();
        assert!(!container.change(&spec("a"), now));
        assert!(container.change(&spec("b"), now));
        container.signal(Signal::SIGTERM);
        // It starts again whatever the policy says, and at once.
        assert!(!container.ended(child.wait().ok(), |_| false, now));
        assert!(matches!(container.state, State::Waiting { until, .. } if until == now));
        assert_eq!(
            (container.status().image, container.restarts),
            ("b".to_owned(), 1)
        );
    }

    #[test]
    fn other_resources_start_a_container_again_where_its_policy_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let spec = |cpu: &str, memory: &str| -> Spec {
            serde_json::from_value(json!({
                "name": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}},
                "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
            }))
            .unwrap()
        };
        let (now, waiting) = (Instant::now(), "ContainerCreating");
        let first = spec("1", "1Gi");
        let mut container = Container::new(first, Role::App, waiting, None, folder.path(), now);
        let mut command = Command::new("sleep");
        command.arg("1000");
        let Started(mut child) = container.start(command, None, &Pids::Same).unwrap();
        assert!(!container.change(&spec("2", "1Gi"), now));
        assert_eq!(container.status().resources, spec("2", "1Gi").resources);
        assert!(container.change(&spec("2", "2Gi"), now));
        container.signal(Signal::SIGKILL);
        child.wait().unwrap();
    }

    #[test]
    fn a_container_waits_until_its_hook_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let spec = Spec {
            name: "app".to_owned(),
            readiness_probe: Some(Default::default()),
            ..Spec::default()
        };
        let (now, waiting) = (Instant::now(), "PodInitializing");
        let mut container = Container::new(spec, Role::App, waiting, None, folder.path(), now);
        let mut command = Command::new("sleep");
        command.arg("1000");
        let Started(mut child) = container.start(command, None, &Pids::Same).unwrap();
        let status = container.status();
        let state = status.state.unwrap();
        let reason = state.waiting.and_then(|it| it.reason);
        assert_eq!(
            (reason.as_deref(), state.running),
            (Some("PodInitializing"), None)
        );
        assert_eq!((status.ready, status.started), (false, Some(false)));
        assert!(container.is_starting() && container.probers.is_empty());
        container.begun(now);
        assert!(container.is_up() && container.is_started() && !container.is_ready());
        assert!(container.status().state.unwrap().running.is_some());
        // Whoever asks it to end once more gives it no more time.
        let soon = now + Duration::from_secs(1);
        assert!(container.end_by(soon) && !container.end_by(soon + Duration::from_secs(1)));
        assert_eq!(container.kill_late(now), Some(soon));
        assert_eq!(container.kill_late(soon), None);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn each_restart_but_the_first_waits_and_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let spec = Spec {
            name: "app".to_owned(),
            ..Spec::default()
        };
        let now = Instant::now();
        let mut container = Container::new(
            spec,
            Role::App,
            "ContainerCreating",
            None,
            folder.path(),
            now,
        );
        let waits = [1, 2, 3].map(|_| {
            let started = container.start(Command::new("false"), None, &Pids::Same);
            let Started(mut child) = started.unwrap();
            container.ended(child.wait().ok(), |_| true, now)
        });
        assert_eq!(waits, [false, true, true]);
        let pod = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "1"}});
        // Each run has a name of its own.
        let status = container.status();
        let uid = folder.path().file_name().unwrap().display().to_string();
        assert_eq!(status.container_id, Some(format!("sluice://{uid}/app/2")));
        assert_eq!(
            container.back_off(&crate::object::typed::<Pod>(&pod).unwrap()),
            "Back-off restarting failed container app in pod web_ns(1)"
        );
    }
}
