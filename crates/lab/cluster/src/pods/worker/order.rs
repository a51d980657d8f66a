//! Which containers run when: init containers one after the other, sidecars until the others have ended
//! (`pkg/kubelet/kuberuntime/kuberuntime_container.go`, `computeInitContainerActions`).

use std::path::Path;
use std::time::Instant;

use k8s_openapi::api::core::v1::{Container as Spec, Pod, PodStatus};

use super::Worker;
use crate::pods::container::{Container, Role, State};

/// The containers of a pod, in the order of their starts.
pub(super) fn containers(pod: &Pod, folder: &Path) -> Vec<Container> {
    let (now, none) = (Instant::now(), PodStatus::default());
    let told = pod.status.as_ref().unwrap_or(&none);
    let told = told
        .init_container_statuses
        .iter()
        .chain(&told.container_statuses)
        .chain(&told.ephemeral_container_statuses);
    let told: Vec<_> = told.flatten().collect();
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|it| it.init_containers.as_deref());
    let init = init.unwrap_or_default();
    let reason = match init {
        [] => "ContainerCreating",
        _ => "PodInitializing",
    };
    let init = init.iter().map(|it| match it.restart_policy.as_deref() {
        Some("Always") => (it, Role::Sidecar),
        _ => (it, Role::Init),
    });
    let apps = spec.into_iter().flat_map(|it| &it.containers);
    let all = init.chain(apps.map(|it| (it, Role::App)));
    let all = all.map(|(it, role)| (it.clone(), role));
    let all = all.chain(ephemeral(pod).map(|it| (it, Role::Ephemeral)));
    let all = all.map(|(it, role)| {
        let told = told.iter().find(|told| told.name == it.name);
        Container::new(it, role, reason, told.copied(), folder, now)
    });
    all.collect()
}

/// The ephemeral containers of a pod. They have the fields of all containers, and one more.
fn ephemeral(pod: &Pod) -> impl Iterator<Item = Spec> {
    let spec = pod.spec.as_ref();
    let all = spec.and_then(|it| it.ephemeral_containers.as_deref());
    let all = all.unwrap_or_default().iter();
    all.filter_map(|it| serde_json::from_value(serde_json::to_value(it).ok()?).ok())
}

impl Worker {
    /// Takes in the ephemeral containers that the pod did not have before.
    pub(super) fn take_ephemeral(&mut self, now: Instant) {
        let folder = self.machines.lab_dir().pod(&self.uid);
        for it in ephemeral(&self.pod) {
            if self
                .containers
                .iter()
                .all(|known| known.spec.name != it.name)
            {
                let made =
                    Container::new(it, Role::Ephemeral, "ContainerCreating", None, &folder, now);
                self.containers.push(made);
            }
        }
    }

    /// Whether a container may be started: all before it have ended, or run where they are sidecars. Volumes come first, and
    /// the hook `postStart` of whatever was started last.
    pub(super) fn may_start(&self, position: usize) -> bool {
        let container = &self.containers[position];
        let is_early = self.retry_at.is_some() && container.run == 0;
        if is_early || self.containers.iter().any(Container::is_starting) {
            return false;
        }
        if container.role == Role::Ephemeral {
            return container.run == 0;
        }
        if self.initialized {
            return container.role == Role::App
                || container.role == Role::Sidecar && !self.is_complete();
        }
        self.containers[..position].iter().all(|it| match it.role {
            Role::Init => it.is_done(),
            Role::Sidecar => it.is_started(),
            Role::App | Role::Ephemeral => true,
        })
    }

    /// Whether a container is started again after it ended with a code.
    pub(super) fn restarts(&self, position: usize) -> impl Fn(i32) -> bool + use<> {
        let policy = self.pod.spec.as_ref();
        let policy = policy.and_then(|it| it.restart_policy.clone());
        let role = self.containers[position].role;
        let is_ending = self.deadline.is_some() || self.is_complete();
        move |code| match (role, policy.as_deref()) {
            _ if is_ending || role == Role::Ephemeral => false,
            (Role::Sidecar, _) => true,
            (Role::Init, Some("Never")) => false,
            (Role::Init, _) => code != 0,
            (Role::App, Some("Never")) => false,
            (Role::App, Some("OnFailure")) => code != 0,
            (Role::App | Role::Ephemeral, _) => true,
        }
    }

    /// Whether the pod has done its work: all containers but sidecars have ended for good.
    pub(super) fn is_complete(&self) -> bool {
        let ended = |it: &Container| matches!(it.state, State::Terminated(_));
        let failed = |it: &Container| it.role == Role::Init && ended(it) && !it.is_done();
        let mut apps = self.containers.iter().filter(|it| it.role == Role::App);
        apps.all(ended) || self.containers.iter().any(failed)
    }

    /// Ends the sidecars once nothing else of a pod runs that has done its work or is being deleted. The last one ends first,
    /// each before the one that was started before it.
    pub(super) fn end_sidecars(&mut self) {
        if self.deadline.is_none() && !self.is_complete() {
            return;
        }
        let is_busy = |it: &Container| it.role != Role::Sidecar && it.is_running();
        if self.containers.iter().any(is_busy) {
            return;
        }
        let now = Instant::now();
        let grace = match self.deadline {
            Some(it) => it.saturating_duration_since(now),
            None => self.grace_of_spec(),
        };
        for position in (0..self.containers.len()).rev() {
            let it = &mut self.containers[position];
            if it.role != Role::Sidecar {
                continue;
            }
            if it.is_running() {
                return self.stop(position, grace);
            }
            if matches!(it.state, State::Waiting { .. }) {
                it.never_ran();
            }
        }
    }
}
