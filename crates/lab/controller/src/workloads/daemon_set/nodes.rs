//! The nodes that a DaemonSet's pods run on (`NodeShouldRunDaemonPod`, `pkg/controller/daemon/daemon_controller.go`,
//! and `util/daemonset_util.go`).

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
    Toleration,
};

use super::super::{fit, pods};

/// Whether a node runs a pod of the DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The node must have a pod.
    Runs,
    /// The node has a NoSchedule taint: a running pod stays, no new one is created.
    Stays,
    /// The node must have no pod.
    Ends,
}

/// The pod of a DaemonSet, without a node.
pub(super) fn model(object: &DaemonSet, spec: &DaemonSetSpec) -> Pod {
    let mut pod = pods::from_template(&spec.template, object);
    let spec = pods::spec_mut(&mut pod);
    let added = tolerations(spec.host_network == Some(true));
    let tolerations = spec.tolerations.get_or_insert_default();
    for toleration in added {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    pod
}

pub(super) fn judge(model: &Pod, node: &Node) -> Verdict {
    let Some(spec) = &model.spec else {
        return Verdict::Ends;
    };
    let name = node.metadata.name.as_deref();
    let other = pods::node(model).is_some_and(|it| Some(it) != name);
    if other || !fit::matches_node(spec, node) || fit::is_repelled(spec, node, "NoExecute") {
        Verdict::Ends
    } else if fit::is_repelled(spec, node, "NoSchedule") {
        Verdict::Stays
    } else {
        Verdict::Runs
    }
}

/// The pod for a node. The scheduler binds it: its affinity names the node.
pub(super) fn pod(object: &DaemonSet, spec: &DaemonSetSpec, node: &Node) -> Pod {
    let mut pod = model(object, spec);
    let by_name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(node.metadata.name.iter().cloned().collect()),
    };
    let spec = pods::spec_mut(&mut pod);
    let affinity = spec.affinity.get_or_insert_with(Affinity::default);
    let affinity = affinity
        .node_affinity
        .get_or_insert_with(NodeAffinity::default);
    // The node meets the other terms already.
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: None,
            match_fields: Some(vec![by_name]),
        }],
    });
    pod
}

/// The node that a pod is bound to or made for (`GetTargetNodeName`).
pub(super) fn target(pod: &Pod) -> Option<&str> {
    pods::node(pod).or_else(|| {
        let terms = &fit::required(pod.spec.as_ref()?)?.node_selector_terms;
        let mut fields = terms.iter().flat_map(|it| it.match_fields.iter().flatten());
        let name = fields.find(|it| it.key == "metadata.name" && it.operator == "In")?;
        name.values.as_ref()?.first().map(String::as_str)
    })
}

/// The tolerations of every DaemonSet pod (`AddOrUpdateDaemonPodTolerations`).
fn tolerations(host_network: bool) -> Vec<Toleration> {
    let mut keys = vec![
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    if host_network {
        keys.push(("network-unavailable", "NoSchedule"));
    }
    let tolerations = keys.into_iter().map(|(key, effect)| Toleration {
        effect: Some(effect.to_owned()),
        key: Some(format!("node.kubernetes.io/{key}")),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    });
    tolerations.collect()
}
