//! Every endpoint of a service port, and why a client may or may not be sent there.

use std::net::SocketAddr;

use crate::endpoints::{Candidate, Categorized, Topology};
use crate::explain::Member;
use crate::lookup::{Fate, HostAddresses, Packet};
use crate::{Planner, PortPlan, Scope};
use sluice_model::{EndpointSlice, IpFamily};

pub(super) struct Members {
    pub(super) topology: Topology,
    pub(super) all: Vec<Member>,
}

/// The endpoints of `port` for a client that is balanced over the pool of `scope`.
pub(super) fn members(
    planner: &Planner,
    packet: &Packet,
    host: &HostAddresses,
    port: &PortPlan,
    scope: Scope,
    fate: &Fate<'_>,
) -> Members {
    let mut members = Members {
        topology: Topology::Anywhere,
        all: Vec::new(),
    };
    let Some((candidates, sorted)) = planner.categorized(&port.key) else {
        return members;
    };
    if scope == Scope::Cluster {
        members.topology = sorted.topology;
    }
    let view = View {
        scope,
        sorted: &sorted,
        fate,
    };
    for (index, candidate) in candidates.iter().enumerate() {
        members
            .all
            .push(view.member(index, candidate, packet, host));
    }
    let entry = planner.state().service(&port.key.name.service);
    for slice in entry.into_iter().flat_map(|it| it.slices.values()) {
        members.all.extend(overruled(slice, port, &candidates));
    }
    members.all.sort_by_key(|it| (it.address, !it.included));
    members
}

struct View<'a> {
    scope: Scope,
    sorted: &'a Categorized,
    fate: &'a Fate<'a>,
}

impl View<'_> {
    fn member(
        &self,
        index: usize,
        candidate: &Candidate<'_>,
        packet: &Packet,
        host: &HostAddresses,
    ) -> Member {
        let chosen = match self.scope {
            Scope::Cluster => &self.sorted.cluster,
            Scope::Local => &self.sorted.local,
        };
        // A client that source ranges turn away is sent to no one.
        let included = matches!(self.fate, Fate::Balance { .. }) && chosen.contains(&index);
        let ip = candidate.addr.ip();
        let masqueraded = included && self.fate.masquerades(packet, ip, host);
        let always = matches!(
            self.fate,
            Fate::Balance {
                masquerade: true,
                ..
            }
        );
        let reason = match (included, candidate.endpoint.conditions.ready) {
            (true, _) if masqueraded && !always => "masqueraded: it would reach itself",
            (true, _) if always && !masqueraded => "not masqueraded: it has the node's own address",
            (true, true) => "",
            (true, false) => "terminating but serving: used because nothing is ready",
            (false, _) if chosen.contains(&index) => "would be chosen for another client",
            (false, _) => self.why_not(candidate),
        };
        member(candidate, included, masqueraded, reason.into())
    }

    fn why_not(&self, candidate: &Candidate<'_>) -> &'static str {
        let conditions = candidate.endpoint.conditions;
        match self.scope {
            _ if !conditions.ready && conditions.is_fallback() => {
                match (self.scope, candidate.local) {
                    (Scope::Local, false) => "on another node and the policy is Local",
                    _ => "terminating, and others are ready",
                }
            }
            _ if !conditions.ready && conditions.terminating => "terminating",
            _ if !conditions.ready => "not ready",
            Scope::Local => "on another node and the policy is Local",
            Scope::Cluster => match self.sorted.topology {
                Topology::SameNode => "hinted for another node",
                Topology::SameZone => "hinted for another zone",
                Topology::Anywhere => "would be chosen for another client",
            },
        }
    }
}

fn member(candidate: &Candidate<'_>, included: bool, masqueraded: bool, reason: String) -> Member {
    let endpoint = candidate.endpoint;
    Member {
        address: candidate.addr,
        included,
        reason,
        node: endpoint.node.as_deref().map(str::to_owned),
        pod: endpoint.target.as_deref().map(str::to_owned),
        slice: candidate.slice.to_string(),
        masqueraded,
    }
}

/// Endpoints of a slice whose address another entry speaks for.
fn overruled(slice: &EndpointSlice, port: &PortPlan, candidates: &[Candidate<'_>]) -> Vec<Member> {
    let mut found = Vec::new();
    let of_port = |it: &&sluice_model::EndpointPort| {
        it.name == port.key.name.port && it.protocol == port.key.name.protocol
    };
    for number in slice.ports.iter().filter(of_port) {
        for endpoint in &slice.endpoints {
            let addr = SocketAddr::new(endpoint.address, number.port.get());
            let winner = candidates.iter().find(|it| it.addr == addr);
            let Some(winner) = winner else { continue };
            let is_winner = std::ptr::eq(winner.endpoint, endpoint);
            if is_winner || slice.headless || IpFamily::of(&addr.ip()) != port.key.family {
                continue;
            }
            let loser = Candidate {
                addr,
                endpoint,
                slice: &slice.name,
                local: false,
            };
            let reason = match endpoint.conditions.terminating {
                true => format!("duplicate: it terminates and {} names it too", winner.slice),
                false => format!("duplicate: replaced by {}", winner.slice),
            };
            found.push(member(&loser, false, false, reason));
        }
    }
    found
}
