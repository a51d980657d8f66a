//! Whether a pod can run on a node: selectors, affinity, taints (`k8s.io/component-helpers/scheduling/corev1`).

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

/// The taint of a cordoned node (`spec.unschedulable`).
pub(super) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Whether a node matches `nodeSelector` and one term of the required node affinity (`nodeaffinity/nodeaffinity.go`).
pub(super) fn matches_node(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let selector = spec.node_selector.as_ref();
    selector.is_none_or(|it| crate::selector::has_all(labels, it))
        && required(spec).is_none_or(|it| it.node_selector_terms.iter().any(|it| meets(it, node)))
}

/// The required node affinity.
pub(super) fn required(spec: &PodSpec) -> Option<&NodeSelector> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()
}

/// Whether a node matches a term. An empty term matches no node.
fn meets(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let labels = node.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|it| it.get(key)).map(String::as_str);
    let field = |key: &str| match key {
        "metadata.name" => node.metadata.name.as_deref(),
        _ => None,
    };
    let is_empty = expressions.is_empty() && fields.is_empty();
    !is_empty
        && expressions.iter().all(|it| holds(it, label(&it.key)))
        && fields.iter().all(|it| holds(it, field(&it.key)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_among = |it: &str| values.iter().any(|wanted| wanted == it);
    let number = |it: &str| it.parse::<i64>().ok();
    let bound = || values.first().and_then(|it| number(it));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(is_among),
        "NotIn" => !value.is_some_and(is_among),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value.and_then(number) > bound() && bound().is_some(),
        "Lt" => bound().is_some_and(|bound| value.and_then(number).is_some_and(|it| it < bound)),
        _ => false,
    }
}

/// The taints of a node with this effect.
pub(super) fn taints<'a>(node: &'a Node, effect: &str) -> impl Iterator<Item = &'a Taint> {
    let taints = node.spec.as_ref().and_then(|it| it.taints.as_ref());
    let taints = taints.into_iter().flatten();
    taints.filter(move |it| it.effect == effect)
}

/// Whether a node has a taint of this effect that the pod does not tolerate.
pub(super) fn is_repelled(spec: &PodSpec, node: &Node, effect: &str) -> bool {
    taints(node, effect).any(|taint| tolerations_of(spec, taint).next().is_none())
}

/// Whether a node is cordoned, and the pod does not tolerate that
/// (`pkg/scheduler/framework/plugins/nodeunschedulable`).
pub(super) fn is_unschedulable(spec: &PodSpec, node: &Node) -> bool {
    let is_cordoned = node.spec.as_ref().and_then(|it| it.unschedulable) == Some(true);
    let taint = Taint {
        effect: "NoSchedule".to_owned(),
        key: UNSCHEDULABLE.to_owned(),
        ..Taint::default()
    };
    is_cordoned && tolerations_of(spec, &taint).next().is_none()
}

/// The tolerations of a pod for a taint (`ToleratesTaint`, `k8s.io/api/core/v1/toleration.go`).
pub(super) fn tolerations_of<'a>(
    spec: &'a PodSpec,
    taint: &'a Taint,
) -> impl Iterator<Item = &'a Toleration> {
    let tolerations = spec.tolerations.iter().flatten();
    tolerations.filter(move |it| tolerates(it, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |it: &'_ Option<String>| it.clone().filter(|it| !it.is_empty());
    let value = |it: &Option<String>| it.clone().unwrap_or_default();
    let operator = given(&toleration.operator);
    given(&toleration.effect).is_none_or(|it| it == taint.effect)
        && given(&toleration.key).is_none_or(|it| it == taint.key)
        && match operator.as_deref() {
            None | Some("Equal") => value(&toleration.value) == value(&taint.value),
            Some("Exists") => true,
            _ => false,
        }
}
