//! From a name to what has it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::Name;
use sluice_model::{ClusterIps, Service, ServiceKind};

use crate::PodRecords;
use crate::objects::Entry;
use crate::origin::{Label, Missing};

use super::named::{Endpoints, Found, Named, Pods};
use super::place::{Lower, Part, Ports, Subject};
use super::scope::Scope;

impl<'a> Scope<'a> {
    /// What has a name of the zone.
    pub(super) fn find<'n>(&self, name: &'n Name) -> Found<'a, 'n>
    where
        'a: 'n,
    {
        let place = Subject::of(name.iter().rev().skip(self.zone_labels));
        if self.zone.is_reverse && place != Subject::Above {
            return Found::Nothing(Missing::Address);
        }
        match place {
            Subject::Above => Found::Above,
            Subject::Nowhere(reason) => Found::Nothing(reason),
            Subject::Services(namespace) => self.above(namespace),
            Subject::Pods(_) | Subject::Pod { .. }
                if self.settings.pods == PodRecords::Disabled =>
            {
                Found::Nothing(Missing::PodsDisabled)
            }
            Subject::Pods(namespace) => self.above(namespace),
            Subject::Pod { namespace, address } => self.pods(namespace, address),
            Subject::Service {
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
        let ready = || entry.slices.iter().any(|it| it.has_ready());
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
            _ if !entry.slices.iter().any(|it| it.has_ready()) => Missing::ReadyEndpoint(service),
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
