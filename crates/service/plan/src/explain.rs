//! [`Plan::lookup`](crate::Plan::lookup) in words: the verdict on a packet, with reasons.
//!
//! Law: verdict and pool are those of the lookup.

mod claim;
mod display;
mod ends;
mod members;
mod nowhere;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

pub use ends::{
    Host, Unclear, bare, host_of, is_anybody_outside, pod_of, sender_pod, service_of, unknown,
};

use crate::endpoints::Topology;
use crate::lookup::{Client, Lookup, Packet, treat};
use crate::port::external_policy;
use crate::state::HostAddresses;
use crate::{PlannedFrontend, Planner, PortPlan, Role, Route, Scope, Verdict};
use sluice_model::{IpFamily, LocalTraffic, TrafficPolicy};

/// The verdict on one packet, with reasons. Displays as a few lines for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub source: IpAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Protocol, in lower case.
    pub protocol: String,
    /// Interface that the packet arrived through; `None` when the node itself sends it.
    pub interface: Option<String>,
    /// Name of the node that has the packet.
    pub node: String,
    /// The frontend and the service port that owns it; `None` without one.
    pub service: Option<Hit>,
    /// Sentences about other Services that name the frontend or the address.
    pub notes: Vec<String>,
    pub verdict: Decision,
    /// The verdict with its reason, in words.
    pub reason: String,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// It goes to one of the endpoints with a share.
    Balance,
    Drop,
    /// It is rejected: the client gets an error at once.
    Reject,
    /// Its destination is no Service.
    NotService,
}

/// The frontend that a packet is addressed to, and its service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// `namespace/name:port`.
    pub port: String,
    /// The frontend: `10.96.0.10:80/tcp`.
    pub frontend: String,
    /// Why the frontend exists: `ClusterIP`, `LoadBalancer`, `ExternalIP`, `NodePort`.
    pub role: String,
    /// The traffic policy that applies, and what it means.
    pub policy: String,
    /// Where the client is, as seen from this node.
    pub client: Client,
    /// How the node recognises the client.
    pub client_reason: String,
    /// `None` where no `loadBalancerSourceRanges` apply.
    pub source_ranges: Option<SourceRanges>,
    /// Seconds a client stays with its endpoint; `None` without session affinity.
    pub affinity_seconds: Option<u32>,
    /// How topology hints narrow the choice; `None` when they do not.
    pub topology: Option<String>,
    /// The endpoint sees an address of the node, whichever is chosen.
    pub masquerade: bool,
    /// Why the source address is kept or replaced.
    pub masquerade_reason: String,
    /// Every endpoint of the port by address, with those that get no connection.
    pub endpoints: Vec<Member>,
}

/// Whether `loadBalancerSourceRanges` admit a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRanges {
    /// The client may connect.
    pub admitted: bool,
    /// The prefixes whose clients may connect.
    pub allowed: Vec<String>,
}

/// An endpoint and whether this client may be sent to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Address and port of the endpoint.
    pub address: SocketAddr,
    /// Whether this client may be sent to the endpoint.
    pub included: bool,
    /// Whether it is ready for new connections.
    pub ready: bool,
    /// Why the client may or may not; empty for a ready endpoint of the pool.
    pub reason: String,
    /// The node it runs on; `None` outside the cluster.
    pub node: Option<String>,
    /// Its pod, if known.
    pub pod: Option<String>,
    /// The EndpointSlice that names it.
    pub slice: String,
    /// It would see an address of the node as its client; false unless `included`.
    pub masqueraded: bool,
}

/// Explains what happens on the planner's node to a packet FROM TO, in the words of a person: see
/// `sluice explain --help`. `interface` is where it arrives, if that is known.
///
/// # Errors
///
/// [`Unclear`]: the words are malformed, or name nothing that the planner knows.
pub fn answer(
    planner: &Planner,
    from: &str,
    to: &str,
    interface: Option<&str>,
) -> Result<Explanation, Unclear> {
    let mut host = planner
        .state()
        .host_addresses(&planner.settings().node_name);
    let packet = ends::packet(from, to, interface, planner, &host)?;
    // Only this node reaches its loopback addresses: the kernel drops packets of others, or a rule
    // does where NodePorts answer on loopback.
    if !host.contains(&packet.source) {
        host.retain(|it| !it.is_loopback());
    }
    Ok(explain(planner, &packet, &host))
}

/// Explains the verdict on a packet on the planner's node. [`Planner::replan`] must have run after
/// the last event.
#[must_use]
pub fn explain(planner: &Planner, packet: &Packet, host: &HostAddresses) -> Explanation {
    let lookup = planner.plan().lookup(packet, host);
    let service = hit(planner, packet, host, &lookup);
    let owner = lookup.found.map(|(port, _)| &port.key);
    let (verdict, reason) = match lookup.verdict {
        Some(Verdict::Balance(_)) => {
            let endpoints = service.iter().flat_map(|it| &it.endpoints);
            let included = endpoints.filter(|it| it.included).count();
            let plural = if included == 1 { "" } else { "s" };
            let refused = nowhere::of_link(packet).unwrap_or_default();
            (
                Decision::Balance,
                format!("balance over {included} endpoint{plural}{refused}"),
            )
        }
        Some(Verdict::Drop) => {
            let why = nowhere::why(planner, owner, service.as_ref(), lookup.reason);
            (Decision::Drop, format!("drop: {why}"))
        }
        Some(Verdict::Reject) => {
            let why = nowhere::why(planner, owner, service.as_ref(), lookup.reason);
            (Decision::Reject, format!("reject: {why}"))
        }
        None => (
            Decision::NotService,
            if planner.state().has_services() {
                format!("not a service: {}", lookup.reason)
            } else {
                "no Service is known at all: nothing can be said about this packet".into()
            },
        ),
    };
    let mut notes = claim::notes(planner, packet, host, owner);
    notes.extend(nowhere::near(planner, packet, host, &lookup));
    notes.extend(
        owner
            .iter()
            .flat_map(|it| planner.issues_of(&it.name.service))
            .map(ToString::to_string),
    );
    Explanation {
        source: packet.source,
        destination: SocketAddr::new(packet.destination, packet.port),
        protocol: packet.protocol.to_string(),
        interface: packet.interface.as_deref().map(str::to_owned),
        node: planner.settings().node_name.to_string(),
        service,
        notes,
        verdict,
        reason,
    }
}

fn hit(
    planner: &Planner,
    packet: &Packet,
    host: &HostAddresses,
    lookup: &Lookup<'_>,
) -> Option<Hit> {
    let (port, frontend) = lookup.found?;
    let node = &planner.plan().node;
    let family = node.family(IpFamily::of(&packet.destination));
    let client = Client::of(packet, host, family);
    let (verdict, mut masquerade, mut masquerade_reason) =
        treat(frontend.route, client, family.cluster_ip_masquerade);
    if !masquerade && family.dns_addresses.contains(&packet.source) {
        masquerade = true;
        masquerade_reason = "is masqueraded: the source is an address of the node's DNS server";
    }
    // Where the client gets no endpoint, those that were considered.
    let scope = match verdict {
        Verdict::Balance(scope) => scope,
        Verdict::Drop => Scope::Local,
        Verdict::Reject => Scope::Cluster,
    };
    let (topology, endpoints) = members::members(planner, packet, host, scope, port, lookup);
    let sources = frontend.allowed_sources.as_ref();
    Some(Hit {
        port: port.key.name.to_string(),
        frontend: frontend.frontend.to_string(),
        role: frontend.role.to_string(),
        policy: policy(planner, port, frontend, client),
        client,
        client_reason: client_reason(client, family.local_traffic.as_ref()),
        source_ranges: sources.map(|nets| SourceRanges {
            admitted: frontend.admits(packet.source),
            allowed: nets.iter().map(ToString::to_string).collect(),
        }),
        affinity_seconds: port.affinity_seconds,
        topology: match topology {
            Topology::Anywhere => None,
            Topology::SameNode => Some("only endpoints hinted for this node".to_owned()),
            Topology::SameZone => Some("only endpoints hinted for this node's zone".to_owned()),
        },
        masquerade,
        masquerade_reason: masquerade_reason.to_owned(),
        endpoints,
    })
}

fn policy(
    planner: &Planner,
    port: &PortPlan,
    frontend: &PlannedFrontend,
    client: Client,
) -> String {
    let service = planner.state().service(&port.key.name.service);
    let service = service.and_then(|it| it.service.as_deref());
    let (name, policy) = match frontend.role {
        Role::NodeDns | Role::ClusterIp => (
            "internalTrafficPolicy",
            service.map(|it| it.internal_policy),
        ),
        _ => ("externalTrafficPolicy", service.map(external_policy)),
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

fn client_reason(client: Client, local_traffic: Option<&LocalTraffic>) -> String {
    match (client, local_traffic) {
        (Client::LocalPod, Some(LocalTraffic::From(net))) => format!("a pod of this node ({net})"),
        (Client::LocalPod, Some(LocalTraffic::Interface(name))) => {
            format!("a pod of this node (arrives through {name})")
        }
        (Client::LocalPod, Some(LocalTraffic::InterfacePrefix(prefix))) => {
            format!("a pod of this node (arrives through {prefix}*)")
        }
        (Client::Node, _) => "this node itself".into(),
        (_, Some(_)) => "neither this node nor one of its pods".into(),
        (_, None) => "not this node (its pods are not known: set --cluster-cidr)".into(),
    }
}
