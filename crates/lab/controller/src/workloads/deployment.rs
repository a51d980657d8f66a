//! Deployments: one ReplicaSet for each template, and pods that move from one to the next
//! (`pkg/controller/deployment/deployment_controller.go`, `sync.go`).

mod annotations;
mod recreate;
mod rolling;
mod scale;
mod sets;
mod status;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use self::sets::{Replicas, Sets};
use super::Cluster;
use super::counts::{Rounding, scaled};
use super::plan::Plan;

/// How pods are replaced, with numbers for the desired replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    /// All old pods end before the first new pod starts.
    Recreate,
    /// Pods are replaced a few at a time.
    Rolling {
        /// Most pods beyond the desired replicas.
        surge: i32,
        /// Most desired replicas that may be unavailable.
        unavailable: i32,
    },
}

/// A Deployment with the numbers that its rules use.
#[derive(Clone, Copy, Debug)]
struct Rollout<'a> {
    deployment: &'a Deployment,
    /// The desired replicas.
    replicas: i32,
    strategy: Strategy,
}

/// Plans the writes for one Deployment.
pub(super) fn reconcile(cluster: &Cluster, deployment: &Deployment, plan: &mut Plan) {
    let Some(spec) = &deployment.spec else {
        return;
    };
    let rollout = Rollout::new(deployment);
    let mut sets = Sets::read(cluster, deployment, plan);
    if deployment.metadata.deletion_timestamp.is_some() {
        status::write(&rollout, &sets, status::Progress::Ignored, plan);
        return;
    }
    annotations::synchronize(&rollout, &mut sets);
    let is_paused = spec.paused == Some(true);
    let progress = if is_paused || scale::is_needed(&rollout, &sets) {
        scale::scale(&rollout, &mut sets, plan);
        if is_paused {
            sets.clean_up(spec.revision_history_limit, plan);
        }
        status::Progress::Ignored
    } else {
        let outcome = match rollout.strategy {
            Strategy::Recreate => recreate::roll(&rollout, &mut sets, plan),
            Strategy::Rolling { .. } => rolling::roll(&rollout, &mut sets, plan),
        };
        if status::is_complete(&rollout, &sets) {
            sets.clean_up(spec.revision_history_limit, plan);
        }
        outcome
    };
    for set in sets.all() {
        set.write(plan);
    }
    annotations::write_revision(deployment, &sets, plan);
    status::write(&rollout, &sets, progress, plan);
}

impl<'a> Rollout<'a> {
    fn new(deployment: &'a Deployment) -> Self {
        let spec = deployment.spec.as_ref();
        let replicas = spec.and_then(|it| it.replicas).unwrap_or(1);
        let strategy = spec.and_then(|it| it.strategy.as_ref());
        let rolling = strategy.and_then(|it| it.rolling_update.as_ref());
        let quarter = || IntOrString::String("25%".to_owned());
        let strategy = match strategy.and_then(|it| it.type_.as_deref()) {
            Some("Recreate") => Strategy::Recreate,
            _ => {
                let surge = rolling.and_then(|it| it.max_surge.clone());
                let unavailable = rolling.and_then(|it| it.max_unavailable.clone());
                Strategy::rolling(
                    &surge.unwrap_or_else(quarter),
                    &unavailable.unwrap_or_else(quarter),
                    replicas,
                )
            }
        };
        Self {
            deployment,
            replicas,
            strategy,
        }
    }

    /// Most replicas that may be unavailable; 0 with `Recreate` (`MaxUnavailable`, `util/deployment_util.go`).
    fn max_unavailable(&self) -> i32 {
        match self.strategy {
            Strategy::Recreate => 0,
            Strategy::Rolling { unavailable, .. } => unavailable.min(self.replicas),
        }
    }

    /// Most pods that may exist.
    fn most(&self) -> i32 {
        match self.strategy {
            Strategy::Recreate => self.replicas,
            Strategy::Rolling { surge, .. } => self.replicas.saturating_add(surge),
        }
    }

    /// `spec.progressDeadlineSeconds`; `None` for the largest number (`HasProgressDeadline`).
    fn progress_deadline(&self) -> Option<i32> {
        let spec = self.deployment.spec.as_ref()?;
        let seconds = spec.progress_deadline_seconds;
        seconds.filter(|it| *it != i32::MAX)
    }

    /// The replicas that the newest ReplicaSet may have (`NewRSNewReplicas`, `util/deployment_util.go`).
    fn replicas_of_newest(&self, newest: Option<&Replicas<'_>>, sets: &Sets<'_>) -> i32 {
        let current = newest.map_or(0, Replicas::wanted);
        match self.strategy {
            Strategy::Recreate => self.replicas,
            Strategy::Rolling { .. } => {
                let room = self.most() - sets.total(Replicas::existing);
                let missing = self.replicas - current;
                current + room.max(0).min(missing)
            }
        }
    }
}

impl Strategy {
    /// The surge is rounded up, the unavailable replicas down. When both are 0 no pod could ever be replaced: then one
    /// may be unavailable (`ResolveFenceposts`, `util/deployment_util.go`).
    fn rolling(surge: &IntOrString, unavailable: &IntOrString, replicas: i32) -> Self {
        let surge = scaled(surge, replicas, Rounding::Up);
        let unavailable = scaled(unavailable, replicas, Rounding::Down);
        let unavailable = match (surge, unavailable) {
            (0, 0) => 1,
            _ => unavailable,
        };
        Self::Rolling { surge, unavailable }
    }
}

/// Writes an Event about a ReplicaSet's new size.
fn announce(deployment: &Deployment, set: &ReplicaSet, from: i32, to: i32, plan: &mut Plan) {
    let name = crate::meta::name(&set.metadata);
    let direction = if to > from { "up" } else { "down" };
    let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
    plan.event(deployment, "ScalingReplicaSet", message);
}
