//! EndpointSlices (`pkg/apis/discovery/validation/validation.go`), beside the rules of their schema.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use crate::field::Problems;
use crate::{FieldError, Format};

/// Most zones, and most nodes, in the hints of an endpoint.
const MAX_HINTS: usize = 8;

/// Most endpoints of a slice.
const MAX_ENDPOINTS: usize = 1_000;

/// Most addresses of an endpoint.
const MAX_ADDRESSES: usize = 100;

/// Most ports of a slice.
const MAX_PORTS: usize = 20_000;

/// The errors in an EndpointSlice; `old` is the version that it replaces. Endpoints that stay as they are may be of an
/// older version's rules.
#[must_use]
pub fn validate_slice(slice: &EndpointSlice, old: Option<&EndpointSlice>) -> Vec<FieldError> {
    let mut problems = Problems::default();
    ports(slice, &mut problems);
    if old.is_none_or(|it| it.endpoints != slice.endpoints) {
        endpoints(slice, &mut problems);
    }
    if old.is_some_and(|it| it.address_type != slice.address_type) {
        let found = format!("\"{}\"", slice.address_type);
        problems.invalid("addressType", found, "field is immutable");
    }
    problems.found
}

fn ports(slice: &EndpointSlice, problems: &mut Problems) {
    let ports = slice.ports.as_deref().unwrap_or_default();
    if ports.len() > MAX_PORTS {
        problems.too_many("ports", ports.len(), MAX_PORTS);
        return;
    }
    let mut names = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let name = port.name.as_deref().unwrap_or_default();
        if !names.insert(name) {
            problems.duplicate(format!("ports[{at}].name"), name);
        }
        if let Some(number) = port.port {
            problems.port(format!("ports[{at}].port"), number);
        }
    }
}

fn endpoints(slice: &EndpointSlice, problems: &mut Problems) {
    let endpoints = slice.endpoints.as_deref().unwrap_or_default();
    if endpoints.len() > MAX_ENDPOINTS {
        problems.too_many("endpoints", endpoints.len(), MAX_ENDPOINTS);
        return;
    }
    for (at, endpoint) in endpoints.iter().enumerate() {
        let path = format!("endpoints[{at}]");
        addresses(&path, endpoint, &slice.address_type, problems);
        if let Some(hints) = &endpoint.hints {
            let zones = hints.for_zones.iter().flatten().map(|it| &*it.name);
            hint_names(&format!("{path}.hints.forZones"), zones, problems);
            let nodes = hints.for_nodes.iter().flatten().map(|it| &*it.name);
            hint_names(&format!("{path}.hints.forNodes"), nodes, problems);
        }
    }
}

fn addresses(path: &str, endpoint: &Endpoint, sort: &str, problems: &mut Problems) {
    let list = format!("{path}.addresses");
    let count = endpoint.addresses.len();
    if count == 0 {
        problems.required(&*list, "must contain at least 1 address");
    } else if count > MAX_ADDRESSES {
        problems.too_many(&*list, count, MAX_ADDRESSES);
    }
    for (at, text) in endpoint.addresses.iter().enumerate() {
        let field = format!("{list}[{at}]");
        match sort {
            "FQDN" => full_name(&field, text, problems),
            "IPv4" | "IPv6" => address(&list, &field, text, sort, problems),
            _ => {}
        }
    }
}

/// An address of a family. The list has the error of a wrong one, as in Kubernetes.
fn address(list: &str, field: &str, text: &str, family: &str, problems: &mut Problems) {
    let before = problems.found.len();
    problems.format(field, text, Format::Ip);
    let Some(ip) = text
        .parse::<IpAddr>()
        .ok()
        .filter(|_| problems.found.len() == before)
    else {
        return;
    };
    let shown = format!("{text:?}");
    if family == "IPv6" && ip.to_string() != text {
        let why = format!("must be in canonical form (\"{ip}\")");
        problems.invalid(field, shown, &why);
        return;
    }
    if ip.is_ipv4() != (family == "IPv4") {
        problems.invalid(list, shown, &format!("must be an {family} address"));
    }
    problems.format(field, text, Format::EndpointIp);
}

/// A domain name with at least two labels (`IsFullyQualifiedDomainName`).
fn full_name(field: &str, name: &str, problems: &mut Problems) {
    if name.is_empty() {
        problems.required(field, "");
        return;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = |format: Format, text: &str| {
        let why = format.problems(text).join(",");
        Some(why).filter(|it| !it.is_empty())
    };
    let few = "should be a domain with at least two segments separated by dots";
    let found = match wrong(Format::Subdomain, name) {
        Some(why) => Some((name, why)),
        None if !name.contains('.') => Some((name, few.to_owned())),
        None => name
            .split('.')
            .find_map(|label| Some((label, wrong(Format::Label, label)?))),
    };
    if let Some((shown, why)) = found {
        problems.invalid(field, format!("{shown:?}"), &why);
    }
}

fn hint_names<'a>(field: &str, names: impl Iterator<Item = &'a str>, problems: &mut Problems) {
    let names: Vec<_> = names.collect();
    if names.len() > MAX_HINTS {
        problems.too_many(field, names.len(), MAX_HINTS);
        return;
    }
    let mut seen = BTreeSet::new();
    for (at, name) in names.into_iter().enumerate() {
        if !seen.insert(name) {
            problems.duplicate(format!("{field}[{at}].name"), name);
        }
    }
}
