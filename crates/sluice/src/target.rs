//! Parses FROM and TO of `sluice explain`.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, bail};
use sluice_model::{ClusterIps, Endpoint, IpFamily, NamespacedName, Protocol, ServicePort};
use sluice_plan::Planner;
use sluice_plan::lookup::{HostAddresses, Packet};
use sluice_plan::settings::LocalDetector;

/// FROM.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sender {
    /// This node.
    Node,
    /// The owner of this address.
    Address(IpAddr),
    /// A pod by name.
    Pod(NamespacedName),
}

/// TO.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Address {
        addr: SocketAddr,
        protocol: Protocol,
    },
    Service {
        name: NamespacedName,
        /// Name or number; `None` for the Service's only port.
        port: Option<String>,
        protocol: Option<Protocol>,
    },
}

/// The packet from FROM to TO in the planned cluster. `host` are the node's addresses.
pub(crate) fn packet(
    from: &str,
    to: &str,
    interface: Option<&str>,
    planner: &Planner,
    host: &HostAddresses,
) -> anyhow::Result<Packet> {
    let sender = parse_sender(from)?;
    let target = parse_target(to)?;
    let sources = sources(&sender, planner, host)?;
    let (destinations, protocol) = destinations(&target, planner)?;
    let pair = destinations.iter().find_map(|to| {
        let mut same = sources.iter().filter(|it| it.is_ipv4() == to.is_ipv4());
        same.next().map(|source| (*source, *to))
    });
    let (source, destination) =
        pair.with_context(|| format!("{from} and {to} have no address family in common"))?;
    let interface = interface.map(Arc::from);
    Ok(Packet {
        source,
        destination: destination.ip(),
        protocol,
        port: destination.port(),
        interface: interface.or_else(|| arrives_through(&sender, planner)),
    })
}

fn parse_sender(text: &str) -> anyhow::Result<Sender> {
    if text == "node" {
        return Ok(Sender::Node);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse() {
        return Ok(Sender::Address(ip));
    }
    let Some((namespace, name)) = text.split_once('/') else {
        bail!("FROM {text:?} is no address, not `node`, and no pod as NAMESPACE/NAME");
    };
    Ok(Sender::Pod(NamespacedName::new(namespace, name)))
}

fn parse_target(text: &str) -> anyhow::Result<Target> {
    let parts: Vec<&str> = text.split('/').collect();
    let address = parts[0].parse::<SocketAddr>();
    match (address, &parts[..]) {
        (Ok(addr), [_]) => Ok(Target::Address {
            addr,
            protocol: Protocol::Tcp,
        }),
        (Ok(addr), [_, protocol]) => Ok(Target::Address {
            addr,
            protocol: protocol.parse().with_context(|| format!("TO {text:?}"))?,
        }),
        (Err(_), [namespace, service]) => Ok(service_target(namespace, service, None)),
        (Err(_), [namespace, service, protocol]) => {
            let protocol = protocol.parse().with_context(|| format!("TO {text:?}"))?;
            Ok(service_target(namespace, service, Some(protocol)))
        }
        _ => bail!(
            "TO {text:?} is neither ADDRESS:PORT[/PROTOCOL] nor a Service as \
             NAMESPACE/NAME[:PORT][/PROTOCOL]"
        ),
    }
}

fn service_target(namespace: &str, service: &str, protocol: Option<Protocol>) -> Target {
    let (name, port) = match service.split_once(':') {
        Some((name, port)) => (name, Some(port.to_owned())),
        None => (service, None),
    };
    Target::Service {
        name: NamespacedName::new(namespace, name),
        port,
        protocol,
    }
}

fn sources(
    sender: &Sender,
    planner: &Planner,
    host: &HostAddresses,
) -> anyhow::Result<Vec<IpAddr>> {
    match sender {
        Sender::Address(ip) => Ok(vec![*ip]),
        Sender::Node => {
            let node = &planner.plan().node;
            let primary = IpFamily::ALL.into_iter();
            let primary = primary.filter_map(|it| node.family(it).node_ip);
            let others = host.iter().copied().filter(|it| !it.is_loopback());
            Ok(primary.chain(others).collect())
        }
        Sender::Pod(name) => {
            let pods: Vec<IpAddr> = pods(name, planner).map(|it| it.address).collect();
            if pods.is_empty() {
                bail!("pod {name} is in no EndpointSlice: give its address instead");
            }
            Ok(pods)
        }
    }
}

/// The endpoints of a pod, which may be in slices of both families.
fn pods<'a>(name: &NamespacedName, planner: &'a Planner) -> impl Iterator<Item = &'a Endpoint> {
    let NamespacedName { namespace, name } = name.clone();
    let entries = planner.state().services();
    let slices = entries.flat_map(|(_, entry)| entry.slices.values());
    let slices = slices.filter(move |it| it.name.namespace == namespace);
    let endpoints = slices.flat_map(|it| &it.endpoints);
    endpoints.filter(move |it| it.target.as_ref() == Some(&name))
}

/// The interface on which a pod's packet arrives, where the node recognises pods by interface.
fn arrives_through(sender: &Sender, planner: &Planner) -> Option<Arc<str>> {
    let Sender::Pod(name) = sender else {
        return None;
    };
    let settings = planner.settings();
    let here = Some(&settings.node_name);
    pods(name, planner).find(|it| it.node.as_ref() == here)?;
    match &settings.local_detector {
        LocalDetector::Bridge(name) | LocalDetector::InterfacePrefix(name) => Some(name.clone()),
        LocalDetector::None | LocalDetector::ClusterCidrs(_) | LocalDetector::NodeCidr => None,
    }
}

fn destinations(target: &Target, planner: &Planner) -> anyhow::Result<(Vec<SocketAddr>, Protocol)> {
    let (name, wanted, protocol) = match target {
        Target::Address { addr, protocol } => return Ok((vec![*addr], *protocol)),
        Target::Service {
            name,
            port,
            protocol,
        } => (name, port.as_deref(), *protocol),
    };
    let entry = planner.state().service(name);
    let service = entry.and_then(|it| it.service.as_ref());
    let service = service.with_context(|| format!("there is no Service {name}"))?;
    let ClusterIps::Assigned(ips) = &service.cluster_ips else {
        bail!("Service {name} has no ClusterIP: clients talk to its endpoints directly");
    };
    let is_meant = |it: &&ServicePort| {
        let by_name = |wanted: &str| *it.name == *wanted || it.port.to_string() == wanted;
        wanted.is_none_or(by_name) && protocol.is_none_or(|protocol| it.protocol == protocol)
    };
    let meant: Vec<&ServicePort> = service.ports.iter().filter(is_meant).collect();
    match meant[..] {
        [port] => {
            let addr = |ip: &IpAddr| SocketAddr::new(*ip, port.port.get());
            Ok((ips.iter().map(addr).collect(), port.protocol))
        }
        [] => bail!(
            "Service {name} has no such port: it has {}",
            list(&service.ports)
        ),
        _ => bail!(
            "Service {name} has several such ports: {}",
            list(&service.ports)
        ),
    }
}

fn list(ports: &[ServicePort]) -> String {
    let all = ports.iter().map(|it| {
        let name = match &*it.name {
            "" => String::new(),
            name => format!("{name} "),
        };
        format!("{name}{}/{}", it.port, it.protocol)
    });
    all.collect::<Vec<_>>().join(", ")
}
