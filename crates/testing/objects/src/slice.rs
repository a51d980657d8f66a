//! EndpointSlices.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sluice_model::{AddressType, Conditions, Endpoint, EndpointPort, EndpointSlice, Hints};

use crate::{NODE, list, name, parse};

const MARKS: [char; 9] = ['@', '!', '~', '+', '=', '#', '%', '*', '&'];

/// One slice: its name, its Service (empty: none), its ports (`web:80 dns:53/udp`) and its endpoints.
///
/// `10.0.1.5` is a ready endpoint elsewhere, `10.0.1.5,10.0.1.6` one with two addresses; marks behind it, in any
/// order:
/// `@` on [`NODE`], `@NAME` on another node, `!` not ready (behind `~`: not serving either),
/// `~` terminating but serving, `+` ready though it terminates (publishNotReadyAddresses),
/// `=ZONE` hinted for a zone, `#NODE` hinted for a node, `%WEIGHT` its
/// share of connections, `*POD` its pod, `&NAME` its hostname.
///
/// # Panics
///
/// On anything else.
pub fn slice(of_slice: &str, service: &str, ports: &str, endpoints: &str) -> EndpointSlice {
    let endpoints: Vec<Endpoint> = endpoints.split_whitespace().map(endpoint).collect();
    let is_v6 = endpoints.first().is_some_and(|it| it.address.is_ipv6());
    EndpointSlice {
        name: name(of_slice),
        service: Some(service).filter(|it| !it.is_empty()).map(Into::into),
        headless: false,
        address_type: if is_v6 {
            AddressType::Ipv6
        } else {
            AddressType::Ipv4
        },
        ports: ports.split_whitespace().map(port).collect(),
        endpoints,
        triggered: None,
    }
}

/// The slices of a Service's port (`web`, `web:http`, `dns:dns/udp`) with these endpoints, one
/// slice per family and port number, named after `slice`. Endpoints are those of [`slice`](fn@slice) with a port:
/// `10.0.1.5:80@`.
///
/// # Panics
///
/// As [`slice`](fn@slice).
pub fn slices(slice: &str, port: &str, endpoints: &str) -> Vec<EndpointSlice> {
    let (service, port) = port.split_once(':').unwrap_or((port, ""));
    let (port, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    let service = name(service);
    let mut groups: BTreeMap<(bool, u16), Vec<String>> = BTreeMap::new();
    for word in endpoints.split_whitespace() {
        let (addr, marks) = word.split_at(word.find(MARKS).unwrap_or(word.len()));
        let addr: SocketAddr = parse(addr);
        let group = groups.entry((addr.is_ipv6(), addr.port())).or_default();
        group.push(format!("{}{marks}", addr.ip()));
    }
    let slices = groups.into_iter().map(|((is_v6, number), endpoints)| {
        let family = if is_v6 { "v6" } else { "v4" };
        self::slice(
            &format!("{}/{slice}-{family}-{number}", service.namespace),
            &service.name,
            &format!("{port}:{number}/{protocol}"),
            &endpoints.join(" "),
        )
    });
    slices.collect()
}

/// `http:80/tcp`
fn port(word: &str) -> EndpointPort {
    let (name, rest) = word
        .split_once(':')
        .unwrap_or_else(|| panic!("{word:?} is no port of endpoints"));
    let (number, protocol) = rest.split_once('/').unwrap_or((rest, "tcp"));
    EndpointPort {
        name: name.into(),
        protocol: parse(protocol),
        port: parse(number),
    }
}

fn endpoint(word: &str) -> Endpoint {
    let (addresses, mut marks) = word.split_at(word.find(MARKS).unwrap_or(word.len()));
    let mut addresses = list(addresses).into_iter();
    let mut endpoint = Endpoint {
        address: addresses.next().expect("a list has a first item"),
        other_addresses: addresses.collect(),
        node: Some("elsewhere".into()),
        zone: None,
        conditions: Conditions::READY,
        hints: Hints::default(),
        weight: 1,
        target: None,
        hostname: None,
    };
    let (mut zones, mut nodes) = (Vec::new(), Vec::new());
    while let Some(mark) = marks.chars().next() {
        let rest = &marks[1..];
        let end = rest.find(MARKS).unwrap_or(rest.len());
        let (value, after) = rest.split_at(end);
        marks = after;
        let conditions = &mut endpoint.conditions;
        match mark {
            '@' if value.is_empty() => endpoint.node = Some(NODE.into()),
            '@' => endpoint.node = Some(value.into()),
            '!' => (conditions.ready, conditions.serving) = (false, false),
            '~' => (conditions.ready, conditions.terminating) = (false, true),
            '+' => (conditions.ready, conditions.terminating) = (true, true),
            '=' => zones.push(value.into()),
            '#' => nodes.push(value.into()),
            '%' => endpoint.weight = parse(value),
            '*' => endpoint.target = Some(value.into()),
            _ => endpoint.hostname = Some(value.into()),
        }
    }
    endpoint.hints = Hints::new(zones, nodes);
    endpoint
}
