//! What an answer comes from, in words.

use std::fmt;
use std::net::IpAddr;

use hickory_proto::rr::RecordType;
use sluice_model::{
    ClusterIps, Endpoint, EndpointSlice, NamespacedName, Pod, Service, ServiceKind,
};

/// What an answer comes from. Displays as a clause for people, without full stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin<'a> {
    /// The records are those of this.
    From(Holder<'a>),
    /// The name is that of this, which has no records of the type.
    Lacks(Holder<'a>, RecordType),
    /// Names may exist below this one; it has no records itself.
    Above,
    /// The name does not exist, and this is the nearest reason.
    Missing(Missing<'a>),
    /// No zone of the settings is around the name.
    NotOurs,
}

/// Names with records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Holder<'a> {
    /// A Service: its ClusterIPs, its ready endpoints when it is headless, its `externalName`.
    Service(&'a Service),
    /// An endpoint of a Service, the first when several have the name or the address.
    Endpoint(&'a EndpointSlice, &'a Endpoint),
    /// The address in the name itself: with `pods insecure` no pod is asked.
    AddressInName(IpAddr),
    Pod(&'a Pod),
    /// The zone: its SOA.
    Zone,
    /// The servers of the zone: NS records and their addresses.
    NameServer,
    /// The version of the specification.
    Version,
}

/// Why a name does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing<'a> {
    /// Only `svc` and `pod` are below a zone.
    NeitherServiceNorPod(Label<'a>),
    /// More labels than a name of a Service, port or endpoint has.
    TooManyLabels,
    /// The zone has no records of this type where no Service or pod is.
    NoText,
    /// The namespace is not among those of the settings.
    NamespaceNotServed(Label<'a>),
    /// The namespace does not exist.
    Namespace(Label<'a>),
    /// The Service does not exist.
    Service {
        namespace: Label<'a>,
        /// Its name.
        service: Label<'a>,
    },
    /// The Service has no ready endpoint, and has no name without.
    ReadyEndpoint(&'a Service),
    /// By the settings nothing is answered from endpoints.
    EndpointsNotServed(&'a Service),
    /// No ready endpoint of the Service has the name.
    EndpointNamed {
        service: &'a Service,
        name: Label<'a>,
    },
    /// The Service (a headless one: every slice with ready endpoints) lacks the port.
    Port {
        service: &'a Service,
        /// The name of the port; empty for any.
        port: Label<'a>,
        /// The protocol; empty for any.
        protocol: Label<'a>,
    },
    /// The Service stands for another name, so that nothing is below it.
    BelowAlias(&'a Service),
    /// The `externalName` is an address, so that it is no alias.
    AliasIsAddress(&'a Service),
    /// By the settings pods have no names.
    PodsDisabled,
    /// The label is no address with dashes.
    PodAddress(Label<'a>),
    /// No pod of the namespace has the address.
    Pod {
        namespace: Label<'a>,
        address: IpAddr,
    },
    /// No ClusterIP and no ready endpoint has the address.
    OwnerOf(IpAddr),
    /// The name in a reverse zone is no whole address, or not asked for its PTR records.
    Address,
}

/// One label of a question. Displays in lower case, odd bytes escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label<'a>(pub &'a [u8]);

impl<'a> Origin<'a> {
    /// The Service that the answer comes from, if one does.
    #[must_use]
    pub fn service(&self) -> Option<&'a NamespacedName> {
        match self {
            Self::From(Holder::Service(it)) | Self::Lacks(Holder::Service(it), _) => Some(&it.name),
            _ => None,
        }
    }
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(holder) => holder.fmt(f),
            Self::Lacks(Holder::Service(it), kind) if it.kind == ServiceKind::ExternalName => {
                write!(f, "{}, which has no {kind} records", Holder::Service(it))
            }
            Self::Lacks(Holder::Service(it), kind) => {
                write!(f, "Service {} exists and has no {kind} records", it.name)
            }
            Self::Lacks(holder, kind) => write!(f, "{holder}, which has no {kind} records"),
            Self::Above => f.write_str("only names below this one have records"),
            Self::Missing(reason) => reason.fmt(f),
            Self::NotOurs => f.write_str("no zone of the kubernetes plugin is around this name"),
        }
    }
}

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(it) => service(it, f),
            Self::Endpoint(slice, endpoint) => {
                write!(f, "endpoint {}", endpoint.address)?;
                if let Some(pod) = &endpoint.target {
                    write!(f, " (pod {pod})")?;
                }
                let owner = slice.service.as_deref().unwrap_or_default();
                let namespace = &slice.name.namespace;
                write!(
                    f,
                    " of Service {namespace}/{owner}, in EndpointSlice {}",
                    slice.name.name
                )
            }
            Self::AddressInName(_) => f.write_str(
                "the address that the name spells (pods insecure: no pod is looked for)",
            ),
            Self::Pod(it) => write!(f, "pod {}", it.name),
            Self::Zone => f.write_str("the zone itself"),
            Self::NameServer => f.write_str("the servers of the zone"),
            Self::Version => f.write_str("the version of the specification of DNS for Kubernetes"),
        }
    }
}

fn service(it: &Service, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (it.kind, &it.cluster_ips) {
        (ServiceKind::ExternalName, _) => {
            let target = it.external_name.as_deref().unwrap_or_default();
            write!(f, "Service {}, which stands for {target}", it.name)
        }
        (_, ClusterIps::Headless) => {
            write!(f, "the ready endpoints of Service {} (headless)", it.name)
        }
        (_, ClusterIps::Assigned(_)) => write!(f, "the ClusterIP of Service {}", it.name),
        (_, ClusterIps::Unassigned) => write!(f, "Service {}, which has no ClusterIP yet", it.name),
    }
}

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeitherServiceNorPod(it) => {
                write!(f, "the zone has names below svc and pod, none below {it}")
            }
            Self::TooManyLabels => f.write_str("no name in the zone has so many labels"),
            Self::NoText => {
                f.write_str("no Service or pod has this name, so it has no TXT records")
            }
            Self::NamespaceNotServed(it) => {
                write!(
                    f,
                    "namespace {it} is not among the namespaces of the kubernetes plugin"
                )
            }
            Self::Namespace(it) => write!(f, "there is no namespace {it}"),
            Self::Service { namespace, service } => {
                write!(f, "there is no Service {service} in namespace {namespace}")
            }
            Self::ReadyEndpoint(it) => write!(f, "Service {} has no ready endpoint", it.name),
            Self::EndpointsNotServed(it) => {
                write!(
                    f,
                    "noendpoints: endpoints of Service {} have no names",
                    it.name
                )
            }
            Self::EndpointNamed { service, name } => {
                write!(
                    f,
                    "no ready endpoint of Service {} is called {name}",
                    service.name
                )
            }
            Self::Port {
                service,
                port,
                protocol,
            } => port_missing(service, *port, *protocol, f),
            Self::BelowAlias(it) => write!(
                f,
                "Service {} stands for {}: it has no ports and endpoints",
                it.name,
                it.external_name.as_deref().unwrap_or_default()
            ),
            Self::AliasIsAddress(it) => {
                write!(
                    f,
                    "externalName of Service {} is an address, not a name",
                    it.name
                )
            }
            Self::PodsDisabled => f.write_str("pods disabled: pods have no names"),
            Self::PodAddress(it) => write!(f, "{it} is no address with dashes, as 10-244-1-2 is"),
            Self::Pod { namespace, address } => {
                write!(
                    f,
                    "no pod in namespace {namespace} has the address {address}"
                )
            }
            Self::OwnerOf(it) => write!(f, "no ClusterIP and no ready endpoint is {it}"),
            Self::Address => f.write_str("a reverse zone has PTR records of whole addresses only"),
        }
    }
}

fn port_missing(
    service: &Service,
    port: Label<'_>,
    protocol: Label<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "Service {} has no", service.name)?;
    if !protocol.0.is_empty() {
        write!(f, " {protocol}")?;
    }
    f.write_str(" port")?;
    if !port.0.is_empty() {
        write!(f, " called {port}")?;
    }
    Ok(())
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_ascii_lowercase().escape_ascii())
    }
}
