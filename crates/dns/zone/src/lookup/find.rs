//! What has a name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use hickory_proto::rr::Name;
use sluice_model::{ClusterIps, Endpoint, Pod, Service, ServiceKind};

use crate::PodRecords;
use crate::objects::{Entry, Slice};
use crate::origin::{Holder, Label, Missing};

use super::place::{Lower, Part, Place, Ports};
use super::scope::Scope;

/// What a name leads to. `'a` are objects, `'n` is the name.
pub(super) enum Found<'a, 'n> {
    Nothing(Missing<'n>),
    /// Only names below it have records.
    Above,
    Named(Named<'a, 'n>),
}

/// What has a name.
pub(super) enum Named<'a, 'n> {
    /// A Service with a ClusterIP, of which one port at least is asked for.
    ClusterIps(&'a Service, Ports<'n>),
    /// Ready endpoints, at least one.
    Endpoints(Endpoints<'a, 'n>),
    Alias(&'a Service),
    Pods(Pods<'a>),
}

/// Ready endpoints of a Service.
#[derive(Clone, Copy)]
pub(super) struct Endpoints<'a, 'n> {
    pub(super) service: &'a Service,
    entry: &'a Entry,
    part: Part<'n>,
    pub(super) pod_names: bool,
}

/// The pods that have an address.
pub(super) struct Pods<'a> {
    pub(super) address: IpAddr,
    /// The first of them; `None` when none was looked for.
    pod: Option<&'a Pod>,
    pub(super) count: usize,
}

impl<'a> Named<'a, '_> {
    pub(super) fn holder(&self) -> Holder<'a> {
        match self {
            Self::ClusterIps(service, _) | Self::Alias(service) => Holder::Service(service),
            Self::Endpoints(it) => it.holder(),
            Self::Pods(it) => it
                .pod
                .map_or(Holder::AddressInName(it.address), Holder::Pod),
        }
    }
}

impl<'a, 'n> Endpoints<'a, 'n> {
    /// The slices that have the ports, with the endpoints asked for. Some may have none.
    pub(super) fn slices(
        self,
    ) -> impl Iterator<Item = (&'a Slice, impl Iterator<Item = &'a Endpoint> + use<'a, 'n>)> {
        let (ports, pod_names) = (self.ports(), self.pod_names);
        let name = match self.part {
            Part::Endpoint(name) => Some(name),
            Part::Ports(_) => None,
        };
        let slices = self.entry.slices.iter().map(AsRef::as_ref);
        slices
            .filter(move |it| slice_has(it, ports))
            .map(move |slice: &'a Slice| {
                let named = name.map(|it| slice.named(it, pod_names));
                let all = name.is_none().then(|| slice.ready());
                (
                    slice,
                    named.into_iter().flatten().chain(all.into_iter().flatten()),
                )
            })
    }

    pub(super) fn addresses(self) -> impl Iterator<Item = IpAddr> + use<'a, 'n> {
        self.slices()
            .flat_map(|(_, endpoints)| endpoints)
            .map(|it| it.address)
    }

    /// No fewer than there are.
    pub(super) fn at_most(&self) -> usize {
        let of = |it: &Arc<Slice>| it.object.endpoints.len();
        self.entry.slices.iter().map(of).sum()
    }

    pub(super) fn ports(&self) -> Ports<'n> {
        match self.part {
            Part::Endpoint(_) => Ports::default(),
            Part::Ports(ports) => ports,
        }
    }

    fn holder(&self) -> Holder<'a> {
        let first = || {
            let mut slices = self.slices();
            slices.find_map(|(slice, mut it)| Some((&*slice.object, it.next()?)))
        };
        match self.part {
            Part::Endpoint(_) => first().map_or(Holder::Service(self.service), |(slice, it)| {
                Holder::Endpoint(slice, it)
            }),
            Part::Ports(_) => Holder::Service(self.service),
        }
    }
}

/// A slice without ports is there for whoever asks for no certain port.
fn slice_has(slice: &Slice, ports: Ports<'_>) -> bool {
    let own = &slice.object.ports;
    ports.is_all()
        || own
            .iter()
            .any(|it| ports.has(&it.name, it.protocol.as_str()))
}

impl<'a> Scope<'a> {
    /// What has a name of the zone.
    pub(super) fn find<'n>(&self, name: &'n Name) -> Found<'a, 'n>
    where
        'a: 'n,
    {
        let place = Place::of(name.iter().rev().skip(self.zone_labels));
        if self.zone.is_reverse && place != Place::Above {
            return Found::Nothing(Missing::Address);
        }
        match place {
            Place::Above => Found::Above,
            Place::Nowhere(reason) => Found::Nothing(reason),
            Place::Services(namespace) => self.above(namespace),
            Place::Pods(_) | Place::Pod { .. } if self.settings.pods == PodRecords::Disabled => {
                Found::Nothing(Missing::PodsDisabled)
            }
            Place::Pods(namespace) => self.above(namespace),
            Place::Pod { namespace, address } => self.pods(namespace, address),
            Place::Service {
                namespace,
                service,
                part,
            } => self.service(namespace, service, part),
        }
    }

    fn above<'n>(&self, namespace: &'n [u8]) -> Found<'a, 'n> {
        match self.exposed(namespace) {
            Ok(_) => Found::Above,
            Err(reason) => Found::Nothing(reason),
        }
    }

    /// The namespace, when it exists and is served.
    pub(super) fn exposed<'n>(&self, namespace: &'n [u8]) -> Result<Lower, Missing<'n>> {
        let lower = Lower::new(namespace);
        let served = &self.settings.namespaces;
        if !served.is_empty() && !served.contains(lower.as_str()) {
            return Err(Missing::NamespaceNotServed(Label(namespace)));
        }
        if !self.objects.namespace_exists(lower.as_str()) {
            return Err(Missing::Namespace(Label(namespace)));
        }
        Ok(lower)
    }

    fn service<'n>(&self, namespace: &'n [u8], service: &'n [u8], part: Part<'n>) -> Found<'a, 'n>
    where
        'a: 'n,
    {
        let exposed = match self.exposed(namespace) {
            Ok(exposed) => exposed,
            Err(reason) => return Found::Nothing(reason),
        };
        let entry = self
            .objects
            .entry(exposed.as_str(), Lower::new(service).as_str());
        let Some((entry, service)) = entry.and_then(|it| Some((it, it.service.as_deref()?))) else {
            return Found::Nothing(Missing::Service {
                namespace: Label(namespace),
                service: Label(service),
            });
        };
        let ports = match part {
            _ if service.kind == ServiceKind::ExternalName => return alias(service, part),
            Part::Ports(ports) if service.cluster_ips != ClusterIps::Headless => ports,
            _ => return self.endpoints(entry, service, part),
        };
        let ready = || entry.slices.iter().any(|it| it.ready().next().is_some());
        // Without endpoints to look at, nobody can say that a Service is empty.
        if self.settings.ignore_empty_service && !self.settings.no_endpoints && !ready() {
            return Found::Nothing(Missing::ReadyEndpoint(service));
        }
        let mut own = service.ports.iter();
        if !ports.is_all() && !own.any(|it| ports.has(&it.name, it.protocol.as_str())) {
            return Found::Nothing(port_missing(service, ports));
        }
        Found::Named(Named::ClusterIps(service, ports))
    }

    fn endpoints<'n>(&self, entry: &'a Entry, service: &'a Service, part: Part<'n>) -> Found<'a, 'n>
    where
        'a: 'n,
    {
        let missing = |reason| Found::Nothing(reason);
        if self.settings.no_endpoints {
            return missing(Missing::EndpointsNotServed(service));
        }
        let pod_names = self.settings.endpoint_pod_names;
        let found = Endpoints {
            service,
            entry,
            part,
            pod_names,
        };
        if found.slices().any(|(_, mut it)| it.next().is_some()) {
            return Found::Named(Named::Endpoints(found));
        }
        missing(match part {
            _ if entry.slices.iter().all(|it| it.ready().next().is_none()) => {
                Missing::ReadyEndpoint(service)
            }
            Part::Endpoint(name) => Missing::EndpointNamed {
                service,
                name: Label(name),
            },
            Part::Ports(ports) => port_missing(service, ports),
        })
    }

    fn pods<'n>(&self, namespace: &'n [u8], label: &'n [u8]) -> Found<'a, 'n> {
        let exposed = match self.exposed(namespace) {
            Ok(exposed) => exposed,
            Err(reason) => return Found::Nothing(reason),
        };
        let Some(address) = address(label) else {
            return Found::Nothing(Missing::PodAddress(Label(label)));
        };
        if self.settings.pods == PodRecords::Insecure {
            return Found::Named(Named::Pods(Pods {
                address,
                pod: None,
                count: 1,
            }));
        }
        let at = self.objects.pods_at(address);
        let mut pods = at.filter(|it| *it.name.namespace == *exposed.as_str());
        match pods.next() {
            Some(pod) => {
                let count = 1 + pods.count();
                Found::Named(Named::Pods(Pods {
                    address,
                    pod: Some(pod),
                    count,
                }))
            }
            None => Found::Nothing(Missing::Pod {
                namespace: Label(namespace),
                address,
            }),
        }
    }
}

fn alias<'a, 'n>(service: &'a Service, part: Part<'n>) -> Found<'a, 'n>
where
    'a: 'n,
{
    let target = service.external_name.as_deref().unwrap_or_default();
    match part {
        _ if target.parse::<IpAddr>().is_ok() => Found::Nothing(Missing::AliasIsAddress(service)),
        Part::Ports(ports) if ports.is_all() => Found::Named(Named::Alias(service)),
        _ => Found::Nothing(Missing::BelowAlias(service)),
    }
}

fn port_missing<'a>(service: &'a Service, ports: Ports<'a>) -> Missing<'a> {
    Missing::Port {
        service,
        port: Label(ports.port),
        protocol: Label(ports.protocol),
    }
}

/// The address that the label of a pod spells: `10-244-1-2`, or an IPv6 address with dashes for colons.
fn address(label: &[u8]) -> Option<IpAddr> {
    let label = std::str::from_utf8(label).ok()?;
    let dashes = label.bytes().filter(|it| *it == b'-').count();
    let address = if dashes == 3 && !label.contains("--") {
        label.replace('-', ".").parse::<Ipv4Addr>().ok()?.into()
    } else {
        IpAddr::from(label.replace('-', ":").parse::<Ipv6Addr>().ok()?)
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_pods() {
        let check = |label: &str, expected: Option<&str>| {
            let expected = expected.map(|it| it.parse().unwrap());
            assert_eq!(address(label.as_bytes()), expected, "{label}");
        };
        check("10-244-1-2", Some("10.244.1.2"));
        check("fd00-10--1", Some("fd00:10::1"));
        check("FD00-10--1", Some("fd00:10::1"));
        check("--1", Some("::1"));
        check("--1-2", Some("::1:2"));
        check("1-2-3--4", Some("1:2:3::4"));
        check("--ffff-a00-1", Some("10.0.0.1"));
        for label in [
            "999-1-1-1",
            "010-0-0-1",
            "10-0-0",
            "not-an-ip",
            "10-0-0-1-",
            "-",
            "",
            "1:2",
        ] {
            check(label, None);
        }
        assert_eq!(address(b"10-0-0-\xff"), None);
    }
}
