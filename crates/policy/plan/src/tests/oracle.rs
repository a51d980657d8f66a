//! The specifications, read literally: slow, and without anything of the planner.

use std::net::IpAddr;

use sluice_model::{Labels, Pod};

use crate::lookup::Packet;
use crate::policy::{Action, Direction, Port, PortNumber, Rule, Tier};
use crate::testing::{NODE, World};
use crate::{Namespaces, Peer, PodSelection};

/// Whether the ends of a packet allow it, the source first. Pods of other nodes and addresses of nobody allow all.
pub(super) fn allowed(world: &World, packet: &Packet) -> (bool, bool) {
    let source = pod_at(world, packet.source);
    let destination = pod_at(world, packet.destination);
    let ask = |own: Option<&Pod>, direction| match own {
        Some(pod) if pod.node.as_deref() == Some(NODE) => allows(world, packet, pod, direction),
        _ => true,
    };
    (
        ask(source, Direction::Egress),
        ask(destination, Direction::Ingress),
    )
}

fn pod_at(world: &World, address: IpAddr) -> Option<&Pod> {
    let mut pods = world.pods.iter();
    pods.find(|it| !it.host_network && it.addresses.contains(&address))
}

fn allows(world: &World, packet: &Packet, pod: &Pod, direction: Direction) -> bool {
    match tier(world, packet, pod, direction, Tier::Admin) {
        Some(Action::Accept) => return true,
        Some(Action::Deny) => return false,
        Some(Action::Pass) | None => {}
    }
    let isolating: Vec<_> = world
        .policies
        .iter()
        .filter(|it| it.name.namespace == pod.name.namespace)
        .filter(|it| it.pods.selects(|key| pod.labels.get(key)))
        .filter_map(|it| match direction {
            Direction::Ingress => it.ingress.as_ref(),
            Direction::Egress => it.egress.as_ref(),
        })
        .collect();
    if !isolating.is_empty() {
        let is_itself = packet.source == packet.destination;
        let mut rules = isolating.into_iter().flatten();
        return is_itself || rules.any(|it| matches(world, packet, direction, it));
    }
    tier(world, packet, pod, direction, Tier::Baseline) != Some(Action::Deny)
}

/// The action of the first rule of the tier that matches.
fn tier(
    world: &World,
    packet: &Packet,
    pod: &Pod,
    direction: Direction,
    tier: Tier,
) -> Option<Action> {
    let mut policies: Vec<_> = world.cluster_policies.iter().collect();
    policies.sort_by_key(|it| (it.priority, it.name.clone()));
    let mut rules = policies
        .into_iter()
        .filter(|it| it.tier == tier && is_in(world, pod, &it.subject))
        .flat_map(|it| match direction {
            Direction::Ingress => &it.ingress,
            Direction::Egress => &it.egress,
        });
    let found = rules.find(|it| matches(world, packet, direction, it))?;
    Some(found.action)
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

fn matches(world: &World, packet: &Packet, direction: Direction, rule: &Rule) -> bool {
    let Some(peers) = &rule.peers else {
        return match &rule.ports {
            None => true,
            Some(ports) => ports.iter().any(|it| is_port(world, packet, it)),
        };
    };
    peers.iter().any(|peer| {
        let is_pod = |address, selection: &PodSelection| {
            pod_at(world, address).is_some_and(|pod| is_in(world, pod, selection))
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
                    .any(|it| is_port(world, packet, it)),
            }
    })
}

fn is_port(world: &World, packet: &Packet, wanted: &Port) -> bool {
    let Some((protocol, port)) = packet.port else {
        return false;
    };
    protocol == wanted.protocol
        && match &wanted.number {
            PortNumber::Any => true,
            PortNumber::Range(first, last) => (*first..=*last).contains(&port),
            PortNumber::Named(name) => {
                let pod = pod_at(world, packet.destination);
                let number = pod.and_then(|it| it.ports.number(name, protocol));
                number.is_some_and(|it| it.get() == port)
            }
        }
}
