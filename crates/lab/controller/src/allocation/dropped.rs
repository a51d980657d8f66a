//! Drops what a Service's previous type was given (`dropTypeDependentFields` in `pkg/registry/core/service/strategy.go`).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ServiceSpec;

use super::previous::{needs_cluster_ip, needs_health_check, needs_node_ports};

/// Removes the fields that the new type cannot have, where they are as in the old version: the API server chose them,
/// and who changes `type` need not know them. A field that the new version changes stays, and is refused later.
pub(super) fn drop_unused(new: &mut ServiceSpec, old: &ServiceSpec) {
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        if (&new.cluster_ip, &new.cluster_ips) == (&old.cluster_ip, &old.cluster_ips) {
            (new.cluster_ip, new.cluster_ips) = (None, None);
        }
        drop_same(&mut new.ip_families, &old.ip_families);
        drop_same(&mut new.ip_family_policy, &old.ip_family_policy);
    }
    if needs_node_ports(old)
        && !needs_node_ports(new)
        && node_ports(new).is_subset(&node_ports(old))
    {
        for port in new.ports.iter_mut().flatten() {
            port.node_port = None;
        }
    }
    if needs_health_check(old) && !needs_health_check(new) {
        drop_same(&mut new.health_check_node_port, &old.health_check_node_port);
    }
    let is_balanced = |it: &ServiceSpec| it.type_.as_deref() == Some("LoadBalancer");
    if is_balanced(old) && !is_balanced(new) {
        let allocates = &mut new.allocate_load_balancer_node_ports;
        drop_same(allocates, &old.allocate_load_balancer_node_ports);
        drop_same(&mut new.load_balancer_class, &old.load_balancer_class);
    }
    if is_external(old) && !is_external(new) {
        drop_same(
            &mut new.external_traffic_policy,
            &old.external_traffic_policy,
        );
    }
}

/// Whether clients outside the cluster reach a Service (`ExternallyAccessible`).
pub(crate) fn is_external(spec: &ServiceSpec) -> bool {
    let has_ips = spec.external_ips.as_ref().is_some_and(|it| !it.is_empty());
    needs_node_ports(spec) || (has_ips && spec.type_.as_deref() == Some("ClusterIP"))
}

fn drop_same<T: PartialEq>(new: &mut Option<T>, old: &Option<T>) {
    if new == old {
        *new = None;
    }
}

fn node_ports(spec: &ServiceSpec) -> BTreeSet<i32> {
    let ports = spec.ports.iter().flatten().filter_map(|it| it.node_port);
    ports.filter(|it| *it != 0).collect()
}
