//! ReplicaSets: the desired number of pods (`pkg/controller/replicaset/replica_set.go`).

mod ranking;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;

use super::counts::count;
use super::plan::Plan;
use super::{Cluster, ownership, pods};
use crate::selector::has_all;

/// Plans the writes for one ReplicaSet.
pub(super) fn reconcile(cluster: &Cluster, set: &ReplicaSet, plan: &mut Plan) {
    let Some(spec) = &set.spec else {
        return;
    };
    let active = ownership::claim(set, &spec.selector, &cluster.pods, pods::is_active, plan);
    if set.metadata.deletion_timestamp.is_none() && !plan.deletes(set) {
        scale(cluster, set, &active, plan);
    }
    write_status(cluster, set, &active, plan);
}

/// Creates missing pods, or deletes surplus ones.
fn scale(cluster: &Cluster, set: &ReplicaSet, active: &[&Pod], plan: &mut Plan) {
    let spec = set.spec.as_ref();
    let wanted = spec.and_then(|it| it.replicas).unwrap_or(1);
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let template = spec.and_then(|it| it.template.as_ref());
    for index in active.len()..wanted {
        let mut pod = pods::from_template(template.unwrap_or(&Default::default()), set);
        pods::name(&mut pod, set, index, cluster, plan);
        pods::create(set, pod, plan);
    }
    if active.len() > wanted {
        let mut ranked = active.to_vec();
        ranking::first_to_go(&mut ranked, &siblings(cluster, set), plan.now());
        for pod in &ranked[..active.len() - wanted] {
            pods::delete(set, pod, plan);
        }
    }
}

/// The active pods of all ReplicaSets with the same controller (`getIndirectlyRelatedPods`).
fn siblings<'a>(cluster: &'a Cluster, set: &ReplicaSet) -> Vec<&'a Pod> {
    let controller = ownership::controller(&set.metadata).map(|it| &it.uid);
    let sets = cluster.replica_sets.iter().filter(|it| {
        let other = ownership::controller(&it.metadata).map(|it| &it.uid);
        it.metadata.uid == set.metadata.uid || controller.is_some() && other == controller
    });
    let pods = sets.flat_map(|set| {
        let pods = cluster.pods.iter();
        pods.filter(|it| ownership::is_controlled_by(&it.metadata, &**set))
    });
    pods.map(|it| &**it)
        .filter(|it| pods::is_active(it))
        .collect()
}

/// The conditions, with ReplicaFailure while pods are missing that the API refuses (`calculateStatus`).
fn conditions(set: &ReplicaSet, active: usize, plan: &Plan) -> Option<Vec<ReplicaSetCondition>> {
    const FAILURE: &str = "ReplicaFailure";
    let old = set.status.as_ref().and_then(|it| it.conditions.as_ref());
    let wanted = set.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1);
    let is_short = usize::try_from(wanted).is_ok_and(|it| it > active);
    let failure = plan.failure(set).filter(|_| is_short);
    let known = old.into_iter().flatten().find(|it| it.type_ == FAILURE);
    let failure = failure.map(|message| match known {
        Some(known) => known.clone(),
        None => ReplicaSetCondition {
            last_transition_time: Some(plan.time()),
            message: Some(message.to_owned()),
            reason: Some("FailedCreate".to_owned()),
            status: "True".to_owned(),
            type_: FAILURE.to_owned(),
        },
    });
    let others = old.into_iter().flatten().filter(|it| it.type_ != FAILURE);
    let all: Vec<_> = others.cloned().chain(failure).collect();
    (!all.is_empty()).then_some(all)
}

fn write_status(cluster: &Cluster, set: &ReplicaSet, active: &[&Pod], plan: &mut Plan) {
    let spec = set.spec.as_ref();
    let min_ready_seconds = spec.and_then(|it| it.min_ready_seconds);
    let template = spec.and_then(|it| it.template.as_ref());
    let template = template.and_then(|it| it.metadata.as_ref()?.labels.as_ref());
    let labelled = active.iter().filter(|it| {
        let labels = it.metadata.labels.as_ref();
        template.is_none_or(|wanted| has_all(labels, wanted))
    });
    let terminating = cluster.pods.iter().filter(|it| {
        pods::is_terminating(it)
            && !pods::is_finished(it)
            && ownership::is_controlled_by(&it.metadata, set)
    });
    let available = active
        .iter()
        .filter(|it| pods::is_available(it, min_ready_seconds, plan));
    let status = ReplicaSetStatus {
        available_replicas: Some(count(available)),
        conditions: conditions(set, active.len(), plan),
        fully_labeled_replicas: Some(count(labelled)),
        observed_generation: set.metadata.generation,
        ready_replicas: Some(count(active.iter().filter(|it| pods::is_ready(it)))),
        replicas: count(active),
        terminating_replicas: Some(count(terminating)),
    };
    let mut after = set.clone();
    after.status = Some(status);
    plan.update_status(set, after);
}
