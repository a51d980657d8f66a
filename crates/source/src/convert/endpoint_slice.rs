//! EndpointSlices.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use sluice_model::{AddressType, Conditions, Endpoint, EndpointPort, EndpointSlice, IpFamily};

use super::address::{not_special, one_of, parse_ip, port, protocol};
use super::fault::{At, Converted, Faults};
use super::{Interner, name};
use crate::api;
use sluice_yaml::quoted;

/// The API server's limits per slice (`pkg/apis/discovery/validation`, 1.36).
const MAX_ENDPOINTS: usize = 1_000;
const MAX_ADDRESSES: usize = 100;
pub(super) const MAX_PORTS: usize = 20_000;

/// Converts an EndpointSlice.
///
/// An endpoint without address, and a port without name or number, mean nothing to a proxy and
/// are left out without a word. A port number out of range is left out and reported. Any other
/// problem refuses the slice.
pub fn endpoint_slice(api: &api::EndpointSlice, names: &mut Interner) -> Converted<EndpointSlice> {
    let mut faults = Faults::default();
    let name = name::namespaced(&api.metadata, name::subdomain, names, &mut faults);
    let address_type = address_type(api.address_type.as_deref(), &mut faults);
    let service = service(&api.metadata, names, &mut faults);
    let ports = ports(&api.ports, names, &mut faults);
    let mut endpoints = address_type
        .map(|kind| endpoints(&api.endpoints, kind, names, &mut faults))
        .unwrap_or_default();
    weigh(&mut endpoints, &api.metadata, &mut faults);
    let object = name
        .zip(address_type)
        .map(|(name, address_type)| EndpointSlice {
            name,
            service,
            headless: api.metadata.labels.headless.is_some(),
            address_type,
            ports,
            endpoints,
            triggered: triggered(&api.metadata),
        });
    faults.finish(object)
}

/// Only measured by, so one that cannot be read is no problem of the slice.
fn triggered(metadata: &api::ObjectMeta) -> Option<i64> {
    let text = metadata.annotations.trigger_time.as_deref()?;
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_millisecond())
}

/// Gives the endpoints the weights of the annotation. What it says wrongly is left out: an
/// endpoint without a weight has that of all others.
fn weigh(endpoints: &mut [Endpoint], meta: &api::ObjectMeta, faults: &mut Faults) {
    let Some(text) = meta.annotations.endpoint_weights.as_deref() else {
        return;
    };
    let metadata = At::top("metadata");
    let annotations = metadata.field("annotations");
    let at = annotations.field("sluice.dev/endpoint-weights");
    let mut weights = BTreeMap::new();
    for entry in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let parsed = entry.split_once('=').and_then(|(address, weight)| {
            let address: IpAddr = address.trim().parse().ok()?;
            Some((address, weight.trim().parse::<u16>().ok()?))
        });
        match parsed {
            None => {
                let why = format!(
                    "{} is not ADDRESS=WEIGHT with a weight in 0..=65535: ignored",
                    quoted(entry)
                );
                faults.note(at, why);
            }
            Some((address, weight)) => {
                weights.insert(address, weight);
            }
        }
    }
    for endpoint in endpoints {
        if let Some(weight) = weights.remove(&endpoint.address) {
            endpoint.weight = weight;
        }
    }
    for address in weights.keys() {
        faults.note(
            at,
            format!("{address} is no endpoint of the slice: ignored"),
        );
    }
}

fn address_type(text: Option<&str>, faults: &mut Faults) -> Option<AddressType> {
    let known = match text.unwrap_or_default() {
        "IPv4" => Ok(AddressType::Ipv4),
        "IPv6" => Ok(AddressType::Ipv6),
        "FQDN" => Ok(AddressType::Fqdn),
        "" => Err("is required".to_owned()),
        other => Err(one_of(other, "IPv4, IPv6, FQDN")),
    };
    faults.take(At::top("addressType"), known)
}

fn service(meta: &api::ObjectMeta, names: &mut Interner, faults: &mut Faults) -> Option<Arc<str>> {
    let text = meta.labels.service_name.as_deref()?;
    if text.is_empty() {
        return None;
    }
    let metadata = At::top("metadata");
    let labels = metadata.field("labels");
    faults
        .take(
            labels.field("kubernetes.io/service-name"),
            name::label(text),
        )
        .map(|it| names.share(it))
}

fn ports(
    list: &[api::EndpointPort],
    names: &mut Interner,
    faults: &mut Faults,
) -> Vec<EndpointPort> {
    let at = At::top("ports");
    if list.len() > MAX_PORTS {
        faults.refuse(
            at,
            format!("{} ports, the limit is {MAX_PORTS}", list.len()),
        );
        return Vec::new();
    }
    let mut ports = Vec::with_capacity(list.len());
    let mut seen = std::collections::HashSet::new();
    for (i, entry) in list.iter().enumerate() {
        let at = at.index(i);
        let (Some(name), Some(number)) = (entry.name.as_deref(), entry.port) else {
            continue;
        };
        if !name.is_empty() && faults.take(at.field("name"), name::label(name)).is_none() {
            continue;
        }
        let protocol = protocol(entry.protocol.as_deref());
        let Some(protocol) = faults.take(at.field("protocol"), protocol) else {
            continue;
        };
        if !seen.insert((name, protocol)) {
            faults.refuse(at.field("name"), format!("{name:?} is there twice"));
            continue;
        }
        match port(number) {
            Ok(port) => ports.push(EndpointPort {
                name: names.share(name),
                protocol,
                port,
            }),
            Err(why) => faults.note(at.field("port"), format!("{why}: ignored")),
        }
    }
    ports
}

fn endpoints(
    list: &[api::Endpoint],
    kind: AddressType,
    names: &mut Interner,
    faults: &mut Faults,
) -> Vec<Endpoint> {
    let at = At::top("endpoints");
    if list.len() > MAX_ENDPOINTS {
        let message = format!("{} endpoints, the limit is {MAX_ENDPOINTS}", list.len());
        faults.refuse(at, message);
        return Vec::new();
    }
    let family = match kind {
        AddressType::Ipv4 => IpFamily::V4,
        AddressType::Ipv6 => IpFamily::V6,
        AddressType::Fqdn => return Vec::new(),
    };
    // Without spare room: a cluster has very many.
    let mut endpoints = Vec::with_capacity(list.len());
    let each = list.iter().enumerate();
    endpoints.extend(each.filter_map(|(i, it)| endpoint(it, family, at.index(i), names, faults)));
    endpoints
}

fn endpoint(
    api: &api::Endpoint,
    family: IpFamily,
    at: At<'_>,
    names: &mut Interner,
    faults: &mut Faults,
) -> Option<Endpoint> {
    let address = address(&api.addresses, family, at.field("addresses"), faults);
    let node = match api.node_name.as_deref() {
        None | Some("") => None,
        Some(text) => faults.take(at.field("nodeName"), name::subdomain(text)),
    };
    let hints = at.field("hints");
    let (zones, nodes) = (&api.hints.for_zones, &api.hints.for_nodes);
    let zone_hints = hint_names(
        zones,
        hints.field("forZones"),
        name::label_value,
        names,
        faults,
    );
    let node_hints = hint_names(
        nodes,
        hints.field("forNodes"),
        name::subdomain,
        names,
        faults,
    );
    let target = api.target_ref.name.as_deref().filter(|it| !it.is_empty());
    let target = target.and_then(|text| match name::subdomain(text) {
        Ok(text) => Some(text.into()),
        Err(why) => {
            let target = at.field("targetRef");
            faults.note(target.field("name"), format!("{why}: ignored"));
            None
        }
    });
    Some(Endpoint {
        address: address?,
        node: node.map(|it| names.share(it)),
        conditions: Conditions {
            ready: api.conditions.ready.unwrap_or(true),
            serving: api.conditions.serving.unwrap_or(true),
            terminating: api.conditions.terminating.unwrap_or(false),
        },
        zone_hints,
        node_hints,
        weight: 1,
        target,
    })
}

/// Checks every address; the first one counts.
fn address(list: &[String], family: IpFamily, at: At<'_>, faults: &mut Faults) -> Option<IpAddr> {
    if list.len() > MAX_ADDRESSES {
        let message = format!("{} addresses, the limit is {MAX_ADDRESSES}", list.len());
        faults.refuse(at, message);
        return None;
    }
    let of_family = |ip: IpAddr| match IpFamily::of(&ip) == family {
        true => Ok(ip),
        false => Err(format!(
            "{ip} is no {family} address, but addressType says so"
        )),
    };
    let mut checked = list.iter().enumerate().map(|(i, text)| {
        let ip = parse_ip(text).and_then(of_family).and_then(not_special);
        faults.take(at.index(i), ip)
    });
    let first = checked.next().flatten();
    checked.for_each(drop);
    first
}

fn hint_names(
    list: &[api::HintName],
    at: At<'_>,
    check: fn(&str) -> Result<&str, String>,
    names: &mut Interner,
    faults: &mut Faults,
) -> Vec<Arc<str>> {
    let mut found = Vec::new();
    for (i, hint) in list.iter().enumerate() {
        let at = at.index(i);
        let text = hint.name.as_deref().unwrap_or_default();
        let checked = match text {
            "" => Err("is required".to_owned()),
            text => check(text),
        };
        found.extend(
            faults
                .take(at.field("name"), checked)
                .map(|it| names.share(it)),
        );
    }
    found
}
