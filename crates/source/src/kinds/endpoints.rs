//! Endpoints (core/v1) → EndpointSlices.
//!
//! In a cluster a controller of the control plane does this
//! (`pkg/controller/endpointslicemirroring`), for Services without selector. Beside manifests there
//! is no controller that would fill a selector, so it makes no difference here.

use std::net::IpAddr;

use serde::Deserialize;
use sluice_model as model;
use sluice_model::{AddressType, Conditions, Hints, IpFamily, NamespacedName};

use super::endpoint_slice::{
    EndpointPort, MAX_ENDPOINTS, TargetRef, hostname, node_name, ports, target, weigh,
};
use crate::api::{ObjectMeta, nullable};
use crate::convert::address::{not_special, parse_ip};
use crate::convert::{At, Converted, Faults, Interner, name};

/// An Endpoints object: what EndpointSlices were before Kubernetes 1.21.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Endpoints {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub(crate) subsets: Vec<EndpointSubset>,
}

/// One of `subsets`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointSubset {
    /// `addresses`: the ready endpoints.
    #[serde(deserialize_with = "nullable")]
    pub(crate) addresses: Vec<EndpointAddress>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) not_ready_addresses: Vec<EndpointAddress>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ports: Vec<EndpointPort>,
}

/// One of `addresses` or `notReadyAddresses`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointAddress {
    pub(crate) ip: Option<String>,
    pub(crate) node_name: Option<String>,
    /// `hostname`: the name of the endpoint in DNS.
    pub(crate) hostname: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) target_ref: TargetRef,
}

/// Converts an Endpoints object: one slice for each subset and family that has an address.
///
/// No slice for the lock of a leader election and for an object with the label
/// `endpoints.kubernetes.io/skip-mirror=true`.
pub(crate) fn endpoints(
    api: &Endpoints,
    names: &mut Interner,
) -> Converted<Vec<model::EndpointSlice>> {
    let mut collected = Faults::new(names);
    let faults = &mut collected;
    let (labels, annotations) = (&api.metadata.labels, &api.metadata.annotations);
    if labels.skip_mirror.as_deref() == Some("true") || annotations.leader.is_some() {
        return collected.finish(Some(Vec::new()));
    }
    // A Service has the same name, so it is a label.
    let name = name::namespaced(&api.metadata, name::label, faults);
    let at = At::top("subsets");
    let (mut all, mut subsets) = (Vec::new(), Vec::new());
    for (i, api) in api.subsets.iter().enumerate() {
        let at = at.index(i);
        let ports = ports(&api.ports, at.field("ports"), faults);
        let start = all.len();
        add_endpoints(&mut all, api, at, faults);
        subsets.push((ports, start..all.len()));
    }
    weigh(&mut all, &api.metadata, faults);
    let slices = name.map(|name| {
        let each = subsets.into_iter().enumerate();
        let slices = each.flat_map(|(i, (ports, range))| {
            mirror(&name, i, &ports, &all[range], labels.headless.is_some())
        });
        slices.collect()
    });
    collected.finish(slices)
}

/// The slices of one subset. Their names are ours; the controller invents some.
fn mirror(
    name: &NamespacedName,
    number: usize,
    ports: &[model::EndpointPort],
    endpoints: &[model::Endpoint],
    headless: bool,
) -> Vec<model::EndpointSlice> {
    let families = [
        (IpFamily::V4, AddressType::Ipv4, "ipv4"),
        (IpFamily::V6, AddressType::Ipv6, "ipv6"),
    ];
    let slice = |(family, address_type, suffix)| {
        let own = endpoints.iter();
        let own = own.filter(|it| IpFamily::of(&it.address) == family);
        let endpoints: Vec<model::Endpoint> = own.cloned().collect();
        let slice_name = format!("{}-endpoints-{number}-{suffix}", name.name);
        (!endpoints.is_empty()).then(|| model::EndpointSlice {
            name: NamespacedName::new(name.namespace.clone(), slice_name),
            service: Some(name.name.clone()),
            headless,
            address_type,
            ports: ports.to_vec(),
            endpoints,
            triggered: None,
        })
    };
    families.into_iter().filter_map(slice).collect()
}

fn add_endpoints(
    all: &mut Vec<model::Endpoint>,
    api: &EndpointSubset,
    at: At<'_>,
    faults: &mut Faults<'_>,
) {
    let ready = api.addresses.iter().enumerate();
    let ready = ready.map(|(i, it)| ("addresses", i, it));
    let others = api.not_ready_addresses.iter().enumerate();
    let others = others.map(|(i, it)| ("notReadyAddresses", i, it));
    for (field, i, it) in ready.chain(others).take(MAX_ENDPOINTS) {
        let list = at.field(field);
        all.extend(endpoint(it, field == "addresses", list.index(i), faults));
    }
    let asked = api.addresses.len() + api.not_ready_addresses.len();
    if asked > MAX_ENDPOINTS {
        let why =
            format!("{asked} addresses, the limit is {MAX_ENDPOINTS}: the others are ignored");
        faults.note(at.field("addresses"), why);
    }
}

fn endpoint(
    api: &EndpointAddress,
    ready: bool,
    at: At<'_>,
    faults: &mut Faults<'_>,
) -> Option<model::Endpoint> {
    let address = address(api.ip.as_deref(), at, faults);
    let node = node_name(api.node_name.as_deref(), at, faults);
    let target = target(&api.target_ref, at, faults);
    let hostname = hostname(api.hostname.as_deref(), at, faults);
    Some(model::Endpoint {
        address: address?,
        other_addresses: Box::default(),
        node,
        zone: None,
        conditions: Conditions {
            ready,
            ..Conditions::READY
        },
        hints: Hints::default(),
        weight: 1,
        target,
        hostname,
    })
}

fn address(text: Option<&str>, at: At<'_>, faults: &mut Faults<'_>) -> Option<IpAddr> {
    let text = text.ok_or_else(|| "is required".to_owned());
    let checked = text.and_then(parse_ip).and_then(not_special);
    faults.take(at.field("ip"), checked)
}
