//! EndpointSlices.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use sluice_model as model;
use sluice_model::{AddressType, Conditions, Hints, IpFamily};
use sluice_yaml::quoted;

use crate::api::{Identity, ObjectMeta, nullable};
use crate::convert::Step::Field;
use crate::convert::address::{not_special, one_of, parse_ip, port, protocol};
use crate::convert::{At, Converted, Fault, Faults, Interner, name};
use crate::kind::Kind;
use crate::manifest::{Fields, Form, name_ports, ports_without_number};

/// An EndpointSlice.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    #[serde(deserialize_with = "nullable")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) address_type: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) endpoints: Vec<Endpoint>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ports: Vec<EndpointPort>,
}

/// An entry of `endpoints` of an EndpointSlice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Endpoint {
    /// `addresses`: all of them mean the same endpoint.
    #[serde(deserialize_with = "nullable")]
    pub(crate) addresses: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: EndpointConditions,
    pub(crate) node_name: Option<String>,
    pub(crate) zone: Option<String>,
    /// `hostname`: the name of the endpoint in DNS.
    pub(crate) hostname: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) hints: EndpointHints,
    #[serde(deserialize_with = "nullable")]
    pub(crate) target_ref: TargetRef,
}

/// `conditions` of an endpoint; `None` is unknown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointConditions {
    pub(crate) ready: Option<bool>,
    pub(crate) serving: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

/// `hints` of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointHints {
    #[serde(deserialize_with = "nullable")]
    pub(crate) for_zones: Vec<HintName>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) for_nodes: Vec<HintName>,
}

/// One of `hints.forZones` or `hints.forNodes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HintName {
    pub(crate) name: Option<String>,
}

/// `targetRef` of an endpoint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    /// `name`: usually a pod.
    pub(crate) name: Option<String>,
}

/// An entry of `ports`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EndpointPort {
    /// `name`; a proxy ignores a port without one (an empty one counts).
    pub(crate) name: Option<String>,
    /// `protocol`, default TCP.
    pub(crate) protocol: Option<String>,
    /// `port`; a proxy ignores a port without one.
    pub(crate) port: Option<i64>,
}

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: addressType apiVersion endpoints kind metadata ports
endpoints[]: addresses conditions deprecatedTopology hints hostname nodeName targetRef zone
endpoints[].conditions: ready serving terminating
endpoints[].hints: forNodes forZones
endpoints[].hints.forNodes[]: name
endpoints[].hints.forZones[]: name
endpoints[].targetRef: apiVersion fieldPath kind name namespace resourceVersion uid
ports[]: appProtocol name port protocol",
    )
});

impl Kind for EndpointSlice {
    type Model = sluice_model::EndpointSlice;
    const PLURAL: &'static str = "endpointslices";
    const OBJECTS: &'static str = "EndpointSlices";
    const ALSO: &'static [Form] = &[Form::ENDPOINTS];

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    /// An endpoint without address, and a port without name or number, mean nothing to a proxy and
    /// are left out without a problem. A port number out of range is left out and reported. Any other
    /// problem refuses the slice.
    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        let mut collected = Faults::new(names);
        let faults = &mut collected;
        let name = name::namespaced(&self.metadata, name::subdomain, faults);
        let address_type = address_type(self.address_type.as_deref(), faults);
        let service = service(&self.metadata, faults);
        let ports = ports(&self.ports, At::top("ports"), faults);
        let endpoints = address_type.map(|it| endpoints(&self.endpoints, it, faults));
        let mut endpoints = endpoints.unwrap_or_default();
        weigh(&mut endpoints, &self.metadata, faults);
        let object = name
            .zip(address_type)
            .map(|(name, address_type)| model::EndpointSlice {
                name,
                service,
                headless: self.metadata.labels.headless.is_some(),
                address_type,
                ports,
                endpoints,
                triggered: triggered(&self.metadata),
            });
        collected.finish(object)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }

    /// `pkg/apis/discovery/v1/defaults.go`: a name, and a protocol that the conversion knows.
    fn set_defaults(&mut self) {
        name_ports(&mut self.ports);
    }

    fn advice(&self) -> Vec<Fault> {
        let mut found = ports_without_number(&[Field("ports")], &self.ports);
        let service = self.metadata.labels.service_name.as_deref();
        if service.unwrap_or_default().is_empty() {
            let why = "the label kubernetes.io/service-name is missing, so no Service has these \
                       endpoints: write the name of the Service";
            found.push(Fault::at([Field("metadata"), Field("labels")], why));
        }
        found
    }
}

/// The API server's limits per slice (`pkg/apis/discovery/validation`, 1.36).
pub(super) const MAX_ENDPOINTS: usize = 1_000;
const MAX_ADDRESSES: usize = 100;
pub(super) const MAX_PORTS: usize = 20_000;

/// The time of the change. It is only for measurements, so a time that cannot be read is no problem of the slice.
fn triggered(metadata: &ObjectMeta) -> Option<i64> {
    let text = metadata.annotations.trigger_time.as_deref()?;
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_millisecond())
}

/// Gives the endpoints the weights of the annotation. Wrong parts of it are reported and left out:
/// an endpoint without a weight has weight 1.
pub(super) fn weigh(endpoints: &mut [model::Endpoint], meta: &ObjectMeta, faults: &mut Faults<'_>) {
    let Some(text) = meta.annotations.endpoint_weights.as_deref() else {
        return;
    };
    let annotations = At::top("metadata.annotations");
    let at = annotations.field("sluice.dev/endpoint-weights");
    let mut weights = BTreeMap::new();
    for entry in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let parsed = entry.split_once('=').and_then(|(address, weight)| {
            let address: IpAddr = address.trim().parse().ok()?;
            Some((address, weight.trim().parse::<u16>().ok()?))
        });
        match parsed {
            None => {
                let entry = quoted(entry);
                let why = "is not ADDRESS=WEIGHT with a weight in 0..=65535: ignored";
                faults.note(at, format!("{entry} {why}"));
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
        let why = format!("{address} is no endpoint of the slice: ignored");
        faults.note(at, why);
    }
}

fn address_type(text: Option<&str>, faults: &mut Faults<'_>) -> Option<AddressType> {
    let known = match text.unwrap_or_default() {
        "IPv4" => Ok(AddressType::Ipv4),
        "IPv6" => Ok(AddressType::Ipv6),
        "FQDN" => Ok(AddressType::Fqdn),
        "" => Err("is required".to_owned()),
        other => Err(one_of(other, "IPv4, IPv6, FQDN")),
    };
    faults.take(At::top("addressType"), known)
}

fn service(meta: &ObjectMeta, faults: &mut Faults<'_>) -> Option<Arc<str>> {
    let text = meta.labels.service_name.as_deref();
    let text = text.filter(|it| !it.is_empty())?;
    let at = At::top("metadata.labels");
    faults.text(at.field("kubernetes.io/service-name"), name::label(text))
}

pub(super) fn ports(
    list: &[EndpointPort],
    at: At<'_>,
    faults: &mut Faults<'_>,
) -> Vec<model::EndpointPort> {
    if list.len() > MAX_PORTS {
        let why = format!("{} ports, the limit is {MAX_PORTS}", list.len());
        faults.refuse(at, why);
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
            Ok(port) => ports.push(model::EndpointPort {
                name: faults.share(name),
                protocol,
                port,
            }),
            Err(why) => faults.note(at.field("port"), format!("{why}: ignored")),
        }
    }
    ports
}

fn endpoints(
    list: &[Endpoint],
    kind: AddressType,
    faults: &mut Faults<'_>,
) -> Vec<model::Endpoint> {
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
    // Without spare capacity: a cluster has very many slices.
    let mut endpoints = Vec::with_capacity(list.len());
    let each = list.iter().enumerate();
    endpoints.extend(each.filter_map(|(i, it)| endpoint(it, family, at.index(i), faults)));
    endpoints
}

fn endpoint(
    api: &Endpoint,
    family: IpFamily,
    at: At<'_>,
    faults: &mut Faults<'_>,
) -> Option<model::Endpoint> {
    let mut addresses = addresses(&api.addresses, family, at.field("addresses"), faults);
    let node = node_name(api.node_name.as_deref(), at, faults);
    let zone = match api.zone.as_deref() {
        None | Some("") => None,
        Some(text) => faults.text(at.field("zone"), name::label_value(text)),
    };
    let hints = at.field("hints");
    let zones = hints.field("forZones");
    let zone_names = hint_names(&api.hints.for_zones, zones, name::label_value, faults);
    let nodes = hints.field("forNodes");
    let node_names = hint_names(&api.hints.for_nodes, nodes, name::subdomain, faults);
    let target = target(&api.target_ref, at, faults);
    let hostname = hostname(api.hostname.as_deref(), at, faults);
    Some(model::Endpoint {
        address: addresses.next()?,
        other_addresses: addresses.collect(),
        node,
        zone,
        conditions: Conditions {
            ready: api.conditions.ready.unwrap_or(true),
            serving: api.conditions.serving.unwrap_or(true),
            terminating: api.conditions.terminating.unwrap_or(false),
        },
        hints: Hints::new(zone_names, node_names),
        weight: 1,
        target,
        hostname,
    })
}

pub(super) fn node_name(
    text: Option<&str>,
    at: At<'_>,
    faults: &mut Faults<'_>,
) -> Option<Arc<str>> {
    let text = text.filter(|it| !it.is_empty())?;
    faults.text(at.field("nodeName"), name::subdomain(text))
}

pub(super) fn target(api: &TargetRef, at: At<'_>, faults: &mut Faults<'_>) -> Option<Arc<str>> {
    let text = api.name.as_deref().filter(|it| !it.is_empty())?;
    match name::subdomain(text) {
        Ok(text) => Some(text.into()),
        Err(why) => {
            let target = at.field("targetRef");
            faults.note(target.field("name"), format!("{why}: ignored"));
            None
        }
    }
}

/// Checks the host name. A name that DNS does not allow is left out: the endpoint works without it.
pub(super) fn hostname(
    text: Option<&str>,
    at: At<'_>,
    faults: &mut Faults<'_>,
) -> Option<Arc<str>> {
    let text = text.filter(|it| !it.is_empty())?;
    match name::label(text) {
        Ok(text) => Some(text.into()),
        Err(why) => {
            faults.note(at.field("hostname"), format!("{why}: ignored"));
            None
        }
    }
}

fn addresses(
    list: &[String],
    family: IpFamily,
    at: At<'_>,
    faults: &mut Faults<'_>,
) -> std::vec::IntoIter<IpAddr> {
    let mut addresses = Vec::new();
    if list.len() > MAX_ADDRESSES {
        let message = format!("{} addresses, the limit is {MAX_ADDRESSES}", list.len());
        faults.refuse(at, message);
        return addresses.into_iter();
    }
    let of_family = |ip: IpAddr| {
        if IpFamily::of(&ip) == family {
            Ok(ip)
        } else {
            Err(format!(
                "{ip} is no {family} address, but addressType says so"
            ))
        }
    };
    for (i, text) in list.iter().enumerate() {
        let ip = parse_ip(text).and_then(of_family).and_then(not_special);
        addresses.extend(faults.take(at.index(i), ip));
    }
    addresses.into_iter()
}

fn hint_names(
    list: &[HintName],
    at: At<'_>,
    check: fn(&str) -> Result<&str, String>,
    faults: &mut Faults<'_>,
) -> Vec<Arc<str>> {
    let mut found = Vec::new();
    for (i, hint) in list.iter().enumerate() {
        let at = at.index(i);
        let text = hint.name.as_deref().unwrap_or_default();
        let checked = match text {
            "" => Err("is required".to_owned()),
            text => check(text),
        };
        found.extend(faults.text(at.field("name"), checked));
    }
    found
}
