//! Why a packet goes where it goes.
//!
//! [`explain`] tells the same story as [`Plan::lookup`](crate::Plan::lookup), with reasons.
//! Law: verdict and pool are those of the lookup.

mod claim;
mod display;
mod members;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use crate::endpoints::Topology;
use crate::lookup::{Fate, HostAddresses, Packet, Reason};
use crate::{
    ClusterIpMasquerade, LocalTraffic, PlannedFrontend, Planner, PortPlan, Role, Route, Scope,
};
use sluice_model::{IpFamily, TrafficPolicy};

/// The fate of one packet, with reasons. Displays as a few lines for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Source address.
    pub source: IpAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Protocol, in lower case.
    pub protocol: String,
    /// Interface that the packet arrived through; `None` when the node itself sends it.
    pub interface: Option<String>,
    /// The node that this is true of.
    pub node: String,
    /// What the packet hits; `None` when no service port has the frontend.
    pub service: Option<Hit>,
    /// Each a sentence: who else wants the frontend, or what else there is at this address.
    pub notes: Vec<String>,
    /// What becomes of it.
    pub verdict: Outcome,
    /// Why, in words.
    pub reason: String,
}

/// The service port that a packet hits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// `namespace/name:port`.
    pub port: String,
    /// What the client dials: `10.96.0.10:80/tcp`.
    pub frontend: String,
    /// Why the frontend exists: `ClusterIP`, `LoadBalancer`, `ExternalIP`, `NodePort`.
    pub role: String,
    /// The traffic policy that counts, and what it means.
    pub policy: String,
    /// Who the client is to this node.
    pub client: Client,
    /// How `client` is known.
    pub client_reason: String,
    /// Whether `loadBalancerSourceRanges` admit the client; `None` where none apply.
    pub source_ranges: Option<SourceRanges>,
    /// Seconds a client stays with its endpoint; `None` without session affinity.
    pub affinity_seconds: Option<u32>,
    /// How topology hints narrow the choice; `None` when they do not.
    pub topology: Option<String>,
    /// The endpoint sees an address of the node, whichever is chosen.
    pub masquerade: bool,
    /// Why the source address is kept or replaced.
    pub masquerade_reason: String,
    /// Every endpoint of the port, also those that get nothing, by address.
    pub endpoints: Vec<Member>,
}

/// What a client is to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// The node itself.
    Node,
    /// A pod of this node.
    LocalPod,
    /// Anyone else.
    Other,
}

/// The verdict of `loadBalancerSourceRanges`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRanges {
    /// The client may connect.
    pub admitted: bool,
    /// Who may.
    pub allowed: Vec<String>,
}

/// An endpoint and whether this client may be sent to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Where it listens.
    pub address: SocketAddr,
    /// This client may be sent there.
    pub included: bool,
    /// Why, or why not; empty for an ordinary member.
    pub reason: String,
    /// The node it runs on; `None` outside the cluster.
    pub node: Option<String>,
    /// Its pod, if known.
    pub pod: Option<String>,
    /// The EndpointSlice that names it.
    pub slice: String,
    /// It sees an address of the node as its client. Meaningful when `included`.
    pub masqueraded: bool,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Sent to one of the endpoints that are `included`.
    Balance,
    /// Vanishes: the client waits for a timeout.
    Drop,
    /// Is refused: the client hears at once.
    Reject,
    /// Is none of our business.
    NotService,
}

/// Explains the fate of a packet on the planner's node. The planner must have planned all that it
/// heard.
#[must_use]
pub fn explain(planner: &Planner, packet: &Packet, host: &HostAddresses) -> Explanation {
    let plan = planner.plan();
    let fate = plan.lookup(packet, host);
    let found = plan.frontend(packet, host);
    let service = found.map(|(port, frontend)| hit(planner, packet, host, port, frontend, &fate));
    let included = service.as_ref().map_or(0, |hit| {
        hit.endpoints.iter().filter(|it| it.included).count()
    });
    let (verdict, reason) = match &fate {
        Fate::Balance { .. } => (
            Outcome::Balance,
            format!("balance over {included} endpoint{}", plural(included)),
        ),
        Fate::Drop(reason) => (Outcome::Drop, format!("drop: {}", why(*reason))),
        Fate::Reject(reason) => (Outcome::Reject, format!("reject: {}", why(*reason))),
        Fate::NotService => (
            Outcome::NotService,
            "not a service: no Service has this address and port".into(),
        ),
    };
    Explanation {
        source: packet.source,
        destination: SocketAddr::new(packet.destination, packet.port),
        protocol: packet.protocol.to_string(),
        interface: packet.interface.as_deref().map(str::to_owned),
        node: planner.settings().node_name.to_string(),
        service,
        notes: claim::notes(planner, packet, host, found.map(|(port, _)| &port.key)),
        verdict,
        reason,
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::SourceRanges => "the source is outside loadBalancerSourceRanges",
        Reason::NoLocalEndpoint => "the policy is Local and no endpoint on this node answers",
        Reason::NoEndpoint => "no endpoint anywhere answers",
        Reason::UndefinedPort => "the ClusterIP has no such port",
        Reason::UnallocatedClusterIp => "no Service has this address of the ServiceCIDR",
    }
}

fn hit(
    planner: &Planner,
    packet: &Packet,
    host: &HostAddresses,
    port: &PortPlan,
    frontend: &PlannedFrontend,
    fate: &Fate<'_>,
) -> Hit {
    let family = planner
        .plan()
        .node
        .family(IpFamily::of(&packet.destination));
    let (client, client_reason) = client(packet, host, family.local_traffic.as_ref());
    let sources = frontend.allowed_sources.as_ref();
    let (masquerade, masquerade_reason) =
        masquerade(frontend.route, client, family.cluster_ip_masquerade);
    let members = members::members(planner, packet, host, port, scope(frontend, client), fate);
    Hit {
        port: port.key.name.to_string(),
        frontend: frontend.frontend.to_string(),
        role: frontend.role.to_string(),
        policy: policy(planner, port, frontend, client),
        client,
        client_reason,
        source_ranges: sources.map(|nets| SourceRanges {
            admitted: nets.iter().any(|net| net.contains(&packet.source)),
            allowed: nets.iter().map(ToString::to_string).collect(),
        }),
        affinity_seconds: port.affinity_seconds,
        topology: match members.topology {
            Topology::Anywhere => None,
            Topology::SameNode => Some("only endpoints hinted for this node".into()),
            Topology::SameZone => Some("only endpoints hinted for this node's zone".into()),
        },
        masquerade,
        masquerade_reason: masquerade_reason.into(),
        endpoints: members.all,
    }
}

/// Which pool this client is balanced over, when it is.
fn scope(frontend: &PlannedFrontend, client: Client) -> Scope {
    use crate::Verdict;
    let of = |verdict| match verdict {
        Verdict::Balance(scope) => scope,
        Verdict::Drop => Scope::Local,
        Verdict::Reject => Scope::Cluster,
    };
    match (frontend.route, client) {
        (Route::Internal(verdict) | Route::External(verdict), _) => of(verdict),
        (Route::ExternalLocal { .. }, Client::Node | Client::LocalPod) => Scope::Cluster,
        (Route::ExternalLocal { far }, Client::Other) => of(far),
    }
}

fn policy(
    planner: &Planner,
    port: &PortPlan,
    frontend: &PlannedFrontend,
    client: Client,
) -> String {
    let service = planner.state().service(&port.key.name.service);
    let service = service.and_then(|it| it.service.as_deref());
    let (name, policy) = match (frontend.role, service) {
        (Role::ClusterIp, service) => (
            "internalTrafficPolicy",
            service.map(|it| it.internal_policy),
        ),
        (_, service) => ("externalTrafficPolicy", service.map(crate::external_policy)),
    };
    let meaning = match (policy, frontend.route, client) {
        (Some(TrafficPolicy::Local), Route::ExternalLocal { .. }, Client::Node) => {
            "Local, but the node's own connections go to any ready endpoint"
        }
        (Some(TrafficPolicy::Local), Route::ExternalLocal { .. }, Client::LocalPod) => {
            "Local, but pods of this node go to any ready endpoint"
        }
        (Some(TrafficPolicy::Local), ..) => "Local: only endpoints of this node",
        _ => "Cluster: any ready endpoint",
    };
    format!("{name} {meaning}")
}

fn client(
    packet: &Packet,
    host: &HostAddresses,
    local_traffic: Option<&LocalTraffic>,
) -> (Client, String) {
    let by = |local: &LocalTraffic| match local {
        LocalTraffic::From(net) => format!("a pod of this node ({net})"),
        LocalTraffic::Interface(name) => format!("a pod of this node (arrives through {name})"),
        LocalTraffic::InterfacePrefix(prefix) => {
            format!("a pod of this node (arrives through {prefix}*)")
        }
    };
    let interface = packet.interface.as_deref();
    match local_traffic {
        Some(it) if it.matches(packet.source, interface) => (Client::LocalPod, by(it)),
        _ if host.contains(&packet.source) => (Client::Node, "this node itself".into()),
        Some(_) => (
            Client::Other,
            "neither this node nor one of its pods".into(),
        ),
        None => {
            let words = "not this node (no detector tells its pods from others)";
            (Client::Other, words.into())
        }
    }
}

fn masquerade(
    route: Route,
    client: Client,
    cluster_ip: ClusterIpMasquerade,
) -> (bool, &'static str) {
    match (route, cluster_ip, client) {
        (Route::Internal(_), ClusterIpMasquerade::Everybody, _) => {
            (true, "is masqueraded: masqueradeAll")
        }
        (Route::Internal(_), ClusterIpMasquerade::Nobody, _) => {
            (false, "keeps its address: no detector of local pods")
        }
        (Route::Internal(_), ClusterIpMasquerade::NotLocalPods, Client::LocalPod) => {
            (false, "keeps its address")
        }
        (Route::Internal(_), ClusterIpMasquerade::NotLocalPods, _) => {
            (true, "is masqueraded: not a pod of this node")
        }
        (Route::External(_), ..) => (true, "is masqueraded: external traffic"),
        (Route::ExternalLocal { .. }, _, Client::Node) => {
            (true, "is masqueraded: the node's own connection")
        }
        (Route::ExternalLocal { .. }, ..) => (false, "keeps its address: policy Local"),
    }
}
