//! Small clusters: random ones, and ones written in lines.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use sluice_model::{
    Change, ContainerPort, Labels, Namespace, NamespacedName, Node, Pod, Protocol, Reference,
    Selector,
};

use crate::lookup::Packet;
use crate::policy::{
    Action, ClusterNetworkPolicy, Mode, NetworkPolicy, Port, PortNumber, Rule, Tier,
};
use crate::{Block, Event, Namespaces, Peer, PodSelection};

/// The node whose plan is made.
pub const NODE: &str = "n1";

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the kinds themselves")]
pub struct World {
    pub namespaces: Vec<Namespace>,
    pub pods: Vec<Pod>,
    pub policies: Vec<NetworkPolicy>,
    pub cluster_policies: Vec<ClusterNetworkPolicy>,
    pub nodes: Vec<Node>,
}

/// All objects as new ones.
pub fn events(world: &World) -> Vec<Event> {
    let mut events = Vec::new();
    let namespaces = world.namespaces.iter().cloned();
    events.extend(namespaces.map(|it| Event::Namespace(Change::Set(Arc::new(it)))));
    let pods = world.pods.iter().cloned();
    events.extend(pods.map(|it| Event::Pod(Change::Set(Arc::new(it)))));
    let policies = world.policies.iter().cloned();
    events.extend(policies.map(|it| Event::NetworkPolicy(Change::Set(Arc::new(it)))));
    let policies = world.cluster_policies.iter().cloned();
    events.extend(policies.map(|it| Event::ClusterNetworkPolicy(Change::Set(Arc::new(it)))));
    let nodes = world.nodes.iter().cloned();
    events.extend(nodes.map(|it| Event::Node(Change::Set(Arc::new(it)))));
    events
}

/// The deletions that one world needs on its way to another.
pub fn deletions(before: &World, after: &World) -> Vec<Event> {
    let left: BTreeSet<Reference> = events(after).iter().map(Event::reference).collect();
    let gone = events(before)
        .into_iter()
        .filter(|it| !left.contains(&it.reference()));
    gone.map(|it| match it {
        Event::Pod(it) => Event::Pod(Change::Delete(it.name())),
        Event::Namespace(it) => Event::Namespace(Change::Delete(it.name())),
        Event::Node(it) => Event::Node(Change::Delete(it.name())),
        Event::NetworkPolicy(it) => Event::NetworkPolicy(Change::Delete(it.name())),
        Event::ClusterNetworkPolicy(it) => Event::ClusterNetworkPolicy(Change::Delete(it.name())),
    })
    .collect()
}

/// Every packet that may be something in random clusters: between their addresses and some of nobody, to every port
/// that a rule may mean.
pub fn packets() -> impl Iterator<Item = Packet> {
    let addresses: Vec<IpAddr> = addresses().collect();
    let pairs = addresses.clone().into_iter().flat_map(move |source| {
        let same_family = move |it: &IpAddr| it.is_ipv4() == source.is_ipv4();
        let others = addresses.clone().into_iter().filter(same_family);
        others.map(move |destination| (source, destination))
    });
    let ports = [
        None,
        Some((Protocol::Tcp, 80)),
        Some((Protocol::Tcp, 81)),
        Some((Protocol::Tcp, 90)),
        Some((Protocol::Udp, 80)),
    ];
    pairs.flat_map(move |(source, destination)| {
        ports.map(|port| Packet {
            source,
            destination,
            port,
        })
    })
}

/// The addresses of the pods of random clusters, and some of nobody.
fn addresses() -> impl Iterator<Item = IpAddr> {
    let pods = (0..6).flat_map(|it| [pod_address(it, false), pod_address(it, true)]);
    let others = ["10.9.0.1", "192.0.2.1", "fd09::1"];
    pods.chain(others.map(|it| it.parse().expect("an address")))
}

fn pod_address(index: usize, is_v6: bool) -> IpAddr {
    let text = if is_v6 {
        format!("fd00::{index}")
    } else {
        format!("10.0.0.{index}")
    };
    text.parse().expect("an address")
}

/// Random clusters of at most six pods in two namespaces, with policies of both kinds. Some pods claim the addresses of
/// another one.
pub fn worlds() -> impl Strategy<Value = World> {
    let pods = prop::collection::vec(pod(), 6);
    let claims = prop::collection::vec(prop::option::weighted(0.2, 0_usize..6), 6);
    let pods = (pods, subsequence(vec![0, 1, 2, 3, 4, 5], 0..=6), claims);
    let pods = pods.prop_map(|(pods, which, claims)| {
        let named = |index: usize| {
            let mut pod = pods[index].clone();
            pod.name.name = format!("p{index}").into();
            let claimed = claims[index].unwrap_or(index);
            pod.addresses = [false, true].map(|it| pod_address(claimed, it)).into();
            pod
        };
        which.into_iter().map(named).collect::<Vec<_>>()
    });
    let namespaces = (label_sets(), label_sets(), any::<bool>());
    let policies = prop::collection::vec(policy(), 0..4);
    let cluster = prop::collection::vec(cluster_policy(), 0..3);
    let range = prop::option::weighted(
        0.3,
        select(vec!["10.0.0.0/30", "fd00::/126", "10.0.0.4/31"]),
    );
    (namespaces, pods, policies, cluster, range).prop_map(
        |(namespaces, pods, mut policies, mut cluster, range)| {
            for (index, policy) in policies.iter_mut().enumerate() {
                policy.name.name = format!("np{index}").into();
            }
            for (index, policy) in cluster.iter_mut().enumerate() {
                policy.name = format!("cnp{index}").into();
            }
            let (a, b, has_b) = namespaces;
            let named = [("a", a), ("b", b)].map(|(name, labels)| Namespace {
                name: name.into(),
                labels,
            });
            World {
                namespaces: named.into_iter().take(1 + usize::from(has_b)).collect(),
                pods,
                policies,
                cluster_policies: cluster,
                nodes: range.into_iter().map(|it| node(NODE, it)).collect(),
            }
        },
    )
}

fn node(name: &str, range: &str) -> Node {
    Node {
        name: name.into(),
        addresses: Vec::new(),
        zone: None,
        pod_cidrs: vec![range.parse().expect("a prefix")],
        leaving: false,
    }
}

fn label_sets() -> impl Strategy<Value = Labels> {
    select(vec!["", "x=1", "x=2", "y=1", "x=1,y=1"]).prop_map(labels)
}

fn labels(text: &str) -> Labels {
    let pairs = text.split(',').filter_map(|it| it.split_once('='));
    pairs
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

fn selector() -> impl Strategy<Value = Selector> {
    let texts = vec!["", "x=1", "x!=1", "y", "!y", "x in (1,2),y"];
    select(texts).prop_map(|it| Selector::parse(it).expect("a selector"))
}

fn namespace() -> impl Strategy<Value = Arc<str>> {
    select(vec!["a", "b"]).prop_map(Arc::from)
}

fn pod() -> impl Strategy<Value = Pod> {
    let node = select(vec![NODE, NODE, "n2"]);
    let ports = select(vec![0_u16, 80, 81]);
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.2));
    (namespace(), label_sets(), node, ports, flags).prop_map(
        |(namespace, labels, node, port, (host, terminating))| {
            let port = NonZeroU16::new(port).map(|port| ContainerPort {
                name: "http".into(),
                protocol: Protocol::Tcp,
                port,
            });
            Pod {
                name: NamespacedName::new(namespace, ""),
                labels,
                node: Some(node.into()),
                ports: port.into_iter().collect(),
                is_terminating: terminating,
                host_network: host,
                ..sluice_objects::pod("none")
            }
        },
    )
}

fn selection() -> impl Strategy<Value = PodSelection> {
    let selected = (selector(), selector()).prop_map(|(namespaces, pods)| PodSelection {
        namespaces: Namespaces::Selected(namespaces),
        pods,
    });
    let named = (namespace(), selector());
    let named = named.prop_map(|(namespace, pods)| PodSelection::in_namespace(&namespace, pods));
    let by_name = namespace().prop_map(|name| PodSelection {
        namespaces: Namespaces::Selected(
            Selector::parse(&format!("kubernetes.io/metadata.name={name}")).expect("a selector"),
        ),
        pods: Selector::default(),
    });
    prop_oneof![selected, named, by_name]
}

fn peer() -> impl Strategy<Value = Peer> {
    let cidrs = vec![
        "0.0.0.0/0",
        "10.0.0.0/30",
        "10.0.0.2/31",
        "::/0",
        "fd00::2/127",
    ];
    let except = vec!["10.0.0.1/32", "10.0.0.0/29", "fd00::2/128"];
    let block = (select(cidrs), subsequence(except, 0..3));
    let block = block.prop_map(|(cidr, except)| {
        Peer::Block(Block {
            cidr: cidr.parse().expect("a prefix"),
            except: except
                .iter()
                .map(|it| it.parse().expect("a prefix"))
                .collect(),
        })
    });
    prop_oneof![selection().prop_map(Peer::Pods), block]
}

fn port() -> impl Strategy<Value = Port> {
    let number = prop_oneof![
        Just(PortNumber::Any),
        Just(PortNumber::Named("http".into())),
        select(vec![(80, 80), (80, 81), (81, 95)])
            .prop_map(|(first, last)| PortNumber::Range(first, last)),
    ];
    let protocol = select(vec![Protocol::Tcp, Protocol::Tcp, Protocol::Udp]);
    (protocol, number).prop_map(|(protocol, number)| Port { protocol, number })
}

fn rule(action: impl Strategy<Value = Action>) -> impl Strategy<Value = Rule> {
    let peers = prop::option::of(prop::collection::vec(peer(), 0..3));
    let ports = prop::option::of(prop::collection::vec(port(), 0..3));
    (action, peers, ports).prop_map(|(action, peers, ports)| Rule {
        action,
        peers,
        ports,
    })
}

fn policy() -> impl Strategy<Value = NetworkPolicy> {
    let rules = || prop::option::of(prop::collection::vec(rule(Just(Action::Accept)), 0..3));
    let mode = select(vec![Mode::Enforce, Mode::Enforce, Mode::Audit]);
    let fields = (namespace(), selector(), rules(), rules(), mode);
    fields.prop_map(|(namespace, pods, ingress, egress, mode)| NetworkPolicy {
        name: NamespacedName::new(namespace, ""),
        pods,
        ingress,
        egress,
        mode,
        connections: None,
        version: None,
    })
}

fn cluster_policy() -> impl Strategy<Value = ClusterNetworkPolicy> {
    let rules = || {
        let action = select(vec![Action::Accept, Action::Deny, Action::Pass]);
        prop::collection::vec(rule(action), 0..3)
    };
    let tier = select(vec![Tier::Admin, Tier::Baseline]);
    let mode = select(vec![Mode::Enforce, Mode::Enforce, Mode::Audit]);
    let fields = (tier, 0_u16..2, selection(), rules(), rules(), mode);
    fields.prop_map(
        |(tier, priority, subject, ingress, egress, mode)| ClusterNetworkPolicy {
            name: "".into(),
            tier,
            priority,
            subject,
            ingress,
            egress,
            mode,
            connections: None,
            version: None,
        },
    )
}

/// Objects in lines:
///
/// - `ns NAME LABELS`
/// - `pod NAMESPACE/NAME NODE ADDRESS LABELS`, where a label `http` is the number of the port of this name, and the word
///   `terminating` is none
/// - `node NAME RANGE`, with the range of its pods
/// - `np NAMESPACE/NAME ingress|egress [pods=SELECTOR] [from=PEER|to=PEER] [port=PROTOCOL:PORT]`, with one rule if it has
///   a peer or a port; `audit` in place of `np` for one in audit mode
/// - `cnp NAME admin|baseline PRIORITY NAMESPACE ingress|egress ACTION [from=PEER] [port=PROTOCOL:PORT]`
///
/// A peer is `PREFIX`, `PREFIX-EXCEPT`, or `NAMESPACES/PODS` by selectors.
///
/// # Panics
///
/// On any other text.
pub fn parse(text: &str) -> World {
    let mut world = World::default();
    for line in text.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ns", name, text] => world.namespaces.push(Namespace {
                name: name.into(),
                labels: labels(text),
            }),
            ["node", name, range] => world.nodes.push(node(name, range)),
            ["pod", name, node, address, ref rest @ ..] => {
                world.pods.push(written_pod(name, node, address, rest));
            }
            [kind @ ("np" | "audit"), name, direction, ref rest @ ..] => {
                let (pods, rules) = written_rule(Action::Accept, rest);
                let is_ingress = direction == "ingress";
                world.policies.push(NetworkPolicy {
                    name: namespaced(name),
                    pods,
                    ingress: is_ingress.then(|| rules.clone()),
                    egress: (!is_ingress).then_some(rules),
                    mode: if kind == "np" {
                        Mode::Enforce
                    } else {
                        Mode::Audit
                    },
                    connections: None,
                    version: None,
                });
            }
            [
                "cnp",
                name,
                tier,
                priority,
                namespace,
                direction,
                action,
                ref rest @ ..,
            ] => {
                let action = match action {
                    "accept" => Action::Accept,
                    "deny" => Action::Deny,
                    _ => Action::Pass,
                };
                let (pods, rules) = written_rule(action, rest);
                let (ingress, egress) = match direction {
                    "ingress" => (rules, Vec::new()),
                    _ => (Vec::new(), rules),
                };
                world.cluster_policies.push(ClusterNetworkPolicy {
                    name: name.into(),
                    tier: if tier == "admin" {
                        Tier::Admin
                    } else {
                        Tier::Baseline
                    },
                    priority: priority.parse().expect("a number"),
                    subject: PodSelection::in_namespace(&namespace.into(), pods),
                    ingress,
                    egress,
                    mode: Mode::Enforce,
                    connections: None,
                    version: None,
                });
            }
            _ => panic!("{line:?} is no object"),
        }
    }
    world
}

fn namespaced(text: &str) -> NamespacedName {
    let (namespace, name) = text.split_once('/').expect("a namespace and a name");
    NamespacedName::new(namespace, name)
}

fn written_pod(name: &str, node: &str, address: &str, rest: &[&str]) -> Pod {
    let http = rest.iter().find_map(|it| it.strip_prefix("http="));
    let port = http.map(|it| ContainerPort {
        name: "http".into(),
        protocol: Protocol::Tcp,
        port: it.parse().expect("a port"),
    });
    Pod {
        name: namespaced(name),
        labels: labels(&rest.join(",")),
        node: Some(node.into()),
        ports: port.into_iter().collect(),
        is_terminating: rest.contains(&"terminating"),
        ..sluice_objects::pod(&format!("none {address}"))
    }
}

fn written_rule(action: Action, words: &[&str]) -> (Selector, Vec<Rule>) {
    let selector = |it: &str| Selector::parse(it).expect("a selector");
    let mut pods = Selector::default();
    let (mut peers, mut ports) = (None, None);
    for word in words {
        let (key, value) = word.split_once('=').expect("KEY=VALUE");
        match key {
            "pods" => pods = selector(value),
            "port" => {
                let (protocol, number) = value.split_once(':').expect("PROTOCOL:PORT");
                let number = match number.parse() {
                    Ok(number) => PortNumber::Range(number, number),
                    Err(_) => PortNumber::Named(number.into()),
                };
                let protocol = protocol.parse().expect("a protocol");
                ports = Some(vec![Port { protocol, number }]);
            }
            _ => peers = Some(vec![written_peer(value)]),
        }
    }
    let has_rule = peers.is_some() || ports.is_some();
    let rule = Rule {
        action,
        peers,
        ports,
    };
    (pods, has_rule.then_some(rule).into_iter().collect())
}

fn written_peer(text: &str) -> Peer {
    let (cidr, except) = text.split_once('-').unwrap_or((text, ""));
    if let Ok(cidr) = cidr.parse() {
        let except = except.parse().into_iter().collect();
        return Peer::Block(Block { cidr, except });
    }
    let (namespaces, pods) = text.split_once('/').expect("NAMESPACES/PODS");
    let [namespaces, pods] = [namespaces, pods].map(|it| Selector::parse(it).expect("a selector"));
    Peer::Pods(PodSelection {
        namespaces: Namespaces::Selected(namespaces),
        pods,
    })
}
