//! Other Services that name the frontend or the address of a packet.

use std::net::IpAddr;

use crate::lookup::Packet;
use crate::state::HostAddresses;
use crate::{Frontend, Planner, PortKey};
use sluice_model::{ClusterIps, IpFamily, IpMode, LoadBalancerIngress, Service, ServiceKind};

const CLUSTER_IPS: &str = "spec.clusterIPs";

/// A sentence for each Service that names the packet's destination but does not get the packet.
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
    for service in concerned(planner, packet.destination, answers) {
        let Some(why) = skipped(service) else {
            notes.extend(wants(planner, service, packet, answers, owner));
            continue;
        };
        let name = &service.name;
        let address = addresses(service).find(|(ip, _)| *ip == packet.destination);
        notes.extend(
            address.map(|(_, field)| {
                format!("Service {name} names the address in {field}, but {why}")
            }),
        );
    }
    notes
}

/// The Services that may have to do with an address, by name: those that name it, and where it answers on NodePorts those
/// that have any.
fn concerned(planner: &Planner, addr: IpAddr, answers: bool) -> Vec<&Service> {
    let state = planner.state();
    // Nobody names the addresses of the node's DNS server.
    let dns = planner.settings().dns.as_ref();
    let dns = dns.filter(|it| it.addresses.contains(&addr));
    let dns = dns.and_then(|it| state.service(&it.service)?.service.as_deref());
    let mut all: Vec<&Service> = state.naming(addr).chain(dns).collect();
    if answers {
        let services = state.services().filter_map(|(_, it)| it.service.as_deref());
        let has_node_port = |it: &&Service| it.ports.iter().any(|it| it.node_port.is_some());
        all.extend(services.filter(has_node_port));
    }
    all.sort_by_key(|it| &it.name);
    all.dedup_by_key(|it| &it.name);
    all
}

/// Every address that a Service names, with the field.
fn addresses(service: &Service) -> impl Iterator<Item = (IpAddr, &'static str)> {
    let cluster_ips = match &service.cluster_ips {
        ClusterIps::Assigned(ips) => &ips[..],
        ClusterIps::Headless | ClusterIps::Unassigned => &[],
    };
    let cluster_ips = cluster_ips.iter().map(|ip| (*ip, CLUSTER_IPS));
    let external = service.external_ips.iter();
    let external = external.map(|ip| (*ip, "spec.externalIPs"));
    let load_balancer = service.load_balancer.iter();
    let load_balancer = load_balancer.map(|it| (it.ip, "status.loadBalancer"));
    cluster_ips.chain(external).chain(load_balancer)
}

/// Why Sluice does not serve a Service; `None` when it does.
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

/// Why a Service gets no port of an address that it names as an external one; `None` when it may, or
/// does not name it.
fn barred(planner: &Planner, service: &Service, packet: &Packet) -> Option<String> {
    let (name, addr) = (&service.name, packet.destination);
    let named = || addresses(service).filter(|(ip, _)| *ip == addr);
    let (_, field) = named().next()?;
    let is_own = named().any(|(_, it)| it == CLUSTER_IPS);
    let owner = planner.plan().claims.cluster_ip_owner(addr);
    let owner = owner.map(|it| &it.name.service);
    let family = planner.plan().node.family(IpFamily::of(&addr));
    let mut cidrs = family.service_cidrs.iter();
    let cidr = cidrs.find(|it| planner.settings().refuse_shadowing && it.contains(&addr));
    let why = match (owner, cidr) {
        _ if is_own => return None,
        (Some(owner), _) => format!("it is the ClusterIP of Service {owner}"),
        (None, Some(cidr)) => format!("it lies in the ServiceCIDR {cidr}"),
        (None, None) => return None,
    };
    Some(format!(
        "Service {name} names the address in {field}, but {why}"
    ))
}

/// Notes about a Service that is served: a frontend that another one owns, or the other ports of
/// the address.
fn wants(
    planner: &Planner,
    service: &Service,
    packet: &Packet,
    answers: bool,
    owner: Option<&PortKey>,
) -> Vec<String> {
    let family = IpFamily::of(&packet.destination);
    let name = &service.name;
    if let Some(why) = barred(planner, service, packet) {
        return vec![why];
    }
    let (mut notes, mut others) = (Vec::new(), Vec::new());
    for (key, wanted) in planner.ports(service, family) {
        for frontend in wanted.into_iter().map(|it| it.frontend) {
            let (port, protocol) = (frontend.port(), frontend.protocol());
            let is_here = match frontend {
                Frontend::Address { addr, .. } => addr == packet.destination,
                Frontend::NodePort { .. } => answers,
            };
            let is_exact = port == packet.port && protocol == packet.protocol;
            match planner.plan().claims.owner(&frontend) {
                _ if !is_here => {}
                Some(holder) if is_exact && *holder != key => notes.push(format!(
                    "Service {} also asks for {frontend}, which belongs to Service {}",
                    key.name, holder.name
                )),
                _ if owner.is_none() => others.push(format!("{port}/{protocol}")),
                _ => {}
            }
        }
    }
    let is_proxied =
        |it: &LoadBalancerIngress| it.mode == IpMode::Proxy && it.ip == packet.destination;
    if owner.is_none() && service.load_balancer.iter().any(is_proxied) {
        notes.push(format!(
            "Service {name} has the address with ipMode Proxy: the load balancer answers itself"
        ));
    }
    if !others.is_empty() {
        others.dedup();
        let others = others.join(", ");
        notes.push(format!("Service {name} has at this address: {others}"));
    }
    notes
}
