//! The verdict on one packet, for the tests and for `sluice explain`.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::state::HostAddresses;
use crate::{
    ClusterIpMasquerade, FamilyPlan, Frontend, Plan, PlannedFrontend, Pool, PortPlan, Route, Scope,
    Verdict,
};
use sluice_model::{IpFamily, Protocol};

/// The first packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: Protocol,
    pub port: u16,
    /// Interface that it arrived through; `None` when the node itself sends it.
    pub interface: Option<Arc<str>>,
}

/// The result of [`Plan::lookup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup<'a> {
    /// `None`: the packet is not addressed to a Service, and the node leaves it alone.
    pub verdict: Option<Verdict>,
    /// Why the packet goes to no endpoint, as part of a sentence; empty for [`Verdict::Balance`].
    pub reason: &'static str,
    /// The frontend that the packet is addressed to, with the service port that owns it.
    pub found: Option<(&'a PortPlan, &'a PlannedFrontend)>,
    /// The endpoints that the packet may go to; `None` unless the verdict is [`Verdict::Balance`].
    pub pool: Option<&'a Pool>,
    /// The endpoint sees an address of the node as its client, whichever endpoint is chosen, but for
    /// those that reply directly. If false, only a client that reaches itself is masqueraded:
    /// [`Lookup::masquerades`].
    pub masquerade: bool,
    /// The client may get replies from endpoints directly ([`Direct`](crate::Direct)).
    pub direct: bool,
}

/// Where a client is, as seen from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    Node,
    /// A pod of this node.
    LocalPod,
    /// Any other client.
    Other,
}

impl Client {
    pub(crate) fn of(packet: &Packet, host: &HostAddresses, family: &FamilyPlan) -> Self {
        let interface = packet.interface.as_deref();
        match &family.local_traffic {
            Some(it) if it.matches(packet.source, interface) => Self::LocalPod,
            _ if host.contains(&packet.source) => Self::Node,
            _ if family.dns_addresses.contains(&packet.source) => Self::Node,
            _ => Self::Other,
        }
    }
}

/// What a route does with a new connection of a client: the verdict, whether it is masqueraded,
/// and why, as part of a sentence.
#[must_use]
pub fn treat(
    route: Route,
    client: Client,
    cluster_ip: ClusterIpMasquerade,
) -> (Verdict, bool, &'static str) {
    use ClusterIpMasquerade::{Everybody, Nobody, NotLocalPods};
    let anywhere = Verdict::Balance(Scope::Cluster);
    match (route, cluster_ip, client) {
        (Route::Internal(it), Everybody, _) => (it, true, "is masqueraded: masqueradeAll"),
        (Route::Internal(it), Nobody, _) => (
            it,
            false,
            "keeps its address: pods are not recognised (set --cluster-cidr)",
        ),
        (Route::Internal(it), NotLocalPods, Client::LocalPod) => (it, false, "keeps its address"),
        (Route::Internal(it), NotLocalPods, _) => {
            (it, true, "is masqueraded: not a pod of this node")
        }
        (Route::External(it), ..) => (it, true, "is masqueraded: external traffic"),
        (Route::ExternalLocal { .. }, _, Client::Node) => {
            (anywhere, true, "is masqueraded: the node's own connection")
        }
        (Route::ExternalLocal { .. }, _, Client::LocalPod) => {
            (anywhere, false, "keeps its address: policy Local")
        }
        (Route::ExternalLocal { far }, _, Client::Other) => {
            (far, false, "keeps its address: policy Local")
        }
    }
}

impl Lookup<'_> {
    /// Whether the endpoint at this address would see an address of the node as its client.
    ///
    /// A packet that arrives from outside for an endpoint with the node's own address is delivered
    /// locally. It does not pass `NF_INET_POST_ROUTING`, so no rule can masquerade it.
    #[must_use]
    pub fn masquerades(&self, packet: &Packet, endpoint: IpAddr, host: &HostAddresses) -> bool {
        let Some(pool) = self.pool else {
            return false;
        };
        let is_delivered_here = packet.interface.is_some() && host.contains(&endpoint);
        let endpoints = pool.endpoints().iter();
        let mut at = endpoints.filter(|it| it.addr.ip() == endpoint);
        let hairpin = packet.source == endpoint && at.clone().any(|it| it.may_be_here);
        let masquerade = self.masquerade && !(self.direct && at.any(|it| it.direct.is_some()));
        !is_delivered_here && (masquerade || hairpin)
    }
}

impl Plan {
    /// The frontend that a packet is addressed to, with the service port that owns it. A virtual
    /// IP comes before a NodePort.
    #[must_use]
    pub fn frontend(
        &self,
        packet: &Packet,
        host: &HostAddresses,
    ) -> Option<(&PortPlan, &PlannedFrontend)> {
        let family = IpFamily::of(&packet.destination);
        let address = Frontend::Address {
            addr: packet.destination,
            port: packet.port,
            protocol: packet.protocol,
        };
        let node_port = Frontend::NodePort {
            family,
            port: packet.port,
            protocol: packet.protocol,
        };
        let node = self.node.family(family);
        let answers = node.answers_node_ports(packet.destination, host);
        let of_node_port = || self.planned(&node_port).filter(|_| answers);
        self.planned(&address).or_else(of_node_port)
    }

    /// The verdict on a packet on this node.
    #[must_use]
    pub fn lookup(&self, packet: &Packet, host: &HostAddresses) -> Lookup<'_> {
        let family = self.node.family(IpFamily::of(&packet.destination));
        let Some((port, planned)) = self.frontend(packet, host) else {
            return self.without_frontend(packet, family);
        };
        let client = Client::of(packet, host, family);
        let (verdict, masquerade, _) = treat(planned.route, client, family.cluster_ip_masquerade);
        let (verdict, reason) = match verdict {
            _ if !planned.admits(packet.source) => (
                Verdict::Drop,
                "the source is outside loadBalancerSourceRanges",
            ),
            Verdict::Balance(_) => (verdict, ""),
            Verdict::Drop => (
                verdict,
                "the policy is Local and no endpoint on this node answers",
            ),
            Verdict::Reject => (verdict, "no endpoint anywhere answers"),
        };
        Lookup {
            verdict: Some(verdict),
            reason,
            found: Some((port, planned)),
            pool: match verdict {
                Verdict::Balance(scope) => port.pool(scope),
                Verdict::Drop | Verdict::Reject => None,
            },
            masquerade: masquerade || family.dns_addresses.contains(&packet.source),
            direct: client == Client::Other
                && !planned.role.is_internal()
                && !self
                    .node
                    .not_direct
                    .iter()
                    .any(|it| it.contains(&packet.source)),
        }
    }

    fn planned(&self, frontend: &Frontend) -> Option<(&PortPlan, &PlannedFrontend)> {
        let port = self.ports.get(self.claims.owner(frontend)?)?;
        let planned = port.frontends.iter().find(|it| it.frontend == *frontend)?;
        Some((port, planned))
    }

    fn without_frontend(&self, packet: &Packet, family: &FamilyPlan) -> Lookup<'_> {
        let addr = packet.destination;
        let (verdict, reason) = if self.claims.cluster_ip_owner(addr).is_some() {
            (Some(Verdict::Reject), "the ClusterIP has no such port")
        } else if family.service_cidrs.iter().any(|it| it.contains(&addr)) {
            let reason = "no Service has this address of the ServiceCIDR";
            (Some(Verdict::Drop), reason)
        } else {
            (None, "no Service has this address and port")
        };
        Lookup {
            verdict,
            reason,
            found: None,
            pool: None,
            masquerade: false,
            direct: false,
        }
    }
}
