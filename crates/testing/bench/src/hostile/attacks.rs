//! Services that cost much.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};
use sluice_model::{
    Change, EndpointPort, EndpointSlice, IpMode, LoadBalancerIngress, NamespacedName, Protocol,
    Service, ServiceKind, ServicePort, SessionAffinity,
};
use sluice_plan::Event;

use super::super::synthetic;

/// Index of the first Service of the attacker, beyond those of the others.
const FIRST: u32 = 50_000;
/// Most endpoints of a slice.
const SLICE: usize = 1000;

/// What one tenant creates.
pub(super) struct Attack {
    pub(super) name: &'static str,
    services: Vec<Service>,
    /// The endpoints of the first Service.
    endpoints: Vec<IpAddr>,
    /// Slices of the first Service without endpoints.
    empty_slices: u32,
}

impl Attack {
    /// The rows of the table that are about time.
    pub(super) fn all() -> Vec<Self> {
        vec![
            Self::ranges("50 ports x 800 source ranges", 50, 800),
            Self::ranges("200 ports x 400 source ranges", 200, 400),
            Self::affinity("session affinity, 20 ports x 150 endpoints", 20, 150),
            Self::affinity("session affinity, 10 ports x 900 endpoints", 10, 900),
            Self::ports(),
            Self::new("5 Services x 60,000 same external IPs", 5, |it| {
                it.external_ips = addresses([192, 0, 0, 0], 60_000);
            }),
            Self {
                endpoints: endpoints(1),
                ..Self::new("80,000 external IPs", 1, |it| {
                    it.external_ips = addresses([192, 0, 0, 0], 80_000);
                })
            },
        ]
    }

    /// Those of the table that are about the iptables mode.
    pub(super) fn for_iptables() -> Vec<Self> {
        vec![
            Self::ranges("50 ports x 800 source ranges", 50, 800),
            Self::affinity("session affinity, 20 ports x 150 endpoints", 20, 150),
            Self::affinity("session affinity, 10 ports x 900 endpoints", 10, 900),
        ]
    }

    fn new(name: &'static str, services: u32, change: impl Fn(&mut Service)) -> Self {
        let services = (FIRST..FIRST + services).map(|index| {
            let mut service = synthetic::service_object(index);
            service.name = NamespacedName::new("hostile", format!("huge-{index}"));
            change(&mut service);
            service
        });
        Self {
            name,
            services: services.collect(),
            endpoints: Vec::new(),
            empty_slices: 0,
        }
    }

    fn ranges(name: &'static str, count: u16, ranges: u32) -> Self {
        let range = |it: u32| {
            let net = Ipv4Addr::from(u32::from(Ipv4Addr::new(11, 0, 0, 0)) + 512 * it);
            IpNet::V4(Ipv4Net::new_assert(net, 24))
        };
        let attack = Self::new(name, 1, |it| {
            it.kind = ServiceKind::LoadBalancer;
            it.ports = service_ports(count);
            it.load_balancer = vec![LoadBalancerIngress {
                ip: Ipv4Addr::new(203, 0, 113, 1).into(),
                mode: IpMode::Vip,
            }];
            it.source_ranges = (0..ranges).map(range).collect();
        });
        Self {
            endpoints: endpoints(1),
            ..attack
        }
    }

    fn affinity(name: &'static str, count: u16, size: u32) -> Self {
        let attack = Self::new(name, 1, |it| {
            it.ports = service_ports(count);
            it.affinity = SessionAffinity::ClientIp {
                timeout_seconds: 10_800,
            };
        });
        Self {
            endpoints: endpoints(size),
            ..attack
        }
    }

    fn ports() -> Self {
        Self {
            empty_slices: 10,
            ..Self::new("20,000 ports, 10 slices without endpoints", 1, |it| {
                it.ports = service_ports(20_000);
            })
        }
    }

    pub(super) fn events(&self) -> impl Iterator<Item = Event> + '_ {
        let services = self.services.iter().cloned();
        let services = services.map(|it| Event::Service(Change::Set(Arc::new(it))));
        let full = self.slices(&self.endpoints);
        let empty = (0..self.empty_slices).map(|number| self.slice(number, &[]));
        services.chain(full).chain(empty)
    }

    /// The slice in which the last endpoint is another; without endpoints the first of the Services
    /// again, with an address less.
    pub(super) fn replaced(&self, round: u32) -> Vec<Event> {
        let mut endpoints = self.endpoints.clone();
        if let Some(last) = endpoints.last_mut() {
            *last = synthetic::endpoint(FIRST, 2000 + round);
            return self.slices(&endpoints).collect();
        }
        let mut service = self.services[0].clone();
        match service.external_ips.pop() {
            Some(_) => service.external_ips.truncate(50_000 + round as usize),
            None => service.ports.truncate(10_000 + round as usize),
        }
        vec![Event::Service(Change::Set(Arc::new(service)))]
    }

    fn slices(&self, endpoints: &[IpAddr]) -> impl Iterator<Item = Event> {
        let chunks = endpoints.chunks(SLICE).zip(0..);
        let all: Vec<Event> = chunks.map(|(it, number)| self.slice(number, it)).collect();
        all.into_iter()
    }

    fn slice(&self, number: u32, addresses: &[IpAddr]) -> Event {
        let service = &self.services[0];
        let ports = service.ports.iter().map(|it| EndpointPort {
            name: it.name.clone(),
            protocol: it.protocol,
            port: it.port,
        });
        Event::EndpointSlice(Change::Set(Arc::new(EndpointSlice {
            name: NamespacedName::new("hostile", format!("huge-{number}")),
            service: Some(service.name.name.clone()),
            ports: ports.collect(),
            ..synthetic::slice_object(FIRST, addresses)
        })))
    }
}

fn service_ports(count: u16) -> Vec<ServicePort> {
    let ports = (1..=count).filter_map(NonZeroU16::new);
    let port = |port: NonZeroU16| ServicePort {
        name: format!("p{port}").into(),
        protocol: Protocol::Tcp,
        port,
        node_port: None,
    };
    ports.map(port).collect()
}

fn endpoints(count: u32) -> Vec<IpAddr> {
    synthetic::addresses(FIRST, count)
}

fn addresses(first: [u8; 4], count: u32) -> Vec<IpAddr> {
    let first = u32::from(Ipv4Addr::from(first));
    (first..first + count)
        .map(|it| Ipv4Addr::from(it).into())
        .collect()
}
