//! What an answer comes from, in words.

use std::fmt;
use std::net::IpAddr;

use hickory_proto::rr::{Name, RecordType};
use sluice_model::{Endpoint, EndpointSlice, NamespacedName, Pod, Service};

/// What an answer comes from. Displays as a sentence without full stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin<'a> {
    /// The ClusterIPs of a Service.
    ClusterIps(&'a Service),
    /// The ready endpoints of a headless Service.
    Endpoints {
        /// The Service.
        service: &'a Service,
        /// How many endpoints were looked at.
        ready: usize,
    },
    /// An endpoint of a Service, the first when several have the name or address.
    Endpoint {
        /// Its slice.
        slice: &'a EndpointSlice,
        /// The endpoint.
        endpoint: &'a Endpoint,
    },
    /// The `externalName` of a Service.
    ExternalName(&'a Service),
    /// The address in the name itself: with `pods insecure` no pod is asked.
    AddressInName(IpAddr),
    /// A pod.
    Pod(&'a Pod),
    /// The zone itself: its SOA.
    Zone,
    /// Where this server listens: NS records and their addresses.
    NameServer,
    /// The version of the specification.
    Version,

    /// No zone is around the name.
    NotOurs,
    /// The name exists, the type has no records.
    NoRecords(RecordType),
    /// Names exist below this one, and it has no records itself.
    Above,
    /// Only `svc` and `pod` are below the zone.
    NeitherServiceNorPod(Label<'a>),
    /// More labels than a name of a Service or endpoint has.
    TooManyLabels,
    /// The namespace does not exist.
    NoNamespace(Label<'a>),
    /// The namespace is not among those of the settings.
    NamespaceNotServed(Label<'a>),
    /// The Service does not exist.
    NoService {
        /// Its namespace.
        namespace: Label<'a>,
        /// Its name.
        service: Label<'a>,
    },
    /// The Service has no ready endpoint, and without one it has no name.
    NoEndpoints(&'a Service),
    /// Endpoints have no names by the settings.
    EndpointsNotServed(&'a Service),
    /// The Service has no port of this name and protocol.
    NoPort {
        /// The Service.
        service: &'a Service,
        /// The name of the port.
        port: Label<'a>,
        /// The protocol.
        protocol: Label<'a>,
    },
    /// No ready endpoint of the Service has the name.
    NoEndpointNamed {
        /// The Service.
        service: &'a Service,
        /// The name.
        name: Label<'a>,
    },
    /// The Service stands for another name, and nothing can be below it.
    NothingBelowAlias(&'a Service),
    /// The Service stands for another name of the zone, which has no such records.
    AliasToNothing(&'a Service),
    /// The Service has no ClusterIP yet.
    NoClusterIp(&'a Service),
    /// The names of pods are not served by the settings.
    PodsDisabled,
    /// The label is no address of a pod.
    NoPodAddress(Label<'a>),
    /// No pod of the namespace has the address.
    NoPod {
        /// The namespace.
        namespace: Label<'a>,
        /// The address.
        address: IpAddr,
    },
    /// Nothing has the address of a reverse name.
    NobodyHas(IpAddr),
    /// The name in the reverse zone is no whole address.
    NoAddress,
}

/// One label of a question. Displays in lower case, odd bytes as `\x00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<'a>(pub &'a [u8]);

impl<'a> Origin<'a> {
    /// The Service that the answer comes from, if one does.
    #[must_use]
    pub fn service(&self) -> Option<&'a NamespacedName> {
        match self {
            Self::ClusterIps(it)
            | Self::Endpoints { service: it, .. }
            | Self::ExternalName(it)
            | Self::AliasToNothing(it) => Some(&it.name),
            _ => None,
        }
    }
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_ascii_lowercase().escape_ascii())
    }
}
