//! The addresses of a Service.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;
use sluice_model::{ClusterIps, IpFamily, IpMode, LoadBalancerIngress, ServiceKind};

use super::{Ingress, ServiceSpec};
use crate::convert::address::{not_special, one_of, parse_ip, parse_net, routable};
use crate::convert::{At, Faults};
use sluice_yaml::quoted;

pub(super) fn cluster_ips(
    spec: &ServiceSpec,
    kind: ServiceKind,
    faults: &mut Faults<'_>,
) -> ClusterIps {
    if kind == ServiceKind::ExternalName {
        return ClusterIps::Unassigned;
    }
    let single = spec.cluster_ip.as_deref().unwrap_or_default();
    let (list, at): (Vec<&str>, _) = match &*spec.cluster_ips {
        [] if single.is_empty() => return ClusterIps::Unassigned,
        [] => (vec![single], At::top("spec.clusterIP")),
        list => {
            let list = list.iter().map(String::as_str).collect();
            (list, At::top("spec.clusterIPs"))
        }
    };
    let is_list = !spec.cluster_ips.is_empty();
    if is_list && !single.is_empty() && single != list[0] {
        let message = format!("{} is not the first of clusterIPs", quoted(single));
        faults.refuse(At::top("spec.clusterIP"), message);
    }
    if list == ["None"] {
        return ClusterIps::Headless;
    }
    let mut ips: Vec<IpAddr> = Vec::new();
    for (i, text) in list.iter().enumerate() {
        let at_list = at;
        let at = if is_list { at_list.index(i) } else { at };
        let Some(ip) = faults.take(at, parse_ip(text).and_then(routable)) else {
            continue;
        };
        let family = IpFamily::of(&ip);
        if ips.iter().any(|it| IpFamily::of(it) == family) {
            faults.refuse(at, format!("{ip} is a second {family} address"));
        }
        if let Some(declared) = spec.ip_families.get(i)
            && *declared != family.to_string()
        {
            let message = format!("{} does not fit the address {ip}", quoted(declared));
            faults.refuse(At::top("spec.ipFamilies").index(i), message);
        }
        ips.push(ip);
    }
    ClusterIps::Assigned(ips)
}

pub(super) fn external_ips(list: &[String], faults: &mut Faults<'_>) -> Vec<IpAddr> {
    let at = At::top("spec.externalIPs");
    let (mut ips, mut seen) = (Vec::new(), HashSet::new());
    for (i, text) in list.iter().enumerate() {
        match parse_ip(text).and_then(not_special) {
            Ok(ip) if seen.insert(ip) => ips.push(ip),
            Ok(_) => {}
            Err(why) => faults.note(at.index(i), format!("{why}: ignored")),
        }
    }
    ips
}

pub(super) fn load_balancer(list: &[Ingress], faults: &mut Faults<'_>) -> Vec<LoadBalancerIngress> {
    let at = At::top("status.loadBalancer.ingress");
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (i, entry) in list.iter().enumerate() {
        let at = at.index(i);
        let Some(text) = entry.ip.as_deref().filter(|it| !it.is_empty()) else {
            continue; // A load balancer with a host name only.
        };
        let mode = match entry.ip_mode.as_deref().unwrap_or_default() {
            "" | "VIP" => IpMode::Vip,
            "Proxy" => IpMode::Proxy,
            other => {
                let why = one_of(other, "VIP, Proxy");
                faults.note(at.field("ipMode"), format!("{why}: address ignored"));
                continue;
            }
        };
        match parse_ip(text).and_then(routable) {
            Ok(ip) if seen.insert(ip) => found.push(LoadBalancerIngress { ip, mode }),
            Ok(_) => {}
            Err(why) => faults.note(at.field("ip"), format!("{why}: ignored")),
        }
    }
    found
}

/// A range of length zero stands for everyone: it clears the list of its family, as in kube-proxy.
pub(super) fn source_ranges(list: &[String], faults: &mut Faults<'_>) -> Vec<IpNet> {
    let at = At::top("spec.loadBalancerSourceRanges");
    let mut nets: Vec<IpNet> = (list.iter().enumerate())
        .filter_map(|(i, text)| faults.take(at.index(i), parse_net(text.trim())))
        .collect();
    for family in IpFamily::ALL {
        let mut own = nets.iter().filter(|it| IpFamily::of_net(it) == family);
        if own.any(|it| it.prefix_len() == 0) {
            nets.retain(|it| IpFamily::of_net(it) != family);
        }
    }
    nets
}
