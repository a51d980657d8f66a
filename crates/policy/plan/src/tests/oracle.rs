//! The specifications, read literally: slow, and without anything of the planner.

use std::net::IpAddr;

use sluice_model::{Labels, Pod};

use crate::lookup::Packet;
use crate::policy::{Action, Direction, Mode, Port, PortNumber, Rule, Tier};
use crate::testing::{NODE, World};
use crate::{Namespaces, Peer, PodSelection};

/// Whether the ends of a packet allow it, the source first. Pods of other nodes and addresses of nobody allow all, but
/// those of nobody in the range of the node's pods allow nothing.
///
/// The specifications have one pod for each address. With several, a connection is allowed by what is said about all of them,
/// and forbidden by what is said about any.
pub(super) fn allowed(world: &World, packet: &Packet) -> (bool, bool) {
    let ask = |address, direction| {
        let own = living(claims(world, address).filter(|it| it.node.as_deref() == Some(NODE)));
        if own.is_empty() {
            return !is_closed(world, address);
        }
        allows(world, packet, &own, direction)
    };
    (
        ask(packet.source, Direction::Egress),
        ask(packet.destination, Direction::Ingress),
    )
}

/// Whether unknown pods of an address are closed.
fn is_closed(world: &World, address: IpAddr) -> bool {
    let own = world.nodes.iter().filter(|it| *it.name == *NODE);
    own.flat_map(|it| &it.pod_cidrs)
        .any(|it| it.contains(&address))
}

/// Whether several pods have an address.
pub(super) fn is_contested(world: &World, address: IpAddr) -> bool {
    claims(world, address).count() > 1
}

fn claims(world: &World, address: IpAddr) -> impl Iterator<Item = &Pod> {
    let pods = world.pods.iter();
    pods.filter(move |it| !it.host_network && it.addresses.contains(&address))
}

/// A terminating pod has no address that another one claims.
fn living<'a>(pods: impl Iterator<Item = &'a Pod>) -> Vec<&'a Pod> {
    let (ending, living): (Vec<_>, Vec<_>) = pods.partition(|it| it.is_terminating);
    if living.is_empty() { ending } else { living }
}

fn pods_at(world: &World, address: IpAddr) -> Vec<&Pod> {
    living(claims(world, address))
}

/// Whether it is so for the pods of an address, of which a rule that denies must not miss any.
fn holds(pods: &[&Pod], action: Action, is_it: impl Fn(&Pod) -> bool) -> bool {
    let (some, all) = some_and_all(pods, is_it);
    if action == Action::Deny { some } else { all }
}

/// Some of the pods, and all of them.
fn some_and_all(pods: &[&Pod], is_it: impl Fn(&Pod) -> bool) -> (bool, bool) {
    let count = pods.iter().filter(|it| is_it(it)).count();
    (count > 0, count > 0 && count == pods.len())
}

fn allows(world: &World, packet: &Packet, own: &[&Pod], direction: Direction) -> bool {
    match tier(world, packet, own, direction, Tier::Admin) {
        Some(Action::Accept) => return true,
        Some(Action::Deny) => return false,
        Some(Action::Pass) | None => {}
    }
    let mut is_isolated = false;
    let mut is_allowed = false;
    let enforced = world.policies.iter().filter(|it| it.mode == Mode::Enforce);
    for policy in enforced {
        let rules = match direction {
            Direction::Ingress => policy.ingress.as_ref(),
            Direction::Egress => policy.egress.as_ref(),
        };
        let Some(rules) = rules else {
            continue;
        };
        let (some, all) = some_and_all(own, |pod| {
            policy.name.namespace == pod.name.namespace
                && policy.pods.selects(|key| pod.labels.get(key))
        });
        is_isolated |= some;
        let subject = policy.subject();
        let mut rules = rules.iter();
        is_allowed |= all && rules.any(|it| matches(world, packet, direction, it, &subject));
    }
    if is_isolated {
        return packet.source == packet.destination || is_allowed;
    }
    tier(world, packet, own, direction, Tier::Baseline) != Some(Action::Deny)
}

/// The action of the first rule of the tier that matches.
fn tier(
    world: &World,
    packet: &Packet,
    own: &[&Pod],
    direction: Direction,
    tier: Tier,
) -> Option<Action> {
    let mut policies: Vec<_> = world.cluster_policies.iter().collect();
    policies.sort_by_key(|it| (it.priority, it.name.clone()));
    let enforced = policies.into_iter().filter(|it| it.mode == Mode::Enforce);
    for policy in enforced.filter(|it| it.tier == tier) {
        let (some, all) = some_and_all(own, |it| is_in(world, it, &policy.subject));
        let rules = match direction {
            Direction::Ingress => &policy.ingress,
            Direction::Egress => &policy.egress,
        };
        let mut rules = rules
            .iter()
            .filter(|it| all || some && it.action == Action::Deny);
        if let Some(found) = rules.find(|it| matches(world, packet, direction, it, &policy.subject))
        {
            return Some(found.action);
        }
    }
    None
}

fn is_in(world: &World, pod: &Pod, selection: &PodSelection) -> bool {
    let name = &pod.name.namespace;
    let namespace = world.namespaces.iter().find(|it| it.name == *name);
    let labels = namespace.map_or_else(Labels::default, |it| it.labels.clone());
    let is_namespace = match &selection.namespaces {
        Namespaces::Named(it) => it == name,
        Namespaces::Selected(it) => it.selects(|key| match key {
            "kubernetes.io/metadata.name" => Some(name),
            _ => labels.get(key),
        }),
    };
    is_namespace && selection.pods.selects(|key| pod.labels.get(key))
}

fn matches(
    world: &World,
    packet: &Packet,
    direction: Direction,
    rule: &Rule,
    subject: &PodSelection,
) -> bool {
    // A name is that of a port of the pods that the policy is about, or of those that are the peer.
    let of_subject = match direction {
        Direction::Ingress => subject.clone(),
        Direction::Egress => PodSelection::everywhere(),
    };
    let Some(peers) = &rule.peers else {
        return match &rule.ports {
            None => true,
            Some(ports) => ports
                .iter()
                .any(|it| is_port(world, packet, it, rule.action, &of_subject)),
        };
    };
    peers.iter().any(|peer| {
        let is_pod = |address, selection: &PodSelection| {
            holds(&pods_at(world, address), rule.action, |pod| {
                is_in(world, pod, selection)
            })
        };
        let other = match direction {
            Direction::Ingress => packet.source,
            Direction::Egress => packet.destination,
        };
        let is_peer = match peer {
            Peer::Pods(selection) => is_pod(other, selection),
            Peer::Block(block) => {
                block.cidr.contains(&other) && !block.except.iter().any(|it| it.contains(&other))
            }
        };
        let destination = match (direction, peer) {
            (Direction::Egress, Peer::Pods(selection)) => selection,
            _ => &of_subject,
        };
        // A name is the port of a pod that was selected, so a block has none to connect to.
        let is_egress_block = direction == Direction::Egress && matches!(peer, Peer::Block(_));
        let is_usable =
            |it: &&Port| !(is_egress_block && matches!(it.number, PortNumber::Named(_)));
        is_peer
            && match &rule.ports {
                None => true,
                Some(ports) => ports
                    .iter()
                    .filter(is_usable)
                    .any(|it| is_port(world, packet, it, rule.action, destination)),
            }
    })
}

fn is_port(
    world: &World,
    packet: &Packet,
    wanted: &Port,
    action: Action,
    selection: &PodSelection,
) -> bool {
    let Some((protocol, port)) = packet.port else {
        return false;
    };
    protocol == wanted.protocol
        && match &wanted.number {
            PortNumber::Any => true,
            PortNumber::Range(first, last) => (*first..=*last).contains(&port),
            PortNumber::Named(name) => {
                let pods = pods_at(world, packet.destination);
                holds(&pods, action, |pod| {
                    let number = pod.ports.number(name, protocol);
                    number.is_some_and(|it| it.get() == port) && is_in(world, pod, selection)
                })
            }
        }
}
