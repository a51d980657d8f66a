//! The ReplicaSets of a Deployment with their pods, before and after the plan.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use sluice_model::NamespacedName;

use super::super::counts::count;
use super::super::plan::Plan;
use super::super::template::is_equal_without_hash;
use super::super::{Cluster, ownership, pods};
use super::annotations;
use crate::meta;

/// A ReplicaSet. Numbers of pods are counted, not taken from the status, which may be older.
pub(super) struct Replicas<'a> {
    /// The ReplicaSet in the store.
    before: &'a ReplicaSet,
    /// The ReplicaSet that the plan makes of it.
    pub(super) after: ReplicaSet,
    active: i32,
    ready: i32,
    available: i32,
    terminating: i32,
    /// Pods whose containers may run, terminating ones included.
    pub(super) running: i32,
}

/// The ReplicaSets of a Deployment.
pub(super) struct Sets<'a> {
    cluster: &'a Cluster,
    /// The ReplicaSet of the present template.
    pub(super) newest: Option<Replicas<'a>>,
    /// The other ReplicaSets, oldest first.
    pub(super) old: Vec<Replicas<'a>>,
    /// A ReplicaSet that this plan creates.
    pub(super) created: Option<ReplicaSet>,
    /// Whether another object has the name that the newest ReplicaSet needs.
    pub(super) collides: bool,
}

impl<'a> Replicas<'a> {
    fn read(cluster: &Cluster, set: &'a ReplicaSet, plan: &mut Plan) -> Self {
        let min_ready = set.spec.as_ref().and_then(|it| it.min_ready_seconds);
        let own = cluster.pods.iter();
        let own = own.filter(|it| ownership::is_controlled_by(&it.metadata, set));
        let own: Vec<&Pod> = own
            .map(|it| &**it)
            .filter(|it| !pods::is_finished(it))
            .collect();
        let active: Vec<&Pod> = own
            .iter()
            .copied()
            .filter(|it| pods::is_active(it))
            .collect();
        let available = active
            .iter()
            .filter(|it| pods::is_available(it, min_ready, plan));
        Self {
            before: set,
            after: set.clone(),
            available: count(available),
            ready: count(active.iter().filter(|it| pods::is_ready(it))),
            active: count(&active),
            terminating: count(&own) - count(&active),
            running: count(&own),
        }
    }

    /// The planned `spec.replicas`.
    pub(super) fn wanted(&self) -> i32 {
        let spec = self.after.spec.as_ref();
        spec.and_then(|it| it.replicas).unwrap_or(1)
    }

    /// The number of pods that exist or are planned.
    pub(super) fn existing(&self) -> i32 {
        self.wanted().max(self.active)
    }

    /// The number of pods that are not terminating.
    pub(super) fn active(&self) -> i32 {
        self.active
    }

    pub(super) fn ready(&self) -> i32 {
        self.ready
    }

    pub(super) fn available(&self) -> i32 {
        self.available
    }

    pub(super) fn terminating(&self) -> i32 {
        self.terminating
    }

    /// Available pods that stay: no more than desired, because the others will be deleted.
    pub(super) fn staying(&self) -> i32 {
        self.available.min(self.wanted())
    }

    pub(super) fn name(&self) -> &str {
        meta::name(&self.before.metadata)
    }

    /// Sets `spec.replicas` and writes an Event. Returns whether it changed.
    pub(super) fn resize(
        &mut self,
        rollout: &super::Rollout<'_>,
        to: i32,
        plan: &mut Plan,
    ) -> bool {
        let from = self.wanted();
        annotations::set_sizes(&mut self.after, rollout);
        if from == to {
            return false;
        }
        self.after.spec.get_or_insert_default().replicas = Some(to);
        super::announce(rollout.deployment, self.before, from, to, plan);
        true
    }

    /// Plans the write if anything changed.
    pub(super) fn write(&self, plan: &mut Plan) {
        if !plan.deletes(self.before) {
            plan.update(self.before, self.after.clone());
        }
    }
}

impl<'a> Sets<'a> {
    /// Finds the ReplicaSets of a Deployment; adopts and releases ReplicaSets.
    pub(super) fn read(cluster: &'a Cluster, deployment: &Deployment, plan: &mut Plan) -> Self {
        let spec = deployment.spec.as_ref();
        let selector = spec.map(|it| it.selector.clone()).unwrap_or_default();
        let template = spec.map(|it| it.template.clone()).unwrap_or_default();
        let own = &cluster.replica_sets;
        let mut own = ownership::claim(deployment, &selector, own, |_| true, plan);
        own.sort_by_key(|it| {
            let created = it.metadata.creation_timestamp.as_ref();
            (created.map(|it| it.0), it.metadata.name.clone())
        });
        let is_newest = |set: &&ReplicaSet| {
            let own = set.spec.as_ref().and_then(|it| it.template.as_ref());
            own.is_some_and(|it| is_equal_without_hash(it, &template))
        };
        let newest = own.iter().position(is_newest).map(|at| own.remove(at));
        Self {
            cluster,
            newest: newest.map(|it| Replicas::read(cluster, it, plan)),
            old: own
                .into_iter()
                .map(|it| Replicas::read(cluster, it, plan))
                .collect(),
            created: None,
            collides: false,
        }
    }

    /// Whether a ReplicaSet of this name exists.
    pub(super) fn is_taken(&self, name: &NamespacedName) -> bool {
        let mut sets = self.cluster.replica_sets.iter();
        sets.any(|it| meta::key(&it.metadata) == *name)
    }

    /// All ReplicaSets, the newest last.
    pub(super) fn all(&self) -> impl Iterator<Item = &Replicas<'a>> {
        self.old.iter().chain(&self.newest)
    }

    /// All ReplicaSets, the newest last.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Replicas<'a>> {
        self.old.iter_mut().chain(&mut self.newest)
    }

    /// The sum of a number over all ReplicaSets.
    pub(super) fn total(&self, number: impl Fn(&Replicas<'a>) -> i32) -> i32 {
        self.all().map(number).sum()
    }

    /// Deletes the oldest ReplicaSets without pods until `limit` are left (`cleanupDeployment`,
    /// `pkg/controller/deployment/sync.go`). `None` keeps all.
    pub(super) fn clean_up(&self, limit: Option<i32>, plan: &mut Plan) {
        let Some(limit) = limit.filter(|it| *it != i32::MAX) else {
            return;
        };
        let mut old: Vec<_> = self.old.iter().collect();
        old.sort_by_key(|it| annotations::revision(&it.after.metadata));
        let surplus = old
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        for set in &old[..surplus] {
            if set.wanted() == 0 && set.running == 0 {
                plan.delete(set.before);
            }
        }
    }
}
