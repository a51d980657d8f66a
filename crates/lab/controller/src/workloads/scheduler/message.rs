//! Why a pod is not scheduled, in kube-scheduler's words, because people search for them (`FitError`,
//! `pkg/scheduler/framework/types.go`).

use std::collections::BTreeMap;

/// Why a node does not fit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Misfit {
    /// The node is cordoned.
    Unschedulable,
    /// A taint is not tolerated.
    Taint,
    /// Node selector or node affinity does not match.
    Affinity,
    /// A host port is in use.
    Ports,
    /// The node has as many pods as it may have.
    TooManyPods,
    /// Too little of this resource is left.
    Insufficient(String),
    /// The pod's anti-affinity excludes a pod that is near.
    AntiAffinity,
    /// The anti-affinity of a pod that is near excludes this pod.
    Avoided,
}

impl Misfit {
    fn text(&self) -> String {
        let text = match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Taint => "node(s) had untolerated taint(s)",
            Self::Affinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::Insufficient(name) => return format!("Insufficient {name}"),
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::Avoided => "node(s) didn't satisfy existing pods anti-affinity rules",
        };
        text.to_owned()
    }

    /// Why no pod is preempted. Nothing here preempts; kube-scheduler would not either, where that does not help or the
    /// pod has no priority.
    fn preemption(&self) -> String {
        let text = match self {
            Self::Unschedulable | Self::Taint | Self::Affinity => {
                "Preemption is not helpful for scheduling"
            }
            Self::Ports
            | Self::TooManyPods
            | Self::Insufficient(_)
            | Self::AntiAffinity
            | Self::Avoided => "No preemption victims found for incoming pod",
        };
        text.to_owned()
    }
}

/// For example `0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). preemption: …`.
///
/// A node may have several reasons.
pub(super) fn text(misfits: &[Vec<Misfit>]) -> String {
    if misfits.is_empty() {
        return "no nodes available to schedule pods".to_owned();
    }
    let total = misfits.len();
    let reasons = list(misfits.iter().flatten().map(Misfit::text));
    let preemption = misfits.iter().filter_map(|it| it.first());
    let preemption = list(preemption.map(Misfit::preemption));
    format!(
        "0/{total} nodes are available: {reasons}. preemption: 0/{total} nodes are available: {preemption}."
    )
}

fn list(texts: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    let mut reasons: Vec<String> = counts
        .into_iter()
        .map(|(text, count)| format!("{count} {text}"))
        .collect();
    reasons.sort();
    reasons.join(", ")
}
