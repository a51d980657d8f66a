//! Replaces the pods of old revisions node by node (`pkg/controller/daemon/update.go`).

use k8s_openapi::api::core::v1::Pod;

use super::super::plan::Plan;
use super::super::pods;
use super::nodes::Verdict;
use super::{NodePods, Set};

/// Plans one step of the update.
pub(super) fn update(set: &Set<'_>, plan: &mut Plan) {
    match set.limits() {
        None => {}
        Some((0, unavailable)) => delete_first(set, unavailable, plan),
        Some((surge, _)) => create_first(set, surge, plan),
    }
}

/// Deletes old pods while at most `limit` nodes are without an available pod. Pods that are not available are deleted
/// without counting.
fn delete_first(set: &Set<'_>, limit: i32, plan: &mut Plan) {
    let (mut unavailable, mut candidates) = (0, Vec::new());
    for node in nodes(set) {
        match pair(set, node) {
            (None, Some(old)) if set.is_available(old, plan) => candidates.push(old),
            (None, Some(old)) => {
                set.delete(old, plan);
                unavailable += 1;
            }
            (Some(new), None) if set.is_available(new, plan) => {}
            _ => unavailable += 1,
        }
    }
    let room = usize::try_from(limit - unavailable).unwrap_or(0);
    for old in candidates.into_iter().take(room) {
        set.delete(old, plan);
    }
}

/// Creates new pods beside old ones on at most `limit` nodes whose old pod is available. `Set::populate` deletes the
/// old pod when the new one is available.
fn create_first(set: &Set<'_>, limit: i32, plan: &mut Plan) {
    let (mut surging, mut candidates) = (0, Vec::new());
    for (index, node) in set.nodes.iter().enumerate() {
        if node.verdict != Verdict::Runs {
            continue;
        }
        match pair(set, node) {
            (None, Some(old)) if set.is_available(old, plan) => candidates.push((index, node)),
            (None, Some(_)) => set.create(node.node, index, plan),
            (Some(new), Some(old)) => {
                let waits = set.is_available(old, plan) && !set.is_available(new, plan);
                surging += i32::from(waits);
            }
            (_, None) => {}
        }
    }
    let room = usize::try_from(limit - surging).unwrap_or(0);
    for (index, node) in candidates.into_iter().take(room) {
        set.create(node.node, index, plan);
    }
}

fn nodes<'s, 'a>(set: &'s Set<'a>) -> impl Iterator<Item = &'s NodePods<'a>> {
    set.nodes.iter().filter(|it| it.verdict == Verdict::Runs)
}

/// The pod of the present revision on a node, and the pod of an old one (`findUpdatedPodsOnNode`).
fn pair<'a>(set: &Set<'_>, node: &NodePods<'a>) -> (Option<&'a Pod>, Option<&'a Pod>) {
    let active = || node.pods.iter().copied().filter(|it| pods::is_active(it));
    let new = active().find(|it| set.is_updated(it));
    let old = active().find(|it| !set.is_updated(it));
    (new, old)
}
