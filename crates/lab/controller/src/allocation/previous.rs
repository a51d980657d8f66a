//! Keeps the addresses and ports of a Service's previous version (`patchAllocatedValues`).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ServiceSpec;
use serde_json::json;

use super::FieldError;

/// Copies addresses and ports that the new version leaves out, so that a manifest without them can be applied again.
pub(crate) fn adopt(
    spec: &mut ServiceSpec,
    old: Option<&ServiceSpec>,
    refusals: &mut Vec<FieldError>,
) {
    let empty = |ips: &Option<Vec<String>>| ips.as_ref().is_none_or(Vec::is_empty);
    let one = spec.cluster_ip.clone().filter(|it| !it.is_empty());
    // A client that knows `clusterIP` only has changed it (`normalizeClusterIPs`).
    let is_old_list = old.is_some_and(|it| {
        it.cluster_ips == spec.cluster_ips && it.cluster_ip != spec.cluster_ip && one.is_some()
    });
    if is_old_list || empty(&spec.cluster_ips) {
        spec.cluster_ips = one.clone().map(|it| vec![it]);
    }
    let first = spec.cluster_ips.iter().flatten().next().cloned();
    if let (Some(one), Some(first)) = (&one, &first)
        && one != first
    {
        let why = format!("{first} is not spec.clusterIP, which is {one}");
        refusals.push(FieldError::new("spec.clusterIPs[0]", why));
    }
    spec.cluster_ip = first;
    if needs_cluster_ip(spec)
        && let Some(old) = old.filter(|it| needs_cluster_ip(it))
    {
        match &spec.cluster_ip {
            None => {
                spec.cluster_ip.clone_from(&old.cluster_ip);
                spec.cluster_ips.clone_from(&old.cluster_ips);
            }
            Some(new)
                if old
                    .cluster_ip
                    .as_ref()
                    .is_some_and(|it| !it.is_empty() && it != new) =>
            {
                let list = json!(spec.cluster_ips);
                let why = format!("Invalid value: {list}: may not change once set");
                refusals.push(FieldError::new("spec.clusterIPs[0]", why));
            }
            Some(_) => {}
        }
        if spec.ip_families.as_ref().is_none_or(Vec::is_empty) {
            spec.ip_families.clone_from(&old.ip_families);
        }
    }
    if let Some(old) = old.filter(|it| needs_node_ports(it) && needs_node_ports(spec)) {
        let numbers = |it: &ServiceSpec| -> BTreeSet<i32> {
            it.ports
                .iter()
                .flatten()
                .filter_map(|it| it.node_port)
                .collect()
        };
        let used = &numbers(old) & &numbers(spec);
        let named = old
            .ports
            .iter()
            .flatten()
            .map(|it| (it.name.clone(), it.node_port));
        let named: BTreeMap<_, _> = named.collect();
        for port in spec.ports.iter_mut().flatten() {
            let had = named.get(&port.name).copied().flatten();
            if port.node_port.unwrap_or_default() == 0 && had.is_some_and(|it| !used.contains(&it))
            {
                port.node_port = had;
            }
        }
    }
    if let Some(old) = old.filter(|it| needs_health_check(it) && needs_health_check(spec))
        && spec.health_check_node_port.unwrap_or_default() == 0
    {
        spec.health_check_node_port = old.health_check_node_port;
    }
}

pub(super) fn needs_cluster_ip(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() != Some("ExternalName")
}

pub(crate) fn needs_node_ports(spec: &ServiceSpec) -> bool {
    matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer"))
}

/// Whether load balancers ask each node whether it has endpoints.
pub(crate) fn needs_health_check(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() == Some("LoadBalancer")
        && spec.external_traffic_policy.as_deref() == Some("Local")
}
