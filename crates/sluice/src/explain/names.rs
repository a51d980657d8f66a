//! TO as a DNS name: what the resolver of FROM finds, and where its packets go.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use anyhow::bail;
use sluice_model::Protocol;
use sluice_plan::explain::{self, Explanation, Host};
use sluice_zone::{Destination, Resolution, Step, StepResult};

use crate::resolution;
use crate::view::View;

/// Protocols whose named ports are looked for, the usual first.
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// The answer of the resolver, and the destination.
pub(super) struct Found<'a> {
    pub(super) client: Client<'a>,
    pub(super) resolution: Resolution,
    /// In the order of the records, each once; none when the name leads to no address that is known here.
    pub(super) dialled: Vec<(SocketAddr, Protocol)>,
}

/// The sender of the packet.
pub(super) struct Client<'a> {
    view: &'a View,
    from: &'a str,
    /// Those of its Pod: EndpointSlices have only pods that serve.
    addresses: Vec<IpAddr>,
}

impl Client<'_> {
    /// Explains a packet of this client.
    pub(super) fn explain(&self, to: &str, interface: Option<&str>) -> anyhow::Result<Explanation> {
        let by_name = self.view.explain(self.from, to, interface);
        by_name.or_else(|error| {
            let mut addresses = self.addresses.iter().map(ToString::to_string);
            let found = addresses.find_map(|it| self.view.explain(&it, to, interface).ok());
            found.ok_or(error)
        })
    }
}

/// A number and a protocol that are dialled at every address.
type Port = (u16, Protocol);

/// Looks a name up as FROM does. `None` when nobody looks it up: it is only another spelling of a Service, as in
/// `outside web.default.svc`.
pub(super) fn look_up<'a>(
    view: &'a View,
    from: &'a str,
    to: &str,
    host: &Host<'_>,
) -> anyhow::Result<Option<Found<'a>>> {
    let is_service = explain::service_of(to).is_ok();
    // Machines outside have other servers, and an agent without a DNS server knows names of Services only.
    if is_service && (from == "outside" || !view.has_names()?) {
        return Ok(None);
    }
    if from == "outside" {
        let name = host.name;
        bail!(
            "clients outside do not ask the cluster's DNS: give a Service or an address in place of {name}"
        );
    }
    let asker = (from != "node").then(|| explain::bare(from));
    let mut resolution = view.resolve(host.name, types(host, asker), asker)?;
    let last = resolution.steps.last().cloned();
    let is_short = resolution.pod.is_none() && !host.name.ends_with('.');
    let is_elsewhere = last
        .as_ref()
        .is_some_and(|it| it.result == StepResult::Elsewhere);
    if is_short && is_elsewhere && is_service && view.explain(from, to, None).is_ok() {
        return Ok(None);
    }
    let client = Client {
        view,
        from,
        addresses: resolution.pod_addresses.clone(),
    };
    let mut dialled = Vec::new();
    if let Some(step) = last.filter(|it| it.result == StepResult::Found) {
        let step = followed(view, &mut resolution, step)?;
        for it in dial(&client, host, &step)? {
            if !dialled.contains(&it) {
                dialled.push(it);
            }
        }
    }
    Ok(Some(Found {
        client,
        resolution,
        dialled,
    }))
}

/// The step of the name at the end of the aliases. One outside the cluster becomes a step of the search.
fn followed(view: &View, search: &mut Resolution, step: Step) -> anyhow::Result<Step> {
    let Some(target) = &step.alias_of else {
        return Ok(step);
    };
    let mut end = view.resolve(target, &search.record_types, None)?;
    let Some(end) = end.steps.pop() else {
        return Ok(step);
    };
    if end.result == StepResult::Elsewhere {
        search.steps.push(end.clone());
    }
    Ok(end)
}

/// The records that a client of the name asks for: a sender of one family has no use for the other.
fn types(host: &Host<'_>, asker: Option<&str>) -> &'static str {
    match asker.map(str::parse) {
        _ if of_srv(host.name).is_some() => "SRV",
        Some(Ok(IpAddr::V4(_))) => "A",
        Some(Ok(IpAddr::V6(_))) => "AAAA",
        _ => "A,AAAA",
    }
}

/// The protocol of a name like `_http._tcp.web.default.svc`.
fn of_srv(name: &str) -> Option<Protocol> {
    let mut labels = name.split('.');
    labels.next().filter(|it| it.starts_with('_'))?;
    labels
        .next()?
        .strip_prefix('_')?
        .to_ascii_lowercase()
        .parse()
        .ok()
}

/// Addresses with the ports that are meant.
fn dial(
    client: &Client<'_>,
    host: &Host<'_>,
    step: &Step,
) -> anyhow::Result<Vec<(SocketAddr, Protocol)>> {
    if step.destinations.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(protocol) = of_srv(host.name) {
        return Ok(with_ports(&step.destinations, protocol).collect());
    }
    let (number, protocol) = match (&step.cluster_ip_of, host.port.map(|it| (it, it.parse()))) {
        (Some(service), _) => of_service(client, service, host)?,
        (None, Some((_, Ok(number)))) => (number, host.protocol.unwrap_or(Protocol::Tcp)),
        (None, Some((name, Err(_)))) => return named(client, host, step, name),
        (None, None) => only(client, host, step)?,
    };
    let all = step.destinations.iter();
    Ok(all
        .map(|it| (SocketAddr::new(it.address, number), protocol))
        .collect())
}

fn with_ports(
    all: &[Destination],
    protocol: Protocol,
) -> impl Iterator<Item = (SocketAddr, Protocol)> {
    let all = all
        .iter()
        .filter_map(|it| Some(SocketAddr::new(it.address, it.port?)));
    all.map(move |it| (it, protocol))
}

/// The port of a Service with a ClusterIP.
fn of_service(client: &Client<'_>, service: &str, host: &Host<'_>) -> anyhow::Result<Port> {
    let mut to = service.to_owned();
    to.extend(host.port.map(|it| format!(":{it}")));
    to.extend(host.protocol.map(|it| format!("/{it}")));
    let found = client.explain(&to, None)?;
    Ok((found.destination.port(), found.protocol.parse()?))
}

/// Endpoints with a port of this name, which may have another number at each.
fn named(
    client: &Client<'_>,
    host: &Host<'_>,
    step: &Step,
    name: &str,
) -> anyhow::Result<Vec<(SocketAddr, Protocol)>> {
    let is_wanted = |it: &Protocol| host.protocol.is_none_or(|own| own == *it);
    // Ports have names below the Service, not below one endpoint.
    let above = step.name.split_once('.').map(|(_, it)| it);
    let mut dialled = Vec::new();
    for owner in [Some(&*step.name), above].into_iter().flatten() {
        for protocol in PROTOCOLS.into_iter().filter(is_wanted) {
            let srv = format!("_{name}._{protocol}.{owner}");
            let found = client.view.resolve(&srv, "SRV", None)?;
            let found = found.steps.iter();
            let found = found.flat_map(|it| with_ports(&it.destinations, protocol));
            let is_meant = |it: &(SocketAddr, Protocol)| {
                let mut own = step.destinations.iter();
                own.any(|own| own.address == it.0.ip())
            };
            dialled.extend(found.filter(is_meant));
        }
    }
    if dialled.is_empty() {
        bail!("no endpoint of {} has a port called {name}", step.name);
    }
    Ok(dialled)
}

/// The only port of endpoints.
fn only(client: &Client<'_>, host: &Host<'_>, step: &Step) -> anyhow::Result<Port> {
    let found = client.view.resolve(&step.name, "SRV", None)?;
    let all = found.steps.iter().flat_map(|it| &it.destinations);
    let all: BTreeSet<u16> = all.filter_map(|it| it.port).collect();
    let ports: Vec<String> = all.iter().map(u16::to_string).collect();
    match all.first() {
        Some(port) if all.len() == 1 => Ok((*port, host.protocol.unwrap_or(Protocol::Tcp))),
        None => bail!(
            "{} says no port: give one, as in {}:80",
            step.name,
            host.name
        ),
        Some(port) => bail!(
            "{} has several ports, give one of them ({}), as in {}:{port}",
            step.name,
            ports.join(", "),
            host.name
        ),
    }
}

/// The search, for people.
pub(super) fn text(found: &Found<'_>) -> String {
    let Resolution { name, pod, .. } = &found.resolution;
    let head = match pod {
        Some(pod) => format!("{name} with the search path of pod {pod}"),
        None => format!("{name} without a search path"),
    };
    let mut text = format!("{head}\n{}", resolution::text(&found.resolution));
    let last = found.resolution.steps.last();
    if last.is_some_and(|it| it.result == StepResult::Elsewhere) {
        text += match pod {
            Some(_) => "nobody was asked: give an address in place of the name\n",
            None => "FROM has no search path: give a pod as NAMESPACE/NAME, or the whole name\n",
        };
    }
    text
}
