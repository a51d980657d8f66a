//! What pods ask for: requests against what a node has (`pkg/scheduler/framework/plugins/noderesources/fit.go`,
//! `k8s.io/component-helpers/resource/helpers.go`), and the class of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource;

use super::Misfit;
use crate::Quantity;

/// Amounts by resource, in units of 1e-9.
type Amounts = BTreeMap<String, i128>;

/// What a node lacks for a pod beside those that are there. A node without `allocatable` has room for every pod.
pub(super) fn misfits(spec: &PodSpec, node: &Node, here: &[&Pod]) -> Vec<Misfit> {
    let status = node.status.as_ref();
    let Some(has) = status.and_then(|it| it.allocatable.as_ref()) else {
        return Vec::new();
    };
    let has = amounts(has);
    let mut misfits = Vec::new();
    let most = has.get("pods").copied().unwrap_or(0);
    if (here.len() as i128 + 1) * Quantity::ONE > most {
        misfits.push(Misfit::TooManyPods);
    }
    let mut used = Amounts::new();
    for it in here.iter().filter_map(|it| it.spec.as_ref()) {
        add(&mut used, requests(it));
    }
    for (name, wanted) in requests(spec) {
        let free = has.get(&name).copied().unwrap_or(0) - used.get(&name).copied().unwrap_or(0);
        if wanted > 0 && wanted > free {
            misfits.push(Misfit::Insufficient(name));
        }
    }
    misfits
}

/// The class of a pod by the CPU and memory that its containers ask for, or the pod as a whole (`ComputePodQOS` in
/// `pkg/apis/core/v1/helper/qos/qos.go`).
pub(in crate::workloads) fn quality(spec: &PodSpec) -> &'static str {
    let init = spec.init_containers.iter().flatten();
    let each: Vec<_> = match &spec.resources {
        Some(own) => vec![Some(own)],
        None => init
            .chain(&spec.containers)
            .map(|it| it.resources.as_ref())
            .collect(),
    };
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut is_limited = true;
    for it in each {
        let most = computing(it.and_then(|it| it.limits.as_ref()));
        is_limited &= most.len() == 2;
        add(&mut limits, most);
        add(
            &mut requests,
            computing(it.and_then(|it| it.requests.as_ref())),
        );
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if is_limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// CPU and memory, where they are more than nothing.
fn computing(list: Option<&BTreeMap<String, resource::Quantity>>) -> Amounts {
    let mut amounts = list.map(amounts).unwrap_or_default();
    amounts.retain(|name, it| ["cpu", "memory"].contains(&&**name) && *it > 0);
    amounts
}

/// The requests of a pod: those of its containers and sidecars together, or of an init container and the sidecars before it
/// where that is more; and its overhead.
fn requests(spec: &PodSpec) -> Amounts {
    let (mut all, mut most) = (Amounts::new(), Amounts::new());
    for it in spec.init_containers.iter().flatten() {
        let mut own = of_container(it);
        if it.restart_policy.as_deref() == Some("Always") {
            add(&mut all, own);
            own = all.clone();
        } else {
            add(&mut own, all.clone());
        }
        raise(&mut most, own);
    }
    for it in &spec.containers {
        add(&mut all, of_container(it));
    }
    raise(&mut all, most);
    if let Some(overhead) = &spec.overhead {
        add(&mut all, amounts(overhead));
    }
    all
}

fn of_container(container: &Container) -> Amounts {
    let requests = container.resources.as_ref();
    let requests = requests.and_then(|it| it.requests.as_ref());
    requests.map(amounts).unwrap_or_default()
}

/// A quantity that cannot be read is none: the API refuses it.
fn amounts(list: &BTreeMap<String, resource::Quantity>) -> Amounts {
    let read = |(name, it): (&String, &resource::Quantity)| {
        let quantity: Quantity = it.0.parse().ok()?;
        Some((name.clone(), quantity.nanos()))
    };
    list.iter().filter_map(read).collect()
}

fn add(to: &mut Amounts, more: Amounts) {
    for (name, it) in more {
        *to.entry(name).or_default() += it;
    }
}

fn raise(to: &mut Amounts, other: Amounts) {
    for (name, it) in other {
        let own = to.entry(name).or_default();
        *own = it.max(*own);
    }
}
