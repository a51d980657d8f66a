//! Why a packet goes to no endpoint, and what is near its destination.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::explain::Hit;
use crate::lookup::{Lookup, Packet};
use crate::state::HostAddresses;
use crate::{Frontend, Planner, PortKey};
use sluice_model::IpFamily;

/// The reason of a verdict without endpoints, with what the objects say about it.
pub(super) fn why(
    planner: &Planner,
    owner: Option<&PortKey>,
    hit: Option<&Hit>,
    reason: &str,
) -> String {
    let (Some(owner), Some(hit)) = (owner, hit) else {
        return reason.to_owned();
    };
    if hit.source_ranges.as_ref().is_some_and(|it| !it.admitted) {
        return reason.to_owned();
    }
    let more = if hit.endpoints.is_empty() {
        without_endpoints(planner, owner)
    } else {
        with_endpoints(hit)
    };
    format!("{reason} ({more})")
}

fn without_endpoints(planner: &Planner, owner: &PortKey) -> String {
    let service = &owner.name.service;
    let entry = planner.state().service(service);
    let slices = || entry.into_iter().flat_map(|it| it.slices_of(owner.family));
    if slices().next().is_none() {
        return format!(
            "no {} EndpointSlice has the label kubernetes.io/service-name={}",
            owner.family, service.name
        );
    }
    let count: usize = slices().map(|it| it.endpoints.len()).sum();
    match count {
        0 => {
            "its EndpointSlices have no endpoint: does its selector match a running pod?".to_owned()
        }
        _ => format!(
            "none of the {count} endpoints in its EndpointSlices has this port's name and protocol"
        ),
    }
}

fn with_endpoints(hit: &Hit) -> String {
    let all = hit.endpoints.len();
    let ready = hit.endpoints.iter().filter(|it| it.ready).count();
    if ready == 0 {
        return format!("0 of {all} ready");
    }
    let elsewhere = hit.endpoints.iter().filter(|it| it.ready);
    let nodes: BTreeSet<&str> = elsewhere
        .clone()
        .filter_map(|it| it.node.as_deref())
        .collect();
    let nowhere = elsewhere.filter(|it| it.node.is_none()).count();
    let nodes: Vec<&str> = nodes.into_iter().collect();
    let mut parts = Vec::new();
    match &nodes[..] {
        [] => {}
        nodes if nodes.len() > 5 => parts.push(format!("they are on {} other nodes", nodes.len())),
        nodes => parts.push(format!("they are on {}", nodes.join(", "))),
    }
    if nowhere > 0 {
        parts.push(format!(
            "{nowhere} of {all} have no nodeName, and so are on no node"
        ));
    }
    parts.join("; ")
}

/// What the kernel makes of a packet to an address of the link: it forwards none that comes from such an address, as those of
/// clients do (`ip6_forward` in `net/ipv6/ip6_output.c`).
pub(super) fn of_link(packet: &Packet) -> Option<&'static str> {
    let IpAddr::V6(ip) = packet.destination else {
        return None;
    };
    ip.is_unicast_link_local().then_some(
        ", but the kernel refuses: clients of an address of the link have one, too, and nothing from there is forwarded",
    )
}

/// Sentences about a destination that is no frontend, but is an endpoint or nearly a NodePort.
pub(super) fn near(
    planner: &Planner,
    packet: &Packet,
    host: &HostAddresses,
    lookup: &Lookup<'_>,
) -> Vec<String> {
    if lookup.found.is_some() {
        return Vec::new();
    }
    let mut notes = endpoints(planner, packet);
    notes.extend(node_port(planner, packet, host));
    notes
}

/// The Services whose endpoint the destination is.
fn endpoints(planner: &Planner, packet: &Packet) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, entry) in planner.state().services() {
        for slice in entry.slices_of(IpFamily::of(&packet.destination)) {
            let mut endpoints = slice.endpoints.iter();
            let Some(endpoint) = endpoints.find(|it| it.address == packet.destination) else {
                continue;
            };
            let pod = endpoint.target.as_deref().unwrap_or("an endpoint");
            let is_port = |port: u16, protocol| port == packet.port && protocol == packet.protocol;
            let has = slice
                .ports
                .iter()
                .any(|it| is_port(it.port.get(), it.protocol));
            let which = if has {
                "".to_owned()
            } else {
                let ports = slice.ports.iter();
                let ports = ports.map(|it| format!("{}/{}", it.port, it.protocol));
                let ports: Vec<_> = ports.take(5).collect();
                format!(", which has there: {}", ports.join(", "))
            };
            notes.push(format!(
                "the address is that of {pod} of Service {name} (EndpointSlice {}){which}: packets go \
                 straight to it",
                slice.name
            ));
        }
    }
    notes
}

/// Why the number of a NodePort is none at this address.
fn node_port(planner: &Planner, packet: &Packet, host: &HostAddresses) -> Option<String> {
    let frontend = Frontend::NodePort {
        family: IpFamily::of(&packet.destination),
        port: packet.port,
        protocol: packet.protocol,
    };
    let owner = planner.plan().claims.owner(&frontend)?;
    let why = if host.contains(&packet.destination) {
        "NodePorts are not served at this address of the node: see --nodeport-addresses"
    } else {
        "the address is none of this node"
    };
    Some(format!(
        "{}/{} is a NodePort of Service {}, but {why}",
        packet.port, packet.protocol, owner.name
    ))
}
