//! `spec.ports` of a Service.

use std::collections::HashSet;

use sluice_model::{self as model, ClusterIps, ServiceKind};

use super::{ServicePort, ServiceSpec};
use crate::convert::address::{port, protocol};
use crate::convert::{At, Faults, name};
use crate::kinds::endpoint_slice::MAX_PORTS;

pub(super) fn ports(
    spec: &ServiceSpec,
    kind: ServiceKind,
    cluster_ips: &ClusterIps,
    faults: &mut Faults<'_>,
) -> Vec<model::ServicePort> {
    let (at, list) = (At::top("spec.ports"), &spec.ports);
    let external = kind == ServiceKind::ExternalName;
    let needs_ports = !external && *cluster_ips != ClusterIps::Headless;
    if list.is_empty() && needs_ports {
        faults.refuse(at, "is required");
    }
    // The API server has no limit of its own; more cannot be in any slice.
    if list.len() > MAX_PORTS {
        let why = format!("{} ports, the limit is {MAX_PORTS}", list.len());
        faults.refuse(at, why);
        return Vec::new();
    }
    // Only the API server knows what an unknown type may have.
    let written = spec.kind.as_deref().unwrap_or_default();
    let has_no_node_ports = matches!(written, "" | "ClusterIP" | "ExternalName");
    let mut seen = Seen::default();
    let mut ports = Vec::with_capacity(list.len());
    for (i, api) in list.iter().enumerate() {
        let at = at.index(i);
        let Some(port) = one(api, at, faults) else {
            continue;
        };
        if port.node_port.is_some() && has_no_node_ports {
            faults.refuse(at.field("nodePort"), "needs type NodePort or LoadBalancer");
        }
        if port.name.is_empty() && list.len() > 1 {
            faults.refuse(at.field("name"), "is required when there are several ports");
        }
        seen.check(&port, at, faults);
        ports.push(port);
    }
    ports
}

fn one(api: &ServicePort, at: At<'_>, faults: &mut Faults<'_>) -> Option<model::ServicePort> {
    let name = match api.name.as_deref().unwrap_or_default() {
        "" => Some(""),
        text => faults.take(at.field("name"), name::label(text)),
    };
    // A newer API server may know more.
    let protocol = protocol(api.protocol.as_deref());
    let protocol = protocol.map_err(|why| {
        faults.note(
            at.field("protocol"),
            format!("{why}: this port is not served"),
        );
    });
    let number = api.port.ok_or_else(|| "is required".to_owned());
    let number = faults.take(at.field("port"), number.and_then(port));
    let node_port = match api.node_port {
        None | Some(0) => None,
        Some(number) => faults.take(at.field("nodePort"), port(number)),
    };
    Some(model::ServicePort {
        name: faults.share(name?),
        protocol: protocol.ok()?,
        port: number?,
        node_port,
    })
}

/// The names and numbers that must be unique in one Service.
#[derive(Default)]
struct Seen {
    names: HashSet<std::sync::Arc<str>>,
    ports: HashSet<(sluice_model::Protocol, std::num::NonZeroU16)>,
    node_ports: HashSet<(sluice_model::Protocol, std::num::NonZeroU16)>,
}

impl Seen {
    fn check(&mut self, port: &model::ServicePort, at: At<'_>, faults: &mut Faults<'_>) {
        let model::ServicePort { name, protocol, .. } = port;
        if !name.is_empty() && !self.names.insert(name.clone()) {
            faults.refuse(at.field("name"), format!("{name:?} is there twice"));
        }
        if !self.ports.insert((*protocol, port.port)) {
            let why = format!("{}/{protocol} is there twice", port.port);
            faults.refuse(at.field("port"), why);
        }
        if let Some(number) = port.node_port
            && !self.node_ports.insert((*protocol, number))
        {
            faults.refuse(
                at.field("nodePort"),
                format!("{number}/{protocol} is there twice"),
            );
        }
    }
}
