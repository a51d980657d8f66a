//! StatefulSets: numbered pods with claims of their own (`pkg/controller/statefulset/stateful_set_control.go`).

mod claims;
mod identity;
mod status;
mod update;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{
    ControllerRevision, StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};

use super::plan::Plan;
use super::revisions::{self, Owner, Revisions};
use super::{Cluster, ownership, pods};
use crate::meta;

/// A StatefulSet, with values that its rules need.
struct Set<'a> {
    object: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    /// Pods with a desired ordinal, by ordinal.
    pods: BTreeMap<i32, &'a Pod>,
    /// The other pods, highest ordinal first.
    condemned: Vec<&'a Pod>,
    /// The revision before the update; after a complete update the same as `update`.
    current: ControllerRevision,
    /// The revision of the present template.
    update: ControllerRevision,
}

/// Plans the writes for one StatefulSet.
pub(super) fn reconcile(cluster: &Cluster, object: &StatefulSet, plan: &mut Plan) {
    let Some(spec) = &object.spec else {
        return;
    };
    let owner = Owner {
        object,
        selector: &spec.selector,
        template: &spec.template,
        collisions: object.status.as_ref().and_then(|it| it.collision_count),
    };
    let revisions = revisions::synchronize(
        cluster,
        &owner,
        |it| &mut it.status.get_or_insert_default().collision_count,
        plan,
    );
    let Some(revisions) = revisions else {
        return;
    };
    let is_member = |it: &Pod| identity::ordinal(object, it).is_some();
    let own = ownership::claim(object, &spec.selector, &cluster.pods, is_member, plan);
    let set = Set::new(object, spec, &own, &revisions);
    if object.metadata.deletion_timestamp.is_none() && !plan.deletes(object) {
        step(cluster, &set, plan);
    }
    clean_up(&set, &own, &revisions, plan);
    status::write(&set, plan);
}

impl<'a> Set<'a> {
    fn new(
        object: &'a StatefulSet,
        spec: &'a StatefulSetSpec,
        own: &[&'a Pod],
        revisions: &Revisions<'_>,
    ) -> Self {
        let update = &revisions.update;
        let status = object.status.as_ref();
        let current = status.and_then(|it| it.current_revision.as_deref());
        let all = revisions.all.iter();
        let current = all.copied().find(|it| Some(revisions::name(it)) == current);
        let mut set = Self {
            object,
            spec,
            pods: BTreeMap::new(),
            condemned: Vec::new(),
            current: current.unwrap_or(update).clone(),
            update: update.clone(),
        };
        for pod in own {
            match identity::ordinal(object, pod) {
                Some(it) if set.ordinals().contains(&it) => {
                    set.pods.insert(it, pod);
                }
                _ => set.condemned.push(pod),
            }
        }
        let order = |it: &&Pod| identity::ordinal(object, it);
        set.condemned.sort_by_key(|it| std::cmp::Reverse(order(it)));
        set
    }

    /// The desired ordinals.
    fn ordinals(&self) -> std::ops::Range<i32> {
        let start = self.spec.ordinals.as_ref().and_then(|it| it.start);
        let start = start.unwrap_or(0);
        start..start.saturating_add(self.replicas())
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Whether each pod waits for the one before (`OrderedReady`).
    fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    /// Whether a pod runs, has been ready for `minReadySeconds`, and is not terminating.
    fn is_available(&self, pod: &Pod, plan: &mut Plan) -> bool {
        is_running_and_ready(pod)
            && !pods::is_terminating(pod)
            && pods::is_available(pod, self.spec.min_ready_seconds, plan)
    }

    /// The lowest ordinal that is updated.
    fn partition(&self) -> i32 {
        let strategy = self.spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|it| it.rolling_update.as_ref());
        rolling.and_then(|it| it.partition).unwrap_or(0)
    }

    /// Whether claims go on one of the two occasions of `persistentVolumeClaimRetentionPolicy`.
    fn deletes_claims(
        &self,
        when: impl Fn(&StatefulSetPersistentVolumeClaimRetentionPolicy) -> &Option<String>,
    ) -> bool {
        let policy = &self.spec.persistent_volume_claim_retention_policy;
        policy.as_ref().and_then(|it| when(it).as_deref()) == Some("Delete")
    }

    fn is_on_delete(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref();
        strategy.and_then(|it| it.type_.as_deref()) == Some("OnDelete")
    }

    fn message(&self, verb: &str, pod: &Pod) -> String {
        let (pod, set) = (meta::name(&pod.metadata), meta::name(&self.object.metadata));
        format!("{verb} Pod {pod} in StatefulSet {set} successful")
    }

    /// The revision of a new pod with this ordinal, and its template (`newVersionedStatefulSetPod`).
    fn revision(&self, ordinal: i32) -> (&str, PodTemplateSpec) {
        let keeps = !self.is_on_delete() && ordinal < self.ordinals().start + self.partition();
        let old = keeps.then(|| revisions::template(&self.current)).flatten();
        match old {
            Some(template) => (revisions::name(&self.current), template),
            None => (revisions::name(&self.update), self.spec.template.clone()),
        }
    }
}

fn is_running_and_ready(pod: &Pod) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod)
}

/// Creates missing pods, then deletes surplus ones, then updates.
fn step(cluster: &Cluster, set: &Set<'_>, plan: &mut Plan) {
    if fill(cluster, set, plan) && shrink(cluster, set, plan) && !set.is_on_delete() {
        update::update(set, plan);
    }
}

/// Creates missing pods in order, and deletes finished ones. Returns whether the next step may follow
/// (`processReplica`).
fn fill(cluster: &Cluster, set: &Set<'_>, plan: &mut Plan) -> bool {
    for ordinal in set.ordinals() {
        let is_done = match set.pods.get(&ordinal) {
            None => {
                create(cluster, set, ordinal, plan);
                false
            }
            Some(pod) if pods::is_finished(pod) => {
                delete(set, pod, plan);
                false
            }
            Some(pod) => {
                identity::restore(set.object, pod, ordinal, plan);
                claims::keep(cluster, set, pod, plan);
                set.is_available(pod, plan)
            }
        };
        if !is_done && set.is_ordered() {
            return false;
        }
    }
    true
}

/// Deletes pods with surplus ordinals, the highest first. When ordered, one at a time, and only while all other pods
/// are available (`processCondemned`). Returns whether the next step may follow.
fn shrink(cluster: &Cluster, set: &Set<'_>, plan: &mut Plan) -> bool {
    for pod in &set.condemned {
        claims::keep(cluster, set, pod, plan);
    }
    let mut lowest_first = set.condemned.iter().rev();
    let unavailable = lowest_first.find(|it| !set.is_available(it, plan)).copied();
    for pod in &set.condemned {
        if !set.is_ordered() {
            delete(set, pod, plan);
            continue;
        }
        let waits = !set.is_available(pod, plan)
            && unavailable.is_some_and(|it| it.metadata.uid != pod.metadata.uid);
        if !waits {
            delete(set, pod, plan);
        }
        return false;
    }
    true
}

fn create(cluster: &Cluster, set: &Set<'_>, ordinal: i32, plan: &mut Plan) {
    let pod = identity::pod(set, ordinal);
    let is_taken = cluster.pods.iter().any(|it| {
        it.metadata.namespace == pod.metadata.namespace && it.metadata.name == pod.metadata.name
    });
    if is_taken {
        // A pod of another controller has the name: wait for its end.
        return;
    }
    if claims::create(cluster, set, ordinal, plan) && plan.may_create(set.object) {
        let message = set.message("create", &pod);
        plan.create(pod);
        plan.event(set.object, "SuccessfulCreate", message);
    }
}

fn delete(set: &Set<'_>, pod: &Pod, plan: &mut Plan) {
    if plan.delete(pod) {
        plan.event(set.object, "SuccessfulDelete", set.message("delete", pod));
    }
}

fn clean_up(set: &Set<'_>, own: &[&Pod], revisions: &Revisions<'_>, plan: &mut Plan) {
    let mut live: BTreeSet<&str> = own.iter().map(|it| identity::revision(it)).collect();
    live.insert(revisions::name(&set.current));
    live.insert(revisions::name(&set.update));
    let limit = set.spec.revision_history_limit;
    revisions::clean_up(&revisions.all, &live, limit, plan);
}
