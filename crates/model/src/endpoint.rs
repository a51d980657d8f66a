//! EndpointSlices: the endpoints of a Service.

use std::iter;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use crate::{NamespacedName, Protocol};

/// An EndpointSlice (discovery.k8s.io/v1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Namespace and name.
    pub name: NamespacedName,
    /// Value of the label `kubernetes.io/service-name`; a slice without it serves no Service.
    pub service: Option<Arc<str>>,
    /// Has the label `service.kubernetes.io/headless`: proxies ignore the slice.
    pub headless: bool,
    pub address_type: AddressType,
    /// `ports`, without those that a proxy ignores: those without number (all ports) or name.
    pub ports: Vec<EndpointPort>,
    /// `endpoints`, without those that have no address.
    pub endpoints: Vec<Endpoint>,
    /// Annotation `endpoints.kubernetes.io/last-change-trigger-time` in milliseconds since the
    /// Unix epoch: the time of the change that this version of the slice reports.
    pub triggered: Option<i64>,
}

/// `addressType` of an EndpointSlice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressType {
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Domain names, which proxies ignore.
    Fqdn,
}

/// A port that every endpoint of a slice serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPort {
    /// Name of the Service port; empty for an unnamed one.
    pub name: Arc<str>,
    /// Protocol, default TCP.
    pub protocol: Protocol,
    /// Port number on the endpoint. It may differ from slice to slice.
    pub port: NonZeroU16,
}

/// One endpoint of a slice, usually a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The first of `addresses`, which proxies use: the API says that all of them are equivalent.
    pub address: IpAddr,
    /// The others, of which DNS answers, too. Nearly always empty, and then without memory of its own.
    pub other_addresses: Box<[IpAddr]>,
    /// `nodeName`; `None` when the endpoint runs outside the cluster.
    pub node: Option<Arc<str>>,
    /// `zone`: for people, the choice is by hints.
    pub zone: Option<Arc<str>>,
    pub conditions: Conditions,
    pub hints: Hints,
    /// Share of new connections relative to the other endpoints, where the data plane has weights;
    /// 0 gets none. From the slice's annotation `sluice.dev/endpoint-weights`, default 1.
    pub weight: u16,
    /// `targetRef.name`, the pod: for rule comments and explanations.
    pub target: Option<Arc<str>>,
    /// `hostname`, in lower case: the name of the endpoint below its Service's name in DNS. Proxies ignore it.
    pub hostname: Option<Arc<str>>,
}

impl Endpoint {
    /// All of `addresses`, in order.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + Clone {
        iter::once(self.address).chain(self.other_addresses.iter().copied())
    }
}

/// `hints` of an endpoint. Those without any have no memory of their own: they are most of a cluster's endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints(Option<Box<[Vec<Arc<str>>; 2]>>);

impl Hints {
    /// The names in `forZones` and `forNodes`.
    #[must_use]
    pub fn new(zones: Vec<Arc<str>>, nodes: Vec<Arc<str>>) -> Self {
        let is_empty = zones.is_empty() && nodes.is_empty();
        Self((!is_empty).then(|| Box::new([zones, nodes])))
    }

    /// `forZones`. Empty when there are none.
    #[must_use]
    pub fn zones(&self) -> &[Arc<str>] {
        self.0.as_ref().map_or(&[], |it| &it[0])
    }

    /// `forNodes`. Empty when there are none.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<str>] {
        self.0.as_ref().map_or(&[], |it| &it[1])
    }
}

/// `conditions` of an endpoint, with the API's defaults applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// May get new connections (default true).
    pub ready: bool,
    /// Answers, even while terminating (default true).
    pub serving: bool,
    /// Is shutting down (default false).
    pub terminating: bool,
}

impl Conditions {
    /// Ready, serving, not terminating.
    pub const READY: Self = Self {
        ready: true,
        serving: true,
        terminating: false,
    };

    /// Serves while it shuts down: used when no endpoint is ready (KEP-1669).
    pub const fn is_fallback(self) -> bool {
        self.serving && self.terminating
    }
}
