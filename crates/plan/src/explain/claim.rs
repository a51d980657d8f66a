//! Who else wants what a packet is addressed to, and what else there is at the address.

use crate::lookup::{HostAddresses, Packet};
use crate::{Frontend, Planner, PortKey};
use sluice_model::{ClusterIps, IpFamily, IpMode, Service, ServiceKind};

/// A sentence for each Service that has to do with the packet but does not get it.
pub(super) fn notes(
    planner: &Planner,
    packet: &Packet,
    host: &HostAddresses,
    owner: Option<&PortKey>,
) -> Vec<String> {
    let family = IpFamily::of(&packet.destination);
    let node = planner.plan().node.family(family);
    let answers = node.answers_node_ports(packet.destination, host);
    let mut notes = Vec::new();
    let services = planner.state().services();
    for service in services.filter_map(|(_, entry)| entry.service.as_deref()) {
        let address = addresses(service).find(|(ip, _)| *ip == packet.destination);
        if let Some((_, field)) = address
            && let Some(why) = skipped(service)
        {
            notes.push(format!(
                "Service {} names the address in {field}, but {why}",
                service.name
            ));
            continue;
        }
        if skipped(service).is_some() {
            continue;
        }
        notes.extend(wants(planner, service, packet, answers, owner));
    }
    notes
}

/// Every address a Service mentions, with the field.
fn addresses(service: &Service) -> impl Iterator<Item = (std::net::IpAddr, &'static str)> {
    let cluster_ips = match &service.cluster_ips {
        ClusterIps::Assigned(ips) => &ips[..],
        ClusterIps::Headless | ClusterIps::Unassigned => &[],
    };
    let cluster_ips = cluster_ips.iter().map(|ip| (*ip, "spec.clusterIPs"));
    let external = service.external_ips.iter();
    let external = external.map(|ip| (*ip, "spec.externalIPs"));
    let load_balancer = service.load_balancer.iter();
    let load_balancer = load_balancer.map(|it| (it.ip, "status.loadBalancer"));
    cluster_ips.chain(external).chain(load_balancer)
}

/// Why no proxy of ours serves a Service; `None` when it does.
fn skipped(service: &Service) -> Option<String> {
    if let Some(name) = &service.proxy_name {
        return Some(format!(
            "leaves it to the proxy {name:?} (label service-proxy-name)"
        ));
    }
    let why = match (service.kind, &service.cluster_ips) {
        (ServiceKind::ExternalName, _) => "is an ExternalName: a DNS alias",
        (_, ClusterIps::Headless) => "is headless: clients talk to the endpoints themselves",
        (_, ClusterIps::Unassigned) => "has no ClusterIP yet",
        (_, ClusterIps::Assigned(ips)) if ips.is_empty() => "has no ClusterIP yet",
        _ => return None,
    };
    Some(why.into())
}

/// Notes about a Service that is served: a frontend it lost, or the other ports of the address.
fn wants(
    planner: &Planner,
    service: &Service,
    packet: &Packet,
    answers: bool,
    owner: Option<&PortKey>,
) -> Vec<String> {
    let family = IpFamily::of(&packet.destination);
    let mut notes = Vec::new();
    let mut others = Vec::new();
    let wanted = planner.ports(service, family).flat_map(|(key, wanted)| {
        let frontends = wanted.into_iter().map(|it| it.frontend);
        frontends.map(move |it| (key.clone(), it))
    });
    for (key, frontend) in wanted {
        let here = match frontend {
            Frontend::Address { addr, .. } => addr == packet.destination,
            Frontend::NodePort { .. } => answers,
        };
        if !here {
            continue;
        }
        let exact = frontend.port() == packet.port && frontend.protocol() == packet.protocol;
        match planner.plan().claims.owner(&frontend) {
            Some(holder) if exact && *holder != key => notes.push(format!(
                "Service {} also asks for {frontend}, which belongs to Service {}",
                key.name, holder.name
            )),
            _ if owner.is_none() => {
                others.push(format!("{}/{}", frontend.port(), frontend.protocol()))
            }
            _ => {}
        }
    }
    let proxied = service.load_balancer.iter();
    let mut proxied = proxied.filter(|it| it.mode == IpMode::Proxy);
    if owner.is_none() && proxied.any(|it| it.ip == packet.destination) {
        notes.push(format!(
            "Service {} has the address with ipMode Proxy: the load balancer answers itself",
            service.name
        ));
    }
    if !others.is_empty() {
        others.dedup();
        notes.push(format!(
            "Service {} has at this address: {}",
            service.name,
            others.join(", ")
        ));
    }
    notes
}
