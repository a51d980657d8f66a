//! Drains a node as `kubectl drain` does (`k8s.io/kubectl/pkg/drain/filters.go`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use sluice_model::NamespacedName;

use crate::meta;
use crate::workloads::{Cluster, ownership, pods};

/// The annotation of a static pod: deleting it has no effect.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// kubectl's flags of these names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DrainOptions {
    /// Pods of DaemonSets stay, and do not prevent the drain.
    pub(super) ignore_daemonsets: bool,
    /// Pods with `emptyDir` volumes are deleted with the data in them.
    pub(super) delete_emptydir_data: bool,
    /// Pods without a controller are deleted: nothing creates them again.
    pub(super) force: bool,
}

/// The steps of a drain.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Drain {
    /// The node with `spec.unschedulable`; `None` when it has that already.
    pub(super) cordon: Option<Node>,
    pub(super) evict: Vec<Arc<Pod>>,
    pub(super) stay: Vec<NamespacedName>,
    /// Pods that prevent the drain, each with the flag that kubectl names. No pod is deleted while there are any.
    pub(super) obstacles: Vec<(NamespacedName, &'static str)>,
}

enum Fate {
    Evicted,
    Stays,
    Hinders(&'static str),
}

/// The steps to drain `node`. PodDisruptionBudgets are ignored; terminating pods are not listed.
pub(super) fn drain(cluster: &Cluster, node: &Node, options: DrainOptions) -> Drain {
    let mut drain = Drain {
        cordon: cordon(node),
        ..Drain::default()
    };
    let name = node.metadata.name.as_deref();
    let here = cluster.pods.iter();
    let here = here.filter(|it| pods::node(it) == name && !pods::is_terminating(it));
    for pod in here {
        match fate(pod, options) {
            Fate::Evicted => drain.evict.push(pod.clone()),
            Fate::Stays => drain.stay.push(meta::key(&pod.metadata)),
            Fate::Hinders(why) => drain.obstacles.push((meta::key(&pod.metadata), why)),
        }
    }
    drain
}

fn cordon(node: &Node) -> Option<Node> {
    let mut after = node.clone();
    after.spec.get_or_insert_default().unschedulable = Some(true);
    (after != *node).then_some(after)
}

fn fate(pod: &Pod, options: DrainOptions) -> Fate {
    let annotations = pod.metadata.annotations.as_ref();
    if annotations.is_some_and(|it| it.contains_key(MIRROR)) {
        return Fate::Stays;
    }
    if pods::is_finished(pod) {
        return Fate::Evicted;
    }
    let volumes = pod.spec.as_ref().and_then(|it| it.volumes.as_ref());
    let is_local = |it: &Vec<_>| {
        let mut volumes = it.iter();
        volumes.any(|it: &k8s_openapi::api::core::v1::Volume| it.empty_dir.is_some())
    };
    match ownership::controller(&pod.metadata) {
        Some(it) if it.kind == "DaemonSet" && options.ignore_daemonsets => Fate::Stays,
        Some(it) if it.kind == "DaemonSet" => Fate::Hinders(
            "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)",
        ),
        _ if volumes.is_some_and(is_local) && !options.delete_emptydir_data => Fate::Hinders(
            "cannot delete Pods with local storage (use --delete-emptydir-data to override)",
        ),
        None if !options.force => {
            Fate::Hinders("cannot delete Pods that declare no controller (use --force to override)")
        }
        _ => Fate::Evicted,
    }
}
