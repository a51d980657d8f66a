//! The hooks of a container: `postStart` after the start of its process, `preStop` before SIGTERM (`startContainer` and
//! `killContainer` of `pkg/kubelet/kuberuntime`).

use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::LifecycleHandler;
use nix::sys::signal::Signal;
use sluice_lab::{LabError, Netns};

use super::{IDLE, News, Worker};
use crate::pods::prober::Question;

/// A field of `lifecycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pods) enum Hook {
    PostStart,
    PreStop,
}

/// What a hook does.
enum Work {
    Sleep(Duration),
    Ask(Box<Question>),
}

impl Worker {
    /// Starts the hook that follows the start of a container's process. Until it is done, the container is not told to run.
    pub(super) fn begin(&mut self, position: usize) {
        // kubelet waits without end. The hook's program ends with the container.
        if self.run_hook(position, Hook::PostStart, IDLE).is_none() {
            self.containers[position].begun(Instant::now());
        }
    }

    /// Asks a container to end, once in each run. Its hook and the container have `grace` together, then it is killed.
    pub(super) fn stop(&mut self, position: usize, grace: Duration) {
        if !self.containers[position].end_by(Instant::now() + grace) {
            return;
        }
        if grace.is_zero() || self.run_hook(position, Hook::PreStop, grace).is_none() {
            self.containers[position].signal(Signal::SIGTERM);
        }
    }

    /// Runs a hook on a thread of its own. `None`: the container has none, or one of no known kind, which the API refuses.
    fn run_hook(&self, position: usize, hook: Hook, most: Duration) -> Option<()> {
        let lifecycle = self.containers[position].spec.lifecycle.as_ref()?;
        let handler = match hook {
            Hook::PostStart => lifecycle.post_start.as_ref()?,
            Hook::PreStop => lifecycle.pre_stop.as_ref()?,
        };
        let work = self.work(position, handler)?;
        let (news, run) = (self.news.clone(), self.containers[position].run);
        let netns = self.netns();
        thread::spawn(move || {
            let done = match (work, netns) {
                (Work::Sleep(time), _) => {
                    #[expect(clippy::disallowed_methods, reason = "the hook")]
                    thread::sleep(time.min(most));
                    Ok(())
                }
                (Work::Ask(question), Ok(netns)) => question.ask(&netns, most),
                (Work::Ask(_), Err(error)) => Err(error.to_string()),
            };
            // The worker may have ended.
            let _ = news.send(News::Hooked {
                container: position,
                run,
                hook,
                done,
            });
        });
        Some(())
    }

    /// A hook of run `run` of a container is done.
    pub(super) fn hooked(
        &mut self,
        position: usize,
        run: u64,
        hook: Hook,
        done: Result<(), String>,
    ) {
        let container = &mut self.containers[position];
        if container.run != run || !container.is_running() {
            return;
        }
        match hook {
            Hook::PostStart if done.is_ok() => container.begun(Instant::now()),
            Hook::PostStart => self.stop(position, self.grace_of_spec()),
            Hook::PreStop => container.signal(Signal::SIGTERM),
        }
        let Err(why) = done else { return };
        let text = format!("{hook:?}Hook failed: {why}");
        let reason = format!("Failed{hook:?}Hook");
        self.report.event(&self.pod, &reason, &text, true);
        if hook == Hook::PostStart {
            self.report.event(&self.pod, "Killing", &reason, false);
        }
    }

    /// The network of the pod's node, from which kubelet asks.
    pub(super) fn netns(&self) -> Result<Netns, LabError> {
        let node = self
            .pod
            .spec
            .as_ref()
            .and_then(|it| it.node_name.as_deref());
        self.machines.netns(node.unwrap_or_default())
    }

    /// `terminationGracePeriodSeconds` of the pod.
    pub(super) fn grace_of_spec(&self) -> Duration {
        let spec = self.pod.spec.as_ref();
        let grace = spec.and_then(|it| it.termination_grace_period_seconds);
        Duration::from_secs(grace.and_then(|it| it.try_into().ok()).unwrap_or(30))
    }

    fn work(&self, position: usize, handler: &LifecycleHandler) -> Option<Work> {
        if let Some(it) = &handler.sleep {
            return Some(Work::Sleep(Duration::from_secs(
                it.seconds.try_into().ok()?,
            )));
        }
        if let Some(words) = handler.exec.as_ref().and_then(|it| it.command.as_deref()) {
            let (command, pids) = self.inside(position, words);
            return Some(Work::Ask(Box::new(Question::Exec(command, pids))));
        }
        let ip = self.addresses?[0];
        let spec = &self.containers[position].spec;
        let question = Question::http(handler.http_get.as_ref()?, spec, ip)?;
        Some(Work::Ask(Box::new(question)))
    }
}
