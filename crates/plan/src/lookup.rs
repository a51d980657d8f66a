//! What happens to one packet: the oracle of the tests and of `sluice explain`.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use crate::{
    ClusterIpMasquerade, FamilyPlan, Frontend, Plan, PlannedFrontend, Pool, PortPlan, Route,
    Verdict,
};
use sluice_model::{IpFamily, Protocol};

/// The first packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol.
    pub protocol: Protocol,
    /// Destination port.
    pub port: u16,
    /// Interface that it arrived through; `None` when the node itself sends it.
    pub interface: Option<Arc<str>>,
}

/// What a lookup has to know about the node beyond the plan: its addresses, loopback included.
pub type HostAddresses = BTreeSet<IpAddr>;

/// The fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate<'a> {
    /// Sent to an endpoint of the pool.
    Balance {
        /// The service port that answers.
        port: &'a PortPlan,
        /// The endpoints it may go to.
        pool: &'a Pool,
        /// The endpoint sees an address of the node, whichever endpoint is chosen. Without it
        /// only a client that reaches itself is masqueraded: [`Fate::masquerades`].
        masquerade: bool,
    },
    /// Vanishes.
    Drop(Reason),
    /// Is refused: the client hears at once.
    Reject(Reason),
    /// Is none of our business.
    NotService,
}

/// Why a packet goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The source is outside `loadBalancerSourceRanges`.
    SourceRanges,
    /// A Local traffic policy and no endpoint on this node.
    NoLocalEndpoint,
    /// No endpoint anywhere.
    NoEndpoint,
    /// The ClusterIP has no such port.
    UndefinedPort,
    /// Inside a ServiceCIDR, but no Service has the address.
    UnallocatedClusterIp,
}

impl Fate<'_> {
    /// Whether the endpoint at this address would see an address of the node as its client.
    ///
    /// What arrives for an endpoint on the node's own address is delivered here and never leaves,
    /// so it keeps its source whatever the rules say: `NF_INET_POST_ROUTING` is not passed.
    #[must_use]
    pub fn masquerades(&self, packet: &Packet, endpoint: IpAddr, host: &HostAddresses) -> bool {
        let Self::Balance {
            masquerade, pool, ..
        } = self
        else {
            return false;
        };
        if packet.interface.is_some() && host.contains(&endpoint) {
            return false;
        }
        let mut endpoints = pool.endpoints().iter();
        let hairpin =
            packet.source == endpoint && endpoints.any(|it| it.local && it.addr.ip() == endpoint);
        *masquerade || hairpin
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
        let answers = self
            .node
            .family(family)
            .answers_node_ports(packet.destination, host);
        self.planned(&address)
            .or_else(|| answers.then(|| self.planned(&node_port)).flatten())
    }

    /// The fate of a packet on this node.
    #[must_use]
    pub fn lookup(&self, packet: &Packet, host: &HostAddresses) -> Fate<'_> {
        let family = self.node.family(IpFamily::of(&packet.destination));
        let Some((port, planned)) = self.frontend(packet, host) else {
            return self.without_frontend(packet, family);
        };
        if let Some(allowed) = &planned.allowed_sources
            && !allowed.iter().any(|net| net.contains(&packet.source))
        {
            return Fate::Drop(Reason::SourceRanges);
        }
        let local_pod = family.local_traffic.as_ref();
        let local_pod =
            local_pod.is_some_and(|it| it.matches(packet.source, packet.interface.as_deref()));
        let (verdict, masquerade) = match planned.route {
            Route::Internal(verdict) => match family.cluster_ip_masquerade {
                ClusterIpMasquerade::Everybody => (verdict, true),
                ClusterIpMasquerade::NotLocalPods => (verdict, !local_pod),
                ClusterIpMasquerade::Nobody => (verdict, false),
            },
            Route::External(verdict) => (verdict, true),
            Route::ExternalLocal { far } => {
                let near = Verdict::Balance(crate::Scope::Cluster);
                match (local_pod, host.contains(&packet.source)) {
                    (true, _) => (near, false),
                    (false, true) => (near, true),
                    (false, false) => (far, false),
                }
            }
        };
        match verdict {
            Verdict::Drop => Fate::Drop(Reason::NoLocalEndpoint),
            Verdict::Reject => Fate::Reject(Reason::NoEndpoint),
            Verdict::Balance(scope) => match port.pool(scope) {
                Some(pool) => Fate::Balance {
                    port,
                    pool,
                    masquerade,
                },
                // A planned balance always has its pool; an oracle does not panic for that.
                None => Fate::Reject(Reason::NoEndpoint),
            },
        }
    }

    fn planned(&self, frontend: &Frontend) -> Option<(&PortPlan, &PlannedFrontend)> {
        let port = self.ports.get(self.claims.owner(frontend)?)?;
        let planned = port.frontends.iter().find(|it| it.frontend == *frontend)?;
        Some((port, planned))
    }

    fn without_frontend(&self, packet: &Packet, family: &FamilyPlan) -> Fate<'_> {
        if self.claims.cluster_ip_owner(packet.destination).is_some() {
            return Fate::Reject(Reason::UndefinedPort);
        }
        let mut cidrs = family.service_cidrs.iter();
        if cidrs.any(|net| net.contains(&packet.destination)) {
            return Fate::Drop(Reason::UnallocatedClusterIp);
        }
        Fate::NotService
    }
}
