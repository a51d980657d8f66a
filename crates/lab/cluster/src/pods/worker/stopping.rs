//! The end of a container that is asked to end: its hook `preStop`, then SIGTERM (`killContainer` of
//! `pkg/kubelet/kuberuntime/kuberuntime_container.go`).

use std::thread;
use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use nix::sys::signal::Signal;

use super::{News, Worker};
use crate::pods::prober::Question;

/// What a hook does.
enum Hook {
    Sleep(Duration),
    Ask(Box<Question>),
}

impl Worker {
    /// Asks a container to end, once in each run. Its hook has `grace` at most, as the container has.
    pub(super) fn stop(&mut self, position: usize, grace: Duration) {
        if !self.containers[position].is_asked_to_end() {
            return;
        }
        let spec = &self.containers[position].spec;
        let hook = spec.lifecycle.as_ref().and_then(|it| it.pre_stop.clone());
        let hook = hook.filter(|_| !grace.is_zero());
        let Some(hook) = hook.and_then(|it| self.hook(position, &it)) else {
            return self.containers[position].signal(Signal::SIGTERM);
        };
        let (news, run) = (self.news.clone(), self.containers[position].run);
        let node = self.pod.spec.as_ref().and_then(|it| it.node_name.clone());
        let netns = self.machines.netns(&node.unwrap_or_default());
        thread::spawn(move || {
            let done = match (hook, netns) {
                (Hook::Sleep(time), _) => {
                    #[expect(clippy::disallowed_methods, reason = "the hook")]
                    thread::sleep(time.min(grace));
                    Ok(())
                }
                (Hook::Ask(question), Ok(netns)) => question.ask(&netns, grace),
                (Hook::Ask(_), Err(error)) => Err(error.to_string()),
            };
            // The worker may have ended.
            let _ = news.send(News::Hooked {
                container: position,
                run,
                done,
            });
        });
    }

    /// The hook of run `run` of a container is done.
    pub(super) fn hooked(&mut self, position: usize, run: u64, done: Result<(), String>) {
        let container = &self.containers[position];
        if container.run != run || !container.is_running() {
            return;
        }
        container.signal(Signal::SIGTERM);
        if let Err(why) = done {
            let text = format!("PreStopHook failed: {why}");
            self.report
                .event(&self.pod, "FailedPreStopHook", &text, true);
        }
    }

    /// `None` for a handler of no known kind, which the API refuses.
    fn hook(&self, position: usize, handler: &LifecycleHandler) -> Option<Hook> {
        if let Some(it) = &handler.sleep {
            return Some(Hook::Sleep(Duration::from_secs(
                it.seconds.try_into().ok()?,
            )));
        }
        if let Some(words) = handler.exec.as_ref().and_then(|it| it.command.as_deref()) {
            let (command, pids) = self.inside(position, words);
            return Some(Hook::Ask(Box::new(Question::Exec(command, pids))));
        }
        let ip = self.addresses?[0];
        let spec = &self.containers[position].spec;
        let question = Question::http(handler.http_get.as_ref()?, spec, ip)?;
        Some(Hook::Ask(Box::new(question)))
    }
}
