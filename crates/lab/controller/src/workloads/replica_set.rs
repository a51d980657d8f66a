//! ReplicaSets: the desired number of pods (`pkg/controller/replicaset/replica_set.go`).

mod ranking;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
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
        conditions: set.status.as_ref().and_then(|it| it.conditions.clone()),
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
