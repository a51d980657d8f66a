//! Schedules pods to nodes (`pkg/scheduler`, its default plugins without those of volumes).

mod affinity;
mod message;
mod ports;
mod resources;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, PodSpec};

use self::message::Misfit;
pub(super) use self::resources::quality;
use super::plan::Plan;
use super::{Cluster, fit, node_lifecycle, ownership, pods};

/// The scheduler of pods without `schedulerName`.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Seconds that pods wait for a node that was just made, so that those that come with the nodes are spread over all of them.
/// kube-scheduler would take the first node that is ready.
const PATIENCE: i64 = 10;

/// Nodes with their pods, those of this plan included.
struct Placement<'a> {
    nodes: Vec<&'a Node>,
    pods: BTreeMap<&'a str, Vec<&'a Pod>>,
}

pub(super) fn reconcile(cluster: &Cluster, plan: &mut Plan) {
    if plan.writes_nodes() {
        // A node that just stopped answering gets its taints in this plan: wait for the next one.
        return;
    }
    let pods = cluster.pods.iter();
    let waiting: Vec<_> = pods
        .filter(|it| is_waiting(it) && !plan.deletes(&***it))
        .collect();
    if waiting.is_empty() {
        return;
    }
    let mut placement = Placement::new(cluster);
    let nodes = placement.nodes.iter().copied();
    let starting: Vec<&Node> = nodes.filter(|it| is_starting(it, plan)).collect();
    for pod in waiting {
        if starting.iter().any(|it| placement.waits_for(pod, it)) {
            continue;
        }
        match placement.choose(pod) {
            Ok(node) => {
                placement.pods.entry(node).or_default().push(pod);
                bind(pod, node, plan);
            }
            Err(misfits) => report(pod, message::text(&misfits), plan),
        }
    }
}

fn is_waiting(pod: &Arc<Pod>) -> bool {
    let spec = pod.spec.as_ref();
    let scheduler = spec.and_then(|it| it.scheduler_name.as_deref());
    let gates = spec.and_then(|it| it.scheduling_gates.as_ref());
    pods::is_active(pod)
        && pods::node(pod).is_none()
        && scheduler.is_none_or(|it| it == DEFAULT_SCHEDULER)
        && gates.is_none_or(Vec::is_empty)
}

/// Whether a node was just made and has not been ready yet. If so, the plan wakes when nobody waits for it any more.
fn is_starting(node: &Node, plan: &mut Plan) -> bool {
    let made = node.metadata.creation_timestamp.as_ref();
    !matches!(node_lifecycle::readiness(node), Some("True" | "Unknown"))
        && made.is_some_and(|it| !plan.is_over(it.0, PATIENCE))
}

impl<'a> Placement<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in cluster.pods.iter().filter(|it| !pods::is_finished(it)) {
            if let Some(node) = pods::node(pod) {
                pods.entry(node).or_default().push(pod);
            }
        }
        Self {
            nodes: cluster.nodes.iter().map(|it| &**it).collect(),
            pods,
        }
    }

    /// The node that fits with the fewest taints against the pod, then the fewest pods of the same controller, then the
    /// fewest pods, then the first name. The error says why each node does not fit.
    fn choose(&self, pod: &Pod) -> Result<&'a str, Vec<Vec<Misfit>>> {
        let (mut fitting, mut misfits) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            match self.misfits(pod, node) {
                it if it.is_empty() => fitting.push(*node),
                it => misfits.push(it),
            }
        }
        let best = fitting.into_iter().min_by_key(|it| self.cost(pod, it));
        best.map(name).ok_or(misfits)
    }

    /// Whether a pod may be wanted on a node that is starting: nothing but that is known against it.
    fn waits_for(&self, pod: &Pod, node: &Node) -> bool {
        match &*self.misfits(pod, node) {
            [] => node_lifecycle::readiness(node).is_none(),
            misfits => misfits == [Misfit::Taint],
        }
    }

    /// What the first of kube-scheduler's plugins that refuses a node has against it.
    fn misfits(&self, pod: &Pod, node: &Node) -> Vec<Misfit> {
        let none = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&none);
        let here = self.on(node);
        let is_repelled = |effect| fit::is_repelled(spec, node, effect);
        let first = if fit::is_unschedulable(spec, node) {
            Some(Misfit::Unschedulable)
        } else if is_repelled("NoSchedule") || is_repelled("NoExecute") {
            Some(Misfit::Taint)
        } else if !fit::matches_node(spec, node) {
            Some(Misfit::Affinity)
        } else if ports::conflict(spec, here) {
            Some(Misfit::Ports)
        } else {
            None
        };
        let misfits = first.map_or_else(|| resources::misfits(spec, node, here), |it| vec![it]);
        if misfits.is_empty() {
            affinity::misfit(pod, node, self).into_iter().collect()
        } else {
            misfits
        }
    }

    fn cost(&self, pod: &Pod, node: &'a Node) -> (usize, usize, usize, &'a str) {
        let none = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&none);
        let avoided = fit::taints(node, "PreferNoSchedule")
            .filter(|it| fit::tolerations_of(spec, it).next().is_none());
        let owner = ownership::controller(&pod.metadata).map(|it| &it.uid);
        let here = self.on(node);
        let siblings = here.iter().filter(|it| {
            let other = ownership::controller(&it.metadata).map(|it| &it.uid);
            owner.is_some() && other == owner
        });
        (avoided.count(), siblings.count(), here.len(), name(node))
    }

    fn on(&self, node: &Node) -> &[&'a Pod] {
        self.pods.get(name(node)).map_or(&[], Vec::as_slice)
    }
}

fn name(node: &Node) -> &str {
    crate::meta::name(&node.metadata)
}

fn bind(pod: &Pod, node: &str, plan: &mut Plan) {
    let mut bound = pod.clone();
    pods::spec_mut(&mut bound).node_name = Some(node.to_owned());
    let scheduled = pods::new_condition("PodScheduled", "True", plan);
    pods::set_condition(&mut bound, scheduled);
    plan.update(pod, bound);
    let key = crate::meta::key(&pod.metadata);
    plan.event(
        pod,
        "Scheduled",
        format!("Successfully assigned {key} to {node}"),
    );
}

/// Reports why there is no node, if the message changed.
fn report(pod: &Pod, message: String, plan: &mut Plan) {
    let mut after = pod.clone();
    let condition = PodCondition {
        message: Some(message.clone()),
        reason: Some("Unschedulable".to_owned()),
        ..pods::new_condition("PodScheduled", "False", plan)
    };
    if pods::set_condition(&mut after, condition) {
        plan.update_status(pod, after);
        plan.warning(pod, "FailedScheduling", message);
    }
}
