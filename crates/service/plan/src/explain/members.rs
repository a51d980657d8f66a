//! Every endpoint of a service port, and why a client may or may not be sent there.

use crate::endpoints::{Candidate, Topology};
use crate::explain::Member;
use crate::lookup::{Lookup, Packet};
use crate::state::HostAddresses;
use crate::{Planner, PortPlan, Scope};

/// The endpoints of `port` for a client that is balanced over the pool of `scope`, and how
/// topology narrows that pool.
pub(super) fn members(
    planner: &Planner,
    packet: &Packet,
    host: &HostAddresses,
    scope: Scope,
    port: &PortPlan,
    lookup: &Lookup<'_>,
) -> (Topology, Vec<Member>) {
    let mut members = Vec::new();
    let Some((inputs, candidates, sorted)) = planner.categorized(&port.key) else {
        return (Topology::Anywhere, members);
    };
    let (chosen, topology) = match scope {
        Scope::Cluster => (&sorted.cluster, sorted.topology),
        Scope::Local => (&sorted.local, Topology::Anywhere),
    };
    for (index, candidate) in candidates.iter().enumerate() {
        let is_chosen = chosen.contains(&index);
        // Source ranges may refuse the client.
        let included = is_chosen && lookup.pool.is_some();
        let masqueraded = included && lookup.masquerades(packet, candidate.addr.ip(), host);
        let reason = match (included, lookup.masquerade) {
            (true, false) if masqueraded => "masqueraded: it would reach itself",
            (true, true) if !masqueraded => "not masqueraded: it has the node's own address",
            (true, _) if candidate.is_ready() => "",
            (true, _) => "terminating but serving: used because nothing is ready",
            (false, _) if is_chosen => "would be chosen for another client",
            (false, _) => candidate.why_not(scope, topology),
        };
        members.push(member(candidate, included, masqueraded, reason.into()));
    }
    let node_name = &planner.settings().node_name;
    let slices = inputs.slices(port.key.family);
    for loser in slices.entries(&port.key.name, node_name) {
        let winner = candidates.iter().find(|it| it.addr == loser.addr);
        if let Some(winner) = winner
            && !std::ptr::eq(winner.endpoint, loser.endpoint)
        {
            let reason = if loser.endpoint.conditions.terminating {
                format!("duplicate: it terminates and {} names it too", winner.slice)
            } else {
                format!("duplicate: replaced by {}", winner.slice)
            };
            members.push(member(&loser, false, false, reason));
        }
    }
    members.sort_by_key(|it| (it.address, !it.included));
    (topology, members)
}

fn member(candidate: &Candidate<'_>, included: bool, masqueraded: bool, reason: String) -> Member {
    let endpoint = candidate.endpoint;
    Member {
        address: candidate.addr,
        included,
        ready: endpoint.conditions.ready,
        reason,
        node: endpoint.node.as_deref().map(str::to_owned),
        pod: endpoint.target.as_deref().map(str::to_owned),
        slice: candidate.slice.to_string(),
        masqueraded,
    }
}
