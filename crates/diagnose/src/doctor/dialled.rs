//! What of a Service is dialled: addresses, ports, endpoints. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use sluice_model::Protocol;
use sluice_plan::explain::{Decision, Explanation};
use sluice_plan::inventory::{EndpointDetail, ServiceDetail, ServiceSummary};

use super::path::Hop;
use super::probe::Target;
use super::report::Finding;

/// Services whose clients get no answer.
pub(super) fn dead_services(all: &[ServiceSummary]) -> Finding {
    let dead: Vec<&str> = all
        .iter()
        .filter(|it| it.is_dead)
        .map(|it| &*it.name)
        .collect();
    match dead[..] {
        [] => Finding::ok("services", format!("{}, each with an endpoint", all.len())),
        _ => {
            let shown = dead[..dead.len().min(5)].join(", ");
            let evidence = format!(
                "{} of {} have no ready endpoint: {shown}",
                dead.len(),
                all.len()
            );
            Finding::warn("services", evidence).mend(format!("sluice doctor {}", dead[0]))
        }
    }
}

fn members(service: &ServiceDetail) -> impl Iterator<Item = (&str, &EndpointDetail)> {
    let ports = service.ports.iter();
    ports.flat_map(|port| port.endpoints.iter().map(|it| (&*port.protocol, it)))
}

fn name_of(endpoint: &EndpointDetail) -> String {
    let pod = endpoint
        .pod
        .clone()
        .unwrap_or_else(|| endpoint.address.ip().to_string());
    match &endpoint.node {
        Some(node) => format!("{pod} on {node}"),
        None => pod,
    }
}

/// The endpoints that are in use, each address once.
pub(super) fn hops(service: &ServiceDetail) -> Vec<Hop> {
    let used = members(service).filter(|(_, it)| it.included);
    let hops = used.map(|(_, it)| Hop {
        address: it.address.ip(),
        local: it.local,
        name: format!("{} ({})", it.address.ip(), name_of(it)),
    });
    hops.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Its NodePorts with their protocols.
pub(super) fn node_port_numbers(service: &ServiceDetail) -> BTreeSet<(u16, Protocol)> {
    let ports = service.ports.iter();
    let all = ports.filter_map(|it| Some((it.node_port?, it.protocol.parse().ok()?)));
    all.collect()
}

/// The ClusterIPs that are served.
pub(super) fn cluster_ips(service: &ServiceDetail) -> BTreeSet<IpAddr> {
    let ports = service.ports.iter();
    let frontends = ports.flat_map(|it| it.frontends.iter().zip(&it.roles));
    let own = frontends.filter(|(_, role)| *role == "ClusterIP");
    let address = own.filter_map(|(it, _)| it.split('/').next()?.parse::<SocketAddr>().ok());
    address.map(|it| it.ip()).collect()
}

/// The endpoints in use, then what clients dial.
pub(super) fn targets(service: &ServiceDetail, explanations: &[Explanation]) -> Vec<Target> {
    let used = members(service).filter(|(_, it)| it.included);
    let endpoints =
        used.filter_map(|(protocol, it)| target(it.address, protocol, name_of(it), true));
    let endpoints: BTreeSet<Target> = endpoints.collect();
    let balanced = explanations
        .iter()
        .filter(|it| it.verdict == Decision::Balance);
    let frontends = balanced.filter_map(|it| {
        let role = it.service.as_ref().map_or("the frontend", |it| &*it.role);
        target(it.destination, &it.protocol, role.to_owned(), false)
    });
    let frontends: BTreeSet<Target> = frontends.collect();
    endpoints.into_iter().chain(frontends).collect()
}

fn target(address: SocketAddr, protocol: &str, name: String, is_endpoint: bool) -> Option<Target> {
    Some(Target {
        address,
        protocol: protocol.parse().ok()?,
        name,
        is_endpoint,
    })
}
