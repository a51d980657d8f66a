//! Problems of objects that are well formed, each in itself.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::{Frontend, Role};
use sluice_model::{IpFamily, NamespacedName, Protocol, ServicePortName};

/// Most issues of one kind that one Service has, before [`Issue::More`].
pub const SHOWN: usize = 10;

/// Most ports of an EndpointSlice that [`Issue::PortMismatch`] names.
pub(crate) const SLICE_PORTS: usize = 3;

/// A problem that planning found. Everything else is planned; the status shows the issue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Issue {
    /// Two Services ask for one frontend: the one whose ClusterIP it is keeps it, else by role, age and
    /// name.
    FrontendTaken {
        /// The frontend that both ask for.
        frontend: Frontend,
        /// The service port that owns it.
        holder: ServicePortName,
        /// The service port that does not get it.
        loser: ServicePortName,
    },
    /// Two Services have one ClusterIP. Ports that differ work for both.
    ClusterIpShared {
        /// The address.
        addr: IpAddr,
        /// The Service that owns the address.
        holder: NamespacedName,
        /// The other Service.
        other: NamespacedName,
    },
    /// A Service has another Service's ClusterIP as an external address.
    ClusterIpTaken {
        /// The Service, which gets no port of the address.
        service: NamespacedName,
        /// Where the Service names the address.
        role: Role,
        /// The address that both Services name.
        addr: IpAddr,
        /// The Service whose ClusterIP it is.
        holder: NamespacedName,
    },
    /// A port of the node cannot be a Service's.
    NodePortRefused {
        service: NamespacedName,
        /// Where the Service names the port.
        field: &'static str,
        /// The port, which is not served.
        port: u16,
        /// Why it is not served.
        problem: NodePortProblem,
    },
    /// The Service has endpoints, but no EndpointSlice of a family gives them a port with the name and
    /// the protocol of this port, so the port has no endpoint.
    PortMismatch {
        /// The service port.
        port: ServicePortName,
        /// The first slice of the Service with an endpoint.
        slice: NamespacedName,
        /// Name and protocol of the first three ports of the slice.
        found: Vec<(Arc<str>, Protocol)>,
        /// Number of further ports of the slice.
        more: usize,
    },
    /// An external IP is not among those that the operator allows.
    ExternalIpNotAllowed {
        service: NamespacedName,
        /// The address, which is not served.
        addr: IpAddr,
    },
    /// A Service names an address that belongs to the node or to pods.
    Shadows {
        service: NamespacedName,
        /// Where the Service names the address.
        role: Role,
        /// The address.
        addr: IpAddr,
        /// The owner of the address.
        shadowed: Shadowed,
        /// The address is not served.
        refused: bool,
    },
    /// A Service exceeds a limit of one Service; its ports are served in their order up to the limit.
    TooLarge {
        service: NamespacedName,
        /// The family; each has the limit for itself.
        family: IpFamily,
        /// The resource whose limit is exceeded.
        what: &'static str,
        /// Number that the Service asks for.
        asked: usize,
        limit: usize,
    },
    /// A Service has more issues of a kind than the [first ones](SHOWN).
    More {
        service: NamespacedName,
        /// The [kind](Issue::reason).
        reason: &'static str,
        /// Number of issues that are left out.
        count: usize,
    },
    /// There is no Node object for this node: topology hints are ignored, and the node's addresses
    /// come from the machine.
    NoNode {
        /// The node's name.
        name: String,
    },
    /// `detectLocalMode: NodeCIDR`, and the Node object has no pod CIDR: nothing tells the node's pods
    /// from other clients. kube-proxy waits for it (`cmd/kube-proxy/app/server_linux.go`).
    NoPodCidr {
        /// The node's name.
        name: String,
    },
    /// The Service that stands in for the node's DNS server does not exist, or has no ClusterIP.
    NoDnsService {
        /// The Service that the settings name.
        service: NamespacedName,
    },
    /// An address that the node's DNS server answers as a ClusterIP of the cluster's DNS Service is none.
    WrongDnsClusterIp {
        /// The address.
        addr: IpAddr,
        /// The Service that the settings name.
        service: NamespacedName,
    },
}

/// The owner of an address that a Service names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shadowed {
    /// The address is one of this node.
    Node,
    /// Maybe a pod: the address lies in this range of pods.
    Pods(IpNet),
    /// Maybe another Service: its ClusterIP, now or later, lies in this range.
    ServiceCidr(IpNet),
    /// The node's DNS server answers there.
    NodeDns,
}

/// Why a port of the node cannot be a NodePort or a health check node port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodePortProblem {
    /// It lies outside this range.
    OutOfRange(u16, u16),
    /// This process listens there.
    OwnPort,
    /// It is the health check node port of this Service.
    HealthCheck(NamespacedName),
    /// It is the NodePort of this Service.
    NodePort(NamespacedName),
}

impl fmt::Display for NodePortProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(first, last) => {
                write!(f, "is outside {first}-{last} (--service-node-port-range)")
            }
            Self::OwnPort => f.write_str("is a port of Sluice's own servers"),
            Self::HealthCheck(holder) => {
                write!(f, "is the health check node port of Service {holder}")
            }
            Self::NodePort(holder) => write!(f, "is a NodePort of Service {holder}"),
        }
    }
}

impl Issue {
    /// The number of issues that this stands for.
    pub fn count(&self) -> usize {
        match self {
            Self::More { count, .. } => *count,
            _ => 1,
        }
    }

    /// The Service that has the problem; `None` when it is the node's.
    pub fn service(&self) -> Option<&NamespacedName> {
        match self {
            Self::FrontendTaken { loser, .. } => Some(&loser.service),
            Self::ClusterIpShared { other, .. } => Some(other),
            Self::PortMismatch { port, .. } => Some(&port.service),
            Self::ExternalIpNotAllowed { service, .. }
            | Self::Shadows { service, .. }
            | Self::ClusterIpTaken { service, .. }
            | Self::NodePortRefused { service, .. }
            | Self::TooLarge { service, .. }
            | Self::More { service, .. } => Some(service),
            Self::NoNode { .. }
            | Self::NoPodCidr { .. }
            | Self::NoDnsService { .. }
            | Self::WrongDnsClusterIp { .. } => None,
        }
    }

    /// The kind of issue in one word, for metrics and scripts.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FrontendTaken { .. } => "FrontendTaken",
            Self::ClusterIpShared { .. } => "ClusterIPShared",
            Self::PortMismatch { .. } => "PortMismatch",
            Self::ExternalIpNotAllowed { .. } => "ExternalIPNotAllowed",
            Self::Shadows { .. } => "Shadows",
            Self::ClusterIpTaken { .. } => "ClusterIPTaken",
            Self::NodePortRefused { .. } => "NodePortRefused",
            Self::TooLarge { .. } => "TooLarge",
            Self::More { reason, .. } => reason,
            Self::NoNode { .. } => "NoNode",
            Self::NoPodCidr { .. } => "NoPodCIDR",
            Self::NoDnsService { .. } => "NoDNSService",
            Self::WrongDnsClusterIp { .. } => "WrongDNSClusterIP",
        }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FrontendTaken {
                frontend,
                holder,
                loser,
            } => write!(
                f,
                "Service {loser}: {frontend} belongs to Service {holder} (a ClusterIP comes before \
                 a load balancer's address, that before an external IP; then the older, else the \
                 first by name, keeps it): give one of them another address or port"
            ),
            Self::ClusterIpShared {
                addr,
                holder,
                other,
            } => write!(
                f,
                "Service {other}: spec.clusterIPs: {addr} is also the ClusterIP of Service {holder}"
            ),
            Self::ClusterIpTaken {
                service,
                role,
                addr,
                holder,
            } => write!(
                f,
                "Service {service}: {}: {addr} is the ClusterIP of Service {holder}: it is not \
                 served",
                field(*role)
            ),
            Self::NodePortRefused {
                service,
                field,
                port,
                problem,
            } => write!(
                f,
                "Service {service}: {field}: {port} {problem}: it is not served"
            ),
            Self::PortMismatch {
                port,
                slice,
                found,
                more,
            } => {
                let (service, port) = (&port.service, named(&port.port, port.protocol));
                write!(
                    f,
                    "Service {service}: port {port} has no endpoint: EndpointSlice {slice} "
                )?;
                match (&found[..], more) {
                    ([], _) => return write!(f, "has no port: write {port} in its ports"),
                    ([only], 0) => write!(f, "has only port {}", named(&only.0, only.1))?,
                    (found, more) => {
                        let found = found.iter().map(|(name, protocol)| named(name, *protocol));
                        write!(f, "has only ports {}", found.collect::<Vec<_>>().join(", "))?;
                        if *more > 0 {
                            write!(f, " and {more} more")?;
                        }
                    }
                }
                f.write_str(": give both the same name and protocol")
            }
            Self::ExternalIpNotAllowed { service, addr } => write!(
                f,
                "Service {service}: spec.externalIPs: {addr} is not allowed on this node \
                 (--external-ip-allow): it is not served"
            ),
            Self::Shadows {
                service,
                role,
                addr,
                shadowed,
                refused,
            } => {
                write!(f, "Service {service}: {}: {addr} ", field(*role))?;
                match shadowed {
                    Shadowed::Node => write!(f, "is an address of this node")?,
                    Shadowed::Pods(net) => write!(f, "lies in the pods' range {net}")?,
                    Shadowed::ServiceCidr(net) => write!(f, "lies in the ServiceCIDR {net}")?,
                    Shadowed::NodeDns => write!(f, "is the address of this node's DNS server")?,
                }
                f.write_str(match (refused, shadowed) {
                    (true, Shadowed::ServiceCidr(_) | Shadowed::NodeDns) => ": it is not served",
                    (true, _) => ": it is not served (--refuse-shadowing-vips)",
                    (false, _) => ": its ports lead to the Service now",
                })
            }
            Self::TooLarge {
                service,
                family,
                what,
                asked,
                limit,
            } => write!(
                f,
                "Service {service}: {asked} {what} of {family} are more than one Service may have \
                 ({limit}): its ports are served in their order up to that"
            ),
            Self::More {
                service,
                reason,
                count,
            } => write!(
                f,
                "Service {service}: {reason}: and {count} more of this kind"
            ),
            Self::NoNode { name } => write!(
                f,
                "Node {name}: no such object: topology hints are ignored, and only the machine tells \
                 the node's addresses"
            ),
            Self::NoPodCidr { name } => write!(
                f,
                "Node {name}: spec.podCIDRs: is empty, and --detect-local-mode=NodeCIDR needs it: until \
                 it is set, no client of a ClusterIP is masqueraded and policy Local takes pods of this \
                 node for outside clients; without an allocator of pod CIDRs set --cluster-cidr and \
                 --detect-local-mode=ClusterCIDR"
            ),
            Self::NoDnsService { service } => write!(
                f,
                "--dns-service: Service {service} does not exist, or has no ClusterIP: nobody answers the \
                 DNS queries of this node while its own server does not"
            ),
            Self::WrongDnsClusterIp { addr, service } => write!(
                f,
                "--dns-cluster-ip: {addr} is no ClusterIP of Service {service}: the cluster's DNS does not answer \
                 there while the DNS server of this node does not"
            ),
        }
    }
}

/// A port as `http/TCP`, and as `""/TCP` without a name: so people write it.
fn named(name: &str, protocol: Protocol) -> String {
    let protocol = protocol.as_str().to_uppercase();
    match name {
        "" => format!("\"\"/{protocol}"),
        name => format!("{name}/{protocol}"),
    }
}

/// The field that gives a Service a frontend of this role.
fn field(role: Role) -> &'static str {
    match role {
        Role::NodeDns => "--dns-address",
        Role::ClusterIp => "spec.clusterIPs",
        Role::LoadBalancer => "status.loadBalancer.ingress",
        Role::ExternalIp => "spec.externalIPs",
        Role::NodePort => "spec.ports.nodePort",
    }
}

/// The issues of one Service, a bounded number of each kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Issues {
    all: Vec<Issue>,
    counts: BTreeMap<&'static str, usize>,
}

impl Issues {
    pub(crate) fn push(&mut self, issue: Issue) {
        let count = self.counts.entry(issue.reason()).or_default();
        *count += 1;
        if *count <= SHOWN {
            self.all.push(issue);
        }
    }

    /// The first issues of each kind, and the number of the others.
    pub(crate) fn of(self, service: &NamespacedName) -> Vec<Issue> {
        let mut all = self.all;
        let over = self.counts.into_iter().filter(|(_, it)| *it > SHOWN);
        all.extend(over.map(|(reason, count)| Issue::More {
            service: service.clone(),
            reason,
            count: count - SHOWN,
        }));
        all
    }
}

impl Extend<Issue> for Issues {
    fn extend<T: IntoIterator<Item = Issue>>(&mut self, issues: T) {
        issues.into_iter().for_each(|it| self.push(it));
    }
}
