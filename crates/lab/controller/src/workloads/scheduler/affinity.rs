//! Pod anti-affinity (`pkg/scheduler/framework/plugins/interpodaffinity`). Two pods are near each other when their
//! nodes have the same value of the label `topologyKey`.

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm};

use super::super::labels;
use super::{Misfit, Placement, name};

/// Why a pod cannot be near a pod on this node: either one may exclude the other. A term with a namespace selector
/// counts for all namespaces.
pub(super) fn misfit(pod: &Pod, node: &Node, placement: &Placement<'_>) -> Option<Misfit> {
    let avoids = |one: &Pod, other: &Pod, place: &Node| {
        terms(one).any(|term| is_near(node, place, &term.topology_key) && selects(term, one, other))
    };
    let others = placement.nodes.iter().flat_map(|place| {
        let pods = placement.on(place).iter();
        pods.map(move |other| (*place, *other))
    });
    let others: Vec<(&Node, &Pod)> = others.collect();
    if others
        .iter()
        .any(|(place, other)| avoids(other, pod, place))
    {
        Some(Misfit::Avoided)
    } else if others
        .iter()
        .any(|(place, other)| avoids(pod, other, place))
    {
        Some(Misfit::AntiAffinity)
    } else {
        None
    }
}

fn terms(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    let affinity = pod.spec.as_ref().and_then(|it| it.affinity.as_ref());
    let affinity = affinity.and_then(|it| it.pod_anti_affinity.as_ref());
    let terms = affinity.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    terms.into_iter().flatten()
}

/// Whether two nodes have the same value of the label `key`. Nodes without it are not near each other; but each node is
/// near itself for `kubernetes.io/hostname`, which a lab may leave out.
fn is_near(a: &Node, b: &Node, key: &str) -> bool {
    let label = |it: &'_ Node| {
        it.metadata
            .labels
            .as_ref()
            .and_then(|it| it.get(key))
            .cloned()
    };
    match (label(a), label(b)) {
        (Some(a), Some(b)) => a == b,
        _ => key == "kubernetes.io/hostname" && name(a) == name(b),
    }
}

fn selects(term: &PodAffinityTerm, from: &Pod, pod: &Pod) -> bool {
    let namespaces = term.namespaces.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_ref();
    let is_listed = match namespaces {
        [] => term.namespace_selector.is_some() || namespace == from.metadata.namespace.as_ref(),
        listed => listed.iter().any(|it| Some(it) == namespace),
    };
    let selector = term.label_selector.as_ref();
    let labels = pod.metadata.labels.as_ref();
    is_listed && selector.is_some_and(|it| labels::matches(it, labels))
}
