//! The rules of a policy as conditions on one set of peers and one set of ports.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::Protocol;

use crate::peer::{Peer, PodSelection};
use crate::plan::{Claims, PeerSet, PlannedRule, PortMatch, PortRange};
use crate::policy::{Direction, Port, PortNumber, Rule};

/// The most conditions of one policy for one direction. Each is a rule in the kernel, and most have a set of their own, which
/// takes as long to make as ten elements; an object of 1.5 MB could have 20,000. Whoever writes more gets less allowed.
pub(crate) const MOST: usize = 1_024;

/// The conditions of these rules, and the sets that they ask. `subject` are the pods that the policy is about.
pub(crate) fn plan(
    rules: &[Rule],
    direction: Direction,
    subject: &PodSelection,
) -> (Vec<PlannedRule>, Vec<PeerSet>) {
    let mut sets = Vec::new();
    let mut planned = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let ports = Ports::of(rule.ports.as_deref());
        let claims = Claims::of(rule.action);
        for peer in peers(rule.peers.as_deref()) {
            for (peer, port) in conditions(&peer, &ports, direction, subject, claims) {
                let mut named = |set: PeerSet| {
                    let id = set.id();
                    sets.push(set);
                    id
                };
                planned.push(PlannedRule {
                    rule: index,
                    peer: peer.map(&mut named),
                    port: match port {
                        Wanted::Any => PortMatch::Any,
                        Wanted::In(ranges) => match ranges[..] {
                            [
                                PortRange {
                                    protocol,
                                    first,
                                    last,
                                },
                            ] if first == last => PortMatch::One(protocol, first),
                            _ => PortMatch::In(named(PeerSet::Ports(ranges))),
                        },
                        Wanted::Named(protocol, set) => PortMatch::Named(protocol, named(set)),
                    },
                    action: rule.action,
                });
            }
        }
    }
    (planned, sets)
}

/// The peers of a rule that become one condition: everyone, the pods of one selection, or all blocks together.
enum Peers {
    Everyone,
    Pods(PodSelection),
    Blocks(Vec<IpNet>),
}

fn peers(peers: Option<&[Peer]>) -> Vec<Peers> {
    let Some(peers) = peers else {
        return vec![Peers::Everyone];
    };
    let mut all = Vec::new();
    let mut blocks = Vec::new();
    for peer in peers {
        match peer {
            Peer::Pods(pods) => all.push(Peers::Pods(pods.clone())),
            Peer::Block(block) => blocks.extend(block.prefixes()),
        }
    }
    if !blocks.is_empty() {
        let mut blocks = IpNet::aggregate(&blocks);
        blocks.sort();
        all.push(Peers::Blocks(blocks));
    }
    all
}

/// The ports of a rule.
struct Ports {
    is_any: bool,
    ranges: Vec<PortRange>,
    named: BTreeSet<(Protocol, Arc<str>)>,
}

impl Ports {
    fn of(ports: Option<&[Port]>) -> Self {
        let mut ranges = Vec::new();
        let mut named = BTreeSet::new();
        for Port { protocol, number } in ports.unwrap_or_default() {
            let (first, last) = match number {
                PortNumber::Any => (0, u16::MAX),
                PortNumber::Range(first, last) => (*first, *last),
                PortNumber::Named(name) => {
                    named.insert((*protocol, name.clone()));
                    continue;
                }
            };
            let protocol = *protocol;
            ranges.push(PortRange {
                protocol,
                first,
                last,
            });
        }
        Self {
            is_any: ports.is_none(),
            ranges: merged(ranges),
            named,
        }
    }
}

/// The same ports in the fewest ranges, in order.
fn merged(mut ranges: Vec<PortRange>) -> Vec<PortRange> {
    ranges.sort();
    let mut merged: Vec<PortRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last)
                if last.protocol == range.protocol
                    && range.first <= last.last.saturating_add(1) =>
            {
                last.last = last.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// The ports of one condition.
enum Wanted {
    Any,
    In(Vec<PortRange>),
    Named(Protocol, PeerSet),
}

/// Each peer with each group of ports.
///
/// A named port is one of the destination's pod: of the subject's for ingress, of the peer's for egress. So it has no
/// number at an address of a block, and there an egress rule with it allows nothing.
fn conditions(
    peers: &Peers,
    ports: &Ports,
    direction: Direction,
    subject: &PodSelection,
    claims: Claims,
) -> Vec<(Option<PeerSet>, Wanted)> {
    let peer = || match peers {
        Peers::Everyone => None,
        Peers::Pods(pods) => Some(PeerSet::Pods(pods.clone(), claims)),
        Peers::Blocks(blocks) => Some(PeerSet::Blocks(blocks.clone())),
    };
    if ports.is_any {
        return vec![(peer(), Wanted::Any)];
    }
    let mut all = Vec::new();
    if !ports.ranges.is_empty() {
        all.push((peer(), Wanted::In(ports.ranges.clone())));
    }
    let destination = match (direction, peers) {
        (Direction::Ingress, _) => Some(subject.clone()),
        (Direction::Egress, Peers::Everyone) => Some(PodSelection::everywhere()),
        (Direction::Egress, Peers::Pods(pods)) => Some(pods.clone()),
        (Direction::Egress, Peers::Blocks(_)) => None,
    };
    let Some(destination) = destination else {
        return all;
    };
    for (protocol, name) in &ports.named {
        let set = PeerSet::NamedPort {
            pods: destination.clone(),
            claims,
            name: name.clone(),
            protocol: *protocol,
        };
        let peer = match direction {
            Direction::Ingress => peer(),
            // The destination is in the set together with its port.
            Direction::Egress => None,
        };
        all.push((peer, Wanted::Named(*protocol, set)));
    }
    all
}
