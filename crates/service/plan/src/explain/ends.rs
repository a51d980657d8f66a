//! The two ends of a question: who sends, and where to.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::inventory::listed;
use crate::lookup::Packet;
use crate::port::addresses;
use crate::settings::LocalDetector;
use crate::state::HostAddresses;
use crate::{Frontend, Planner, Role};
use sluice_model::{
    ClusterIps, Endpoint, IpFamily, NamespacedName, Protocol, Service, ServiceKind, ServicePort,
};

/// Addresses of documentation (RFC 5737, RFC 3849), which no node and no pod has: for `outside`.
const OUTSIDE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// Whether an address stands for every machine outside the cluster: `outside` as FROM.
#[must_use]
pub fn is_anybody_outside(ip: IpAddr) -> bool {
    OUTSIDE.contains(&ip)
}

/// The question names no packet. Displays as one line that says what to ask instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unclear(String);

/// An [`Unclear`] as the error of a function.
macro_rules! unclear {
    ($($text:tt)*) => { return Err(Unclear(format!($($text)*))) };
}

/// FROM.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sender {
    Node,
    /// A host outside the cluster.
    Outside,
    /// The owner of this address.
    Address(IpAddr),
    /// A pod by name.
    Pod(NamespacedName),
}

/// TO.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Address {
        ip: IpAddr,
        /// `None` where the address has one port only.
        port: Option<u16>,
        protocol: Option<Protocol>,
    },
    Service {
        name: NamespacedName,
        /// Name or number; `None` for the Service's only port.
        port: Option<String>,
        protocol: Option<Protocol>,
    },
}

/// Address, port and protocol that a client connects to.
type Destination = (SocketAddr, Protocol);

/// The packet from FROM to TO. `host` are the node's addresses.
///
/// FROM: an address, `node`, `outside`, or a pod as `NAMESPACE/NAME`. TO: an address as in
/// `10.96.0.10:53/udp`, a Service as in `default/web:http`, or its DNS name as in
/// `web.default.svc.cluster.local:80`.
///
/// # Errors
///
/// [`Unclear`]: the words are malformed, or name nothing that the planner knows.
pub(super) fn packet(
    from: &str,
    to: &str,
    interface: Option<&str>,
    planner: &Planner,
    host: &HostAddresses,
) -> Result<Packet, Unclear> {
    let sender = parse_sender(from)?;
    let target = parse_target(to)?;
    let sources = sources(&sender, planner, host)?;
    let destinations = destinations(&target, &sender, planner)?;
    let pair = destinations.iter().find_map(|(to, protocol)| {
        let mut same = sources.iter().filter(|it| it.is_ipv4() == to.is_ipv4());
        same.next().map(|source| (*source, *to, *protocol))
    });
    let Some((source, destination, protocol)) = pair else {
        let family = if destinations.iter().any(|(to, _)| to.is_ipv4()) {
            IpFamily::V4
        } else {
            IpFamily::V6
        };
        unclear!("{from} has no {family} address that is known, and {to} has no other");
    };
    let interface = interface.map(Arc::from);
    Ok(Packet {
        source,
        destination: destination.ip(),
        protocol,
        port: destination.port(),
        interface: interface.or_else(|| arrives_through(&sender, planner)),
    })
}

/// The Service that TO names; `None` for an address.
///
/// # Errors
///
/// [`Unclear`]: neither.
pub fn service_of(to: &str) -> Result<Option<NamespacedName>, Unclear> {
    Ok(match parse_target(to)? {
        Target::Service { name, .. } => Some(name),
        Target::Address { .. } => None,
    })
}

/// The pod that FROM names; `None` for anybody else.
#[must_use]
pub fn sender_pod(from: &str) -> Option<NamespacedName> {
    match parse_sender(from) {
        Ok(Sender::Pod(name)) => Some(name),
        _ => None,
    }
}

/// The pod that FROM names; `None` for anybody else, and for a pod of an EndpointSlice, whose addresses
/// are known.
#[must_use]
pub fn pod_of(from: &str, planner: &Planner) -> Option<NamespacedName> {
    sender_pod(from).filter(|it| pods(it, planner).next().is_none())
}

fn parse_sender(text: &str) -> Result<Sender, Unclear> {
    match text {
        "node" => return Ok(Sender::Node),
        "outside" => return Ok(Sender::Outside),
        _ => {}
    }
    if let Ok(ip) = bare(text).parse() {
        return Ok(Sender::Address(ip));
    }
    let Some((namespace, name)) = text.split_once('/') else {
        unclear!(
            "FROM {text:?} names nobody: give an address, `node` for this node, `outside` for any machine outside the \
             cluster (the `client` of a lab is one), or a pod as NAMESPACE/NAME"
        );
    };
    Ok(Sender::Pod(NamespacedName::new(namespace, name)))
}

/// An address without the brackets of a URL, if it has both.
#[must_use]
pub fn bare(text: &str) -> &str {
    let inner = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    inner.unwrap_or(text)
}

/// A DNS name, and what is dialled there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// The name as it was given.
    pub name: &'a str,
    /// Name or number of the port.
    pub port: Option<&'a str>,
    pub protocol: Option<Protocol>,
}

/// The DNS name that TO is; `None` for an address, for a Service as `NAMESPACE/NAME`, and for what is neither.
#[must_use]
pub fn host_of(to: &str) -> Option<Host<'_>> {
    let (rest, protocol) = split_protocol(to).ok()?;
    if rest.contains('/') || bare(rest).parse::<IpAddr>().is_ok() {
        return None;
    }
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (rest, None),
    };
    // No name ends with a number: what does is an address, or should be one.
    let last = name.trim_end_matches('.').rsplit('.').next()?;
    let is_number = last.bytes().all(|it| it.is_ascii_digit());
    let is_address = is_number || port.is_some_and(|it| it.contains(':'));
    (!is_address).then_some(Host {
        name,
        port,
        protocol,
    })
}

fn split_protocol(text: &str) -> Result<(&str, Option<Protocol>), Unclear> {
    match text.rsplit_once('/') {
        Some((rest, last)) if is_protocol(rest, last) => match last.parse() {
            Ok(protocol) => Ok((rest, Some(protocol))),
            Err(error) => unclear!("TO {text:?}: {error}"),
        },
        _ => Ok((text, None)),
    }
}

fn parse_target(text: &str) -> Result<Target, Unclear> {
    let (rest, protocol) = split_protocol(text)?;
    if let Ok(addr) = rest.parse::<SocketAddr>() {
        return Ok(Target::Address {
            ip: addr.ip(),
            port: Some(addr.port()),
            protocol,
        });
    }
    if let Ok(ip) = bare(rest).parse() {
        return Ok(Target::Address {
            ip,
            port: None,
            protocol,
        });
    }
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, Some(port.to_owned())),
        None => (rest, None),
    };
    let name = match name.split_once('/') {
        Some((namespace, name)) => Some((namespace, name)),
        None => of_dns(name),
    };
    match name {
        Some((namespace, name))
            if ![namespace, name]
                .iter()
                .any(|it| it.is_empty() || it.contains('/')) =>
        {
            Ok(Target::Service {
                name: NamespacedName::new(namespace, name),
                port,
                protocol,
            })
        }
        _ => unclear!(
            "TO {text:?} is neither ADDRESS:PORT[/PROTOCOL], nor a Service as \
             NAMESPACE/NAME[:PORT][/PROTOCOL] or NAME.NAMESPACE.svc[:PORT]"
        ),
    }
}

/// Whether the part behind the last slash is a protocol: it is when an address is before it, and when
/// a slash has separated namespace and name already.
fn is_protocol(rest: &str, last: &str) -> bool {
    let is_known = last.parse::<Protocol>().is_ok();
    let is_address = rest.parse::<SocketAddr>().is_ok() || bare(rest).parse::<IpAddr>().is_ok();
    is_address || rest.contains('/') || (is_known && rest.contains(['.', ':']))
}

/// Namespace and name of a Service by its DNS name: `web.default`, `web.default.svc`,
/// `web.default.svc.cluster.local`.
fn of_dns(name: &str) -> Option<(&str, &str)> {
    let mut labels = name.trim_end_matches('.').split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    labels
        .next()
        .is_none_or(|it| it == "svc")
        .then_some((namespace, service))
}

fn sources(
    sender: &Sender,
    planner: &Planner,
    host: &HostAddresses,
) -> Result<Vec<IpAddr>, Unclear> {
    match sender {
        Sender::Address(ip) => Ok(vec![*ip]),
        Sender::Outside => Ok(OUTSIDE.to_vec()),
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
                unclear!(
                    "pod {name} is in no EndpointSlice, which is where its address would be: give \
                     the address instead (kubectl -n {} get pod {} -o wide)",
                    name.namespace,
                    name.name
                );
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

fn destinations(
    target: &Target,
    sender: &Sender,
    planner: &Planner,
) -> Result<Vec<Destination>, Unclear> {
    match target {
        Target::Address { ip, port, protocol } => {
            let addr = |port| SocketAddr::new(*ip, port);
            match port {
                Some(port) => Ok(vec![(addr(*port), protocol.unwrap_or(Protocol::Tcp))]),
                None => only_port_at(*ip, *protocol, planner)
                    .map(|(port, protocol)| vec![(addr(port), protocol)]),
            }
        }
        Target::Service {
            name,
            port,
            protocol,
        } => {
            let service = known(name, planner)?;
            let port = self::port(service, port.as_deref(), *protocol)?;
            Ok(dialled(service, port, sender, planner))
        }
    }
}

/// The port that clients dial at an address without one.
fn only_port_at(
    ip: IpAddr,
    protocol: Option<Protocol>,
    planner: &Planner,
) -> Result<(u16, Protocol), Unclear> {
    let frontends = planner.plan().ports.values().flat_map(|it| &it.frontends);
    let here = frontends.map(|it| it.frontend).filter(|it| match it {
        Frontend::Address { addr, .. } => *addr == ip,
        Frontend::NodePort { .. } => false,
    });
    let here = here.filter(|it| protocol.is_none_or(|wanted| wanted == it.protocol()));
    let here: Vec<_> = here.map(|it| (it.port(), it.protocol())).collect();
    match here[..] {
        [only] => Ok(only),
        [] => unclear!(
            "no Service has the address {ip}: give it with a port, as in {}",
            SocketAddr::new(ip, 80)
        ),
        _ => {
            let all: Vec<_> = here
                .iter()
                .map(|(port, protocol)| format!("{port}/{protocol}"))
                .collect();
            unclear!(
                "{ip} has several ports, give one of them: {}",
                all.join(", ")
            )
        }
    }
}

/// A Service that proxies serve.
fn known<'a>(name: &NamespacedName, planner: &'a Planner) -> Result<&'a Service, Unclear> {
    let entry = planner.state().service(name);
    let Some(service) = entry.and_then(|it| it.service.as_deref()) else {
        unclear!("{}", unknown(name, planner));
    };
    if service.kind == ServiceKind::ExternalName {
        unclear!("Service {name} is an ExternalName: a DNS alias, with which no packet has to do");
    }
    match &service.cluster_ips {
        ClusterIps::Assigned(ips) if !ips.is_empty() => Ok(service),
        ClusterIps::Headless => unclear!(
            "Service {name} is headless: its DNS name leads to the endpoints themselves, without a \
             proxy: {}",
            listed(
                entry
                    .into_iter()
                    .flat_map(|it| it.slices.values())
                    .flat_map(|it| &it.endpoints)
                    .map(|it| it.address)
            )
        ),
        _ => unclear!("Service {name} has no ClusterIP: nothing has allocated one yet"),
    }
}

/// Why a Service is not known, with the nearest name.
#[must_use]
pub fn unknown(name: &NamespacedName, planner: &Planner) -> String {
    let served = planner.state().services();
    let known: Vec<_> = served
        .filter(|(_, it)| it.service.is_some())
        .map(|(name, _)| name)
        .collect();
    let word = name.to_string();
    let mut problems = planner.problems().filter(|(_, it)| it.contains(&word));
    if let Some((origin, problem)) = problems.next() {
        return format!("there is no usable Service {name}: {origin}: {problem}");
    }
    if known.is_empty() {
        return format!("there is no Service {name}: no Service is known at all");
    }
    let near: Vec<String> = known
        .into_iter()
        .filter(|it| {
            it.name == name.name || it.namespace == name.namespace && is_near(&it.name, &name.name)
        })
        .map(ToString::to_string)
        .collect();
    let hint = if near.is_empty() {
        String::new()
    } else {
        format!(": did you mean {}?", listed(near))
    };
    format!(
        "there is no Service {name} (from an API server, headless ones and those of another proxy \
         are not read){hint}"
    )
}

/// Whether one inserted, deleted or replaced letter, or two swapped ones, make one name the other.
fn is_near(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[start..], &other[start..]);
    let end = one
        .iter()
        .rev()
        .zip(other.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    match (&one[..one.len() - end], &other[..other.len() - end]) {
        ([a, b], [c, d]) => a == d && b == c,
        (one, other) => one.len() <= 1 && other.len() <= 1,
    }
}

/// A port that clients dial: its number and protocol, and the Service's port if it has this one.
type Dialled<'a> = (u16, Protocol, Option<&'a ServicePort>);

/// The port that the words mean.
fn port<'a>(
    service: &'a Service,
    wanted: Option<&str>,
    protocol: Option<Protocol>,
) -> Result<Dialled<'a>, Unclear> {
    let name = &service.name;
    let is_meant = |it: &&ServicePort| {
        let by_name = |wanted: &str| *it.name == *wanted || it.port.to_string() == wanted;
        wanted.is_none_or(by_name) && protocol.is_none_or(|protocol| it.protocol == protocol)
    };
    let meant: Vec<&ServicePort> = service.ports.iter().filter(is_meant).collect();
    match meant[..] {
        [port] => Ok((port.port.get(), port.protocol, Some(port))),
        // What happens at a port that the Service does not have is an answer, too.
        [] => match wanted.and_then(|it| it.parse().ok()) {
            Some(number) => Ok((number, protocol.unwrap_or(Protocol::Tcp), None)),
            None => unclear!(
                "Service {name} has no such port: it has {}",
                list(&service.ports)
            ),
        },
        _ => unclear!(
            "Service {name} has several such ports, give one of them: {}",
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

/// What a client dials: inside the cluster the ClusterIP, outside it the load balancer's address, an
/// external IP or a NodePort, if the Service has one.
fn dialled(
    service: &Service,
    (number, protocol, port): Dialled<'_>,
    sender: &Sender,
    planner: &Planner,
) -> Vec<Destination> {
    let all = IpFamily::ALL
        .into_iter()
        .flat_map(|family| addresses(service, family));
    let (internal, external): (Vec<_>, Vec<_>) =
        all.partition(|(_, role)| *role == Role::ClusterIp);
    let at = |(ip, _)| (SocketAddr::new(ip, number), protocol);
    let mut found = Vec::new();
    if *sender == Sender::Outside {
        found.extend(external.into_iter().map(at));
        if let Some(node_port) = port.and_then(|it| it.node_port) {
            let node = &planner.plan().node;
            let nodes = IpFamily::ALL
                .into_iter()
                .filter_map(|it| node.family(it).node_ip);
            found.extend(nodes.map(|ip| (SocketAddr::new(ip, node_port.get()), protocol)));
        }
    }
    found.extend(internal.into_iter().map(at));
    found
}
