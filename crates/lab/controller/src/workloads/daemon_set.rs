//! DaemonSets: one pod on each node that fits (`pkg/controller/daemon/daemon_controller.go`).

mod nodes;
mod status;
mod update;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use self::nodes::Verdict;
use super::counts::{Rounding, count, scaled};
use super::plan::Plan;
use super::revisions::{self, Owner, REVISION_HASH, Revisions};
use super::{Cluster, ownership, pods};
use crate::meta;

/// A DaemonSet, with values that its rules need.
struct Set<'a> {
    cluster: &'a Cluster,
    object: &'a DaemonSet,
    spec: &'a DaemonSetSpec,
    /// The revision label of pods of the present template.
    hash: String,
    nodes: Vec<NodePods<'a>>,
}

/// A node with its pods of one DaemonSet.
struct NodePods<'a> {
    node: &'a Node,
    verdict: Verdict,
    /// Terminated and terminating pods included; the longest running first.
    pods: Vec<&'a Pod>,
}

/// Plans the writes for one DaemonSet.
pub(super) fn reconcile(cluster: &Cluster, object: &DaemonSet, plan: &mut Plan) {
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
    let own = ownership::claim(object, &spec.selector, &cluster.pods, |_| true, plan);
    let hash = meta::label(&revisions.update.metadata, REVISION_HASH).to_owned();
    let set = Set::new(cluster, object, spec, hash, &own);
    if object.metadata.deletion_timestamp.is_none() && !plan.deletes(object) {
        remove_stray(cluster, &own, plan);
        for (index, node) in set.nodes.iter().enumerate() {
            set.populate(node, index, plan);
        }
        update::update(&set, plan);
    }
    clean_up(&set, &own, &revisions, plan);
    status::write(&set, plan);
}

impl<'a> Set<'a> {
    fn new(
        cluster: &'a Cluster,
        object: &'a DaemonSet,
        spec: &'a DaemonSetSpec,
        hash: String,
        own: &[&'a Pod],
    ) -> Self {
        let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in own {
            if let Some(node) = nodes::target(pod) {
                by_node.entry(node).or_default().push(pod);
            }
        }
        let model = nodes::model(object, spec);
        let nodes = cluster.nodes.iter().map(|node| {
            let name = meta::name(&node.metadata);
            let mut pods = by_node.remove(name).unwrap_or_default();
            pods.sort_by_key(|it| {
                let created = it.metadata.creation_timestamp.as_ref().map(|it| it.0);
                let progress = (pods::node(it).is_none(), pods::phase(it) != "Running");
                (progress, created, it.metadata.name.clone())
            });
            NodePods {
                node,
                verdict: nodes::judge(&model, node),
                pods,
            }
        });
        Self {
            cluster,
            object,
            spec,
            hash,
            nodes: nodes.collect(),
        }
    }

    fn is_updated(&self, pod: &Pod) -> bool {
        meta::label(&pod.metadata, REVISION_HASH) == self.hash
    }

    fn is_available(&self, pod: &Pod, plan: &mut Plan) -> bool {
        pods::is_available(pod, self.spec.min_ready_seconds, plan)
    }

    /// The number of nodes that must have a pod.
    fn wanted(&self) -> i32 {
        let wanted = self.nodes.iter();
        count(wanted.filter(|it| it.verdict == Verdict::Runs))
    }

    /// The most nodes with a second pod, and the most nodes without an available pod, during an update. `None` with
    /// `OnDelete`.
    fn limits(&self) -> Option<(i32, i32)> {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|it| it.type_.as_deref()) == Some("OnDelete") {
            return None;
        }
        let rolling = strategy.and_then(|it| it.rolling_update.as_ref());
        let number = |it: &IntOrString| scaled(it, self.wanted(), Rounding::Up);
        let surge = rolling.and_then(|it| it.max_surge.as_ref());
        let unavailable = rolling.and_then(|it| it.max_unavailable.as_ref());
        let surge = surge.map_or(0, number);
        match (surge, unavailable.map(number)) {
            // With 0 and 0 no pod could ever be replaced.
            (0, Some(0) | None) => Some((0, 1)),
            (surge, unavailable) => Some((surge, unavailable.unwrap_or(0))),
        }
    }

    /// Creates or deletes pods of a node, of any revision (`podsShouldBeOnNode`).
    fn populate(&self, node: &NodePods<'_>, index: usize, plan: &mut Plan) {
        if node.verdict == Verdict::Ends {
            node.pods.iter().for_each(|it| self.delete(it, plan));
            return;
        }
        for pod in node.pods.iter().filter(|it| pods::is_finished(it)) {
            self.replace_finished(node, pod, plan);
        }
        let mut running = node.pods.clone();
        running.retain(|it| pods::is_active(it));
        let surges = self.limits().is_some_and(|(surge, _)| surge > 0);
        let is_missing = if surges {
            running.is_empty()
        } else {
            // Two Pods on a node may want the same host port: the old one must end first.
            node.pods.is_empty()
        };
        match (is_missing, surges) {
            (true, _) if node.verdict == Verdict::Runs => self.create(node.node, index, plan),
            (true, _) => {}
            (false, true) => self.keep_pair(&running, plan),
            (false, false) => {
                let surplus = running.iter().skip(1);
                surplus.for_each(|it| self.delete(it, plan));
            }
        }
    }

    /// With a surge, keeps the longest running pod of each of two revisions until the new one is available.
    fn keep_pair(&self, running: &[&Pod], plan: &mut Plan) {
        let (new, old): (Vec<&Pod>, Vec<&Pod>) =
            running.iter().copied().partition(|it| self.is_updated(it));
        let surplus = new.iter().skip(1).chain(old.iter().skip(1));
        surplus.for_each(|it| self.delete(it, plan));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!pods::is_ready(old) || self.is_available(new, plan))
        {
            self.delete(old, plan);
        }
    }

    fn replace_finished(&self, node: &NodePods<'_>, pod: &Pod, plan: &mut Plan) {
        if plan.delete(pod) {
            let state = pods::phase(pod).to_lowercase();
            let message = format!(
                "Found {state} daemon pod {} on node {}, will try to kill it",
                meta::key(&pod.metadata),
                meta::name(&node.node.metadata)
            );
            match state.as_str() {
                "failed" => plan.warning(self.object, "FailedDaemonPod", message),
                _ => plan.event(self.object, "SucceededDaemonPod", message),
            }
        }
    }

    fn create(&self, node: &Node, index: usize, plan: &mut Plan) {
        let mut pod = nodes::pod(self.object, self.spec, node);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(REVISION_HASH.to_owned(), self.hash.clone());
        pods::name(&mut pod, self.object, index, self.cluster, plan);
        pods::create(self.object, pod, plan);
    }

    fn delete(&self, pod: &Pod, plan: &mut Plan) {
        pods::delete(self.object, pod, plan);
    }
}

/// Deletes pods that are bound to a node that does not exist (`getUnscheduledPodsWithoutNode`).
fn remove_stray(cluster: &Cluster, own: &[&Pod], plan: &mut Plan) {
    let names: BTreeSet<Option<&str>> = cluster
        .nodes
        .iter()
        .map(|it| it.metadata.name.as_deref())
        .collect();
    for pod in own.iter().filter(|it| pods::node(it).is_none()) {
        if !names.contains(&nodes::target(pod)) {
            plan.delete(*pod);
        }
    }
}

/// Deletes revisions beyond the limit that no pod has.
fn clean_up(set: &Set<'_>, own: &[&Pod], revisions: &Revisions<'_>, plan: &mut Plan) {
    let hashes = own
        .iter()
        .map(|it| meta::label(&it.metadata, REVISION_HASH));
    let hashes: BTreeSet<&str> = hashes.chain([set.hash.as_str()]).collect();
    let live = revisions.all.iter().filter(|it| {
        let hash = meta::label(&it.metadata, REVISION_HASH);
        hashes.contains(hash)
    });
    let live = live.map(|it| revisions::name(it)).collect();
    let limit = set.spec.revision_history_limit;
    revisions::clean_up(&revisions.all, &live, limit, plan);
}
