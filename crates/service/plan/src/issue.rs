//! Problems of objects that are well formed, each in itself.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Frontend, Role};
use sluice_model::{EndpointSlice, IpFamily, NamespacedName, Protocol, ServicePortName};

/// Most issues of one kind that one Service has, before one that counts the others.
pub const SHOWN: usize = 10;

/// Most ports of an EndpointSlice that an issue names.
const SLICE_PORTS: usize = 3;

/// The kind of an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Two Services have one ClusterIP. Ports that differ work for both.
    ClusterIpShared,
    /// A Service has another Service's ClusterIP as an external address.
    ClusterIpTaken,
    /// An external IP is not among those that the operator allows.
    ExternalIpNotAllowed,
    /// Two Services ask for one frontend: the one whose ClusterIP it is keeps it, else by role, age and
    /// name.
    FrontendTaken,
    /// The Service that stands in for the node's DNS server does not exist, or has no ClusterIP.
    NoDnsService,
    /// There is no Node object for this node: topology hints are ignored, and the node's addresses
    /// come from the machine.
    NoNode,
    /// `detectLocalMode: NodeCIDR`, and the Node object has no pod CIDR: nothing tells the node's pods
    /// from other clients. kube-proxy waits for it (`cmd/kube-proxy/app/server_linux.go`).
    NoPodCidr,
    /// A port of the node cannot be a Service's.
    NodePortRefused,
    /// The Service has endpoints, but no EndpointSlice of a family gives them a port with the name and
    /// the protocol of this port, so the port has no endpoint.
    PortMismatch,
    /// A Service names an address that belongs to the node or to pods.
    Shadows,
    /// `loadBalancerSourceRanges` has prefixes of one family, and the load balancer an address of the other, which is open to
    /// everybody, as with kube-proxy.
    SourceRangesOfOneFamily,
    /// A Service exceeds a limit of one Service; its ports are served in their order up to the limit.
    TooLarge,
    /// An address that the node's DNS server answers as a ClusterIP of the cluster's DNS Service is none.
    WrongDnsClusterIp,
}

impl Kind {
    /// The kinds in one word each, for metrics and scripts, in the order of the enum.
    pub const NAMES: [&'static str; 13] = [
        "ClusterIPShared",
        "ClusterIPTaken",
        "ExternalIPNotAllowed",
        "FrontendTaken",
        "NoDNSService",
        "NoNode",
        "NoPodCIDR",
        "NodePortRefused",
        "PortMismatch",
        "Shadows",
        "SourceRangesOfOneFamily",
        "TooLarge",
        "WrongDNSClusterIP",
    ];

    /// The kind in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A problem that planning found. Everything else is planned; the status shows the issue. Displays as a line for a
/// person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub kind: Kind,
    /// The Service that has the problem; `None` when it is the node's.
    pub service: Option<NamespacedName>,
    /// The users of the Service can do something about it now.
    pub is_for_users: bool,
    /// The number of issues that this stands for.
    pub count: usize,
    text: String,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn issue(kind: Kind, service: Option<&NamespacedName>, text: String) -> Issue {
    Issue {
        kind,
        service: service.cloned(),
        is_for_users: service.is_some(),
        count: 1,
        text,
    }
}

/// An issue of a Service; its name comes before the text.
fn of(kind: Kind, service: &NamespacedName, text: &str) -> Issue {
    issue(kind, Some(service), format!("Service {service}: {text}"))
}

pub(crate) fn frontend_taken(
    frontend: Frontend,
    holder: &ServicePortName,
    loser: &ServicePortName,
) -> Issue {
    let text = format!(
        "Service {loser}: {frontend} belongs to Service {holder} (a ClusterIP comes before \
         a load balancer's address, that before an external IP; then the older, else the \
         first by name, keeps it): give one of them another address or port"
    );
    issue(Kind::FrontendTaken, Some(&loser.service), text)
}

/// `holder` owns the address.
pub(crate) fn cluster_ip_shared(
    service: &NamespacedName,
    addr: IpAddr,
    holder: &NamespacedName,
) -> Issue {
    let text = format!("spec.clusterIPs: {addr} is also the ClusterIP of Service {holder}");
    of(Kind::ClusterIpShared, service, &text)
}

/// `service` gets no port of the address.
pub(crate) fn cluster_ip_taken(
    service: &NamespacedName,
    role: Role,
    addr: IpAddr,
    holder: &NamespacedName,
) -> Issue {
    let field = field(role);
    let text = format!("{field}: {addr} is the ClusterIP of Service {holder}: it is not served");
    of(Kind::ClusterIpTaken, service, &text)
}

/// `field`: where the Service names the port.
pub(crate) fn node_port_refused(
    service: &NamespacedName,
    field: &str,
    port: u16,
    problem: &NodePortProblem,
) -> Issue {
    let text = format!("{field}: {port} {problem}: it is not served");
    of(Kind::NodePortRefused, service, &text)
}

pub(crate) fn source_ranges_of_one_family(
    service: &NamespacedName,
    family: IpFamily,
    addr: IpAddr,
) -> Issue {
    let text = format!(
        "spec.loadBalancerSourceRanges: no prefix is of {family}, so everybody may connect to {addr}: add some"
    );
    of(Kind::SourceRangesOfOneFamily, service, &text)
}

/// `slice`: the first one of the Service with an endpoint.
pub(crate) fn port_mismatch(port: &ServicePortName, slice: &EndpointSlice) -> Issue {
    let wanted = named(&port.port, port.protocol);
    let first = slice.ports.iter().take(SLICE_PORTS);
    let first: Vec<String> = first.map(|it| named(&it.name, it.protocol)).collect();
    let more = slice.ports.len() - first.len();
    let mend = "give both the same name and protocol";
    let found = match (&first[..], more) {
        ([], _) => format!("has no port: write {wanted} in its ports"),
        ([only], 0) => format!("has only port {only}: {mend}"),
        (_, 0) => format!("has only ports {}: {mend}", first.join(", ")),
        _ => format!(
            "has only ports {} and {more} more: {mend}",
            first.join(", ")
        ),
    };
    let text = format!(
        "port {wanted} has no endpoint: EndpointSlice {} {found}",
        slice.name
    );
    Issue {
        // The slices of a Service whose ports have changed come later.
        is_for_users: false,
        ..of(Kind::PortMismatch, &port.service, &text)
    }
}

pub(crate) fn external_ip_not_allowed(service: &NamespacedName, addr: IpAddr) -> Issue {
    let text = format!(
        "spec.externalIPs: {addr} is not allowed on this node (--external-ip-allow): it is not served"
    );
    of(Kind::ExternalIpNotAllowed, service, &text)
}

/// `refused`: the address is not served.
pub(crate) fn shadows(
    service: &NamespacedName,
    role: Role,
    addr: IpAddr,
    shadowed: Shadowed,
    refused: bool,
) -> Issue {
    let owner = match shadowed {
        Shadowed::Node => "is an address of this node".to_owned(),
        Shadowed::Pods(net) => format!("lies in the pods' range {net}"),
        Shadowed::ServiceCidr(net) => format!("lies in the ServiceCIDR {net}"),
        Shadowed::NodeDns => "is the address of this node's DNS server".to_owned(),
    };
    let outcome = match (refused, shadowed) {
        (true, Shadowed::NodeDns) => "it is not served",
        (true, _) => "it is not served (--refuse-shadowing-vips)",
        (false, Shadowed::ServiceCidr(_)) => {
            "its ports lead to the Service until another one gets it as its ClusterIP"
        }
        (false, _) => "its ports lead to the Service now",
    };
    let text = format!("{}: {addr} {owner}: {outcome}", field(role));
    Issue {
        // Load balancers that hand out the addresses of nodes do so on purpose.
        is_for_users: refused || role != Role::LoadBalancer,
        ..of(Kind::Shadows, service, &text)
    }
}

/// `what`: the resource whose limit is exceeded. Each family has the limit for itself.
pub(crate) fn too_large(
    service: &NamespacedName,
    family: IpFamily,
    what: &str,
    asked: usize,
    limit: usize,
) -> Issue {
    let text = format!(
        "{asked} {what} of {family} are more than one Service may have ({limit}): its ports are \
         served in their order up to that"
    );
    of(Kind::TooLarge, service, &text)
}

pub(crate) fn no_node(name: &str) -> Issue {
    let text = format!(
        "Node {name}: no such object: topology hints are ignored, and only the machine tells the \
         node's addresses"
    );
    issue(Kind::NoNode, None, text)
}

pub(crate) fn no_pod_cidr(name: &str) -> Issue {
    let text = format!(
        "Node {name}: spec.podCIDRs: is empty, and --detect-local-mode=NodeCIDR needs it: until \
         it is set, no client of a ClusterIP is masqueraded and policy Local takes pods of this \
         node for outside clients; without an allocator of pod CIDRs set --cluster-cidr and \
         --detect-local-mode=ClusterCIDR"
    );
    issue(Kind::NoPodCidr, None, text)
}

pub(crate) fn no_dns_service(service: &NamespacedName) -> Issue {
    let text = format!(
        "--dns-service: Service {service} does not exist, or has no ClusterIP: nobody answers the \
         DNS queries of this node while its own server does not"
    );
    issue(Kind::NoDnsService, None, text)
}

pub(crate) fn wrong_dns_cluster_ip(addr: IpAddr, service: &NamespacedName) -> Issue {
    let text = format!(
        "--dns-cluster-ip: {addr} is no ClusterIP of Service {service}: the cluster's DNS does not answer \
         there while the DNS server of this node does not"
    );
    issue(Kind::WrongDnsClusterIp, None, text)
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
    counts: BTreeMap<Kind, usize>,
}

impl Issues {
    /// Adds an issue of this kind. There may be 50,000, of which most are only counted.
    pub(crate) fn push(&mut self, kind: Kind, issue: impl FnOnce() -> Issue) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= SHOWN {
            self.all.push(issue());
        }
    }

    /// The first issues of each kind, and the number of the others.
    pub(crate) fn of(self, service: &NamespacedName) -> Vec<Issue> {
        let mut all = self.all;
        let over = self.counts.into_iter().filter(|(_, it)| *it > SHOWN);
        all.extend(over.map(|(kind, count)| {
            let count = count - SHOWN;
            let text = format!("{}: and {count} more of this kind", kind.name());
            Issue {
                count,
                // The first issues of this kind are enough.
                is_for_users: false,
                ..of(kind, service, &text)
            }
        }));
        all
    }
}

impl Extend<Issue> for Issues {
    fn extend<T: IntoIterator<Item = Issue>>(&mut self, issues: T) {
        issues.into_iter().for_each(|it| self.push(it.kind, || it));
    }
}
