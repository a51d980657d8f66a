//! EndpointSlices (`pkg/apis/discovery/validation/validation.go`).

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use sluice_model::is_subdomain;

use crate::field::Problems;
use crate::{FieldError, Format};

/// Most zones, and most nodes, in the hints of an endpoint.
const MAX_HINTS: usize = 8;

/// The errors in an EndpointSlice; `old` is the version that it replaces.
#[must_use]
pub fn validate_slice(slice: &EndpointSlice, old: Option<&EndpointSlice>) -> Vec<FieldError> {
    let mut problems = Problems::default();
    if old.is_some_and(|it| it.address_type != slice.address_type) {
        let found = format!("\"{}\"", slice.address_type);
        problems.invalid("addressType", found, "field is immutable");
    }
    for (at, endpoint) in slice.endpoints.iter().flatten().enumerate() {
        let path = format!("endpoints[{at}]");
        if endpoint.addresses.is_empty() {
            let field = format!("{path}.addresses");
            problems.required(field, "must contain at least 1 address");
        }
        if slice.address_type == "FQDN" {
            for (at, name) in endpoint.addresses.iter().enumerate() {
                full_name(&format!("{path}.addresses[{at}]"), name, &mut problems);
            }
        }
        if let Some(hints) = &endpoint.hints {
            let zones = hints.for_zones.iter().flatten().map(|it| &*it.name);
            hint_names(&format!("{path}.hints.forZones"), zones, &mut problems);
            let nodes = hints.for_nodes.iter().flatten().map(|it| &*it.name);
            hint_names(&format!("{path}.hints.forNodes"), nodes, &mut problems);
        }
    }
    problems.found
}

/// A domain name with at least two labels (`IsFullyQualifiedDomainName`).
fn full_name(field: &str, name: &str, problems: &mut Problems) {
    let domain = name.strip_suffix('.').unwrap_or(name);
    let found = format!("\"{name}\"");
    if domain.is_empty() {
        problems.required(field, "");
    } else if !is_subdomain(domain) {
        for why in Format::Subdomain.problems(domain) {
            problems.invalid(field, &found, &why);
        }
    } else if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        problems.invalid(field, found, why);
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
