//! The part of the ruleset that is always there: base chains, their rules, empty sets.
//!
//! ```text
//! prerouting, output  -110  source-ranges   drop who may not connect
//! prerouting, output  -100  services        frontend or NodePort ─▶ pool chain ─▶ dnat
//! input               0     unserved, unserved-nodeports
//! forward, output     0     unserved, cluster-ip-guard
//! postrouting         100   masquerading
//! ```

use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::{IpFamily, LocalTraffic};
use sluice_nft::{ChainKind, Hook, HookPoint, Policy};
use sluice_plan::{ClusterIpMasquerade, FamilyPlan, NodePlan, NodePortMatch};
use sluice_plane::Scale;

use crate::name::*;
use crate::object::{Chain, Key, Object, Rules};
use crate::pool::{pool_chain, reserved_pools};
use crate::rule::{Action, ConnectionState, Match, Rule, Sense, SetRef, Side};
use crate::set::{Counting, Element, ElementKey, ElementValue, SetName};

/// Before other tables translate destinations at -100 (`NF_IP_PRI_NAT_DST`).
const BEFORE_DNAT: i32 = -110;
const DNAT: i32 = -100;
const SNAT: i32 = 100;
const FILTER: i32 = 0;

/// The objects of both families that do not depend on any Service.
pub(crate) fn standing(node: &NodePlan, scale: Scale, counting: Counting) -> Vec<(Key, Object)> {
    let mut objects = Vec::new();
    for family in IpFamily::ALL {
        let plan = node.family(family);
        objects.push((Key::Table(family), Object::Table));
        let set = |name: SetName| {
            let set = Object::Set(name.counting(counting));
            (Key::Set(family, name), set)
        };
        objects.extend(SetName::ALL.map(set));
        let chains = base_chains().into_iter().chain(inner_chains(node, family));
        objects.extend(chains.map(|it| {
            let rules = Rules::Ours(family, it.rules.into());
            let chain = Chain {
                hook: it.hook,
                comment: it.comment.into(),
                rules,
            };
            (
                Key::Chain(family, ChainName::Standing(it.name)),
                Object::Chain(chain),
            )
        }));
        objects.extend(members(family, plan));
        if scale == Scale::Large {
            objects.extend(reserved_pools().map(|(kind, size)| pool_chain(family, kind, size)));
        }
    }
    objects
}

/// Where the kernel calls a standing chain; `None` when only other chains do.
pub(crate) fn hook_of(name: Standing) -> Option<Hook> {
    let base = base_chains().into_iter().find(|it| it.name == name);
    base.and_then(|it| it.hook)
}

struct StandingChain {
    name: Standing,
    hook: Option<Hook>,
    comment: &'static str,
    rules: Vec<Rule>,
}

/// The chains that the kernel calls.
fn base_chains() -> Vec<StandingChain> {
    let base = |name, kind, point, priority, rules| StandingChain {
        name,
        hook: Some(Hook {
            kind,
            point,
            priority,
            policy: Policy::Accept,
        }),
        comment: "",
        rules,
    };
    let jump = |chain| Rule::always(Action::Jump(ChainName::Standing(chain)));
    let new = |chain| {
        Rule::when(
            Match::State(&[ConnectionState::New]),
            Action::Jump(ChainName::Standing(chain)),
        )
    };
    use ChainKind::{Filter, Nat};
    use HookPoint::{Forward, Input, Output, Postrouting, Prerouting};
    vec![
        base(
            FILTER_PREROUTING,
            Filter,
            Prerouting,
            BEFORE_DNAT,
            vec![new(SOURCE_RANGES)],
        ),
        base(
            FILTER_OUTPUT_BEFORE_DNAT,
            Filter,
            Output,
            BEFORE_DNAT,
            vec![new(SOURCE_RANGES)],
        ),
        base(NAT_PREROUTING, Nat, Prerouting, DNAT, vec![jump(SERVICES)]),
        base(NAT_OUTPUT, Nat, Output, DNAT, vec![jump(SERVICES)]),
        base(
            FILTER_INPUT,
            Filter,
            Input,
            FILTER,
            vec![new(UNSERVED_NODE_PORTS), new(UNSERVED)],
        ),
        base(
            FILTER_FORWARD,
            Filter,
            Forward,
            FILTER,
            vec![new(UNSERVED), new(CLUSTER_IP_GUARD)],
        ),
        base(
            FILTER_OUTPUT,
            Filter,
            Output,
            FILTER,
            vec![new(UNSERVED), new(CLUSTER_IP_GUARD)],
        ),
        base(
            NAT_POSTROUTING,
            Nat,
            Postrouting,
            SNAT,
            vec![jump(MASQUERADE)],
        ),
    ]
}

/// The chains that the base chains jump to.
fn inner_chains(node: &NodePlan, family: IpFamily) -> Vec<StandingChain> {
    let plan = node.family(family);
    let mark = node.masquerade_mark;
    let chain = |name, comment, rules| StandingChain {
        name,
        hook: None,
        comment,
        rules,
    };
    let verdict = |set| Rule::always(verdict_of(set));
    let counted = |action| Rule::always(Action::Count).then(action);
    let to_counted = |it, action| Rule::when(it, Action::Count).then(action);
    vec![
        chain(
            SOURCE_RANGES,
            "loadBalancerSourceRanges",
            vec![verdict(SetName::RestrictedFrontends)],
        ),
        chain(
            OUTSIDE_SOURCE_RANGES,
            "who may not connect",
            vec![counted(Action::Drop)],
        ),
        chain(
            SERVICES,
            "from what a client dials to a pool of endpoints",
            vec![
                verdict(SetName::Frontends),
                node_ports(family, plan, SetName::NodePorts),
            ],
        ),
        chain(
            UNSERVED,
            "frontends without endpoints",
            vec![verdict(SetName::NoEndpoints)],
        ),
        chain(
            UNSERVED_NODE_PORTS,
            "NodePorts without endpoints",
            vec![node_ports(family, plan, SetName::NoEndpointNodePorts)],
        ),
        chain(
            CLUSTER_IP_GUARD,
            "what no Service has at a ClusterIP or in a ServiceCIDR",
            vec![
                to_counted(is_in(SetName::ClusterIps), Action::Reject),
                to_counted(is_in(SetName::ServiceCidrs), Action::Drop),
            ],
        ),
        chain(
            REJECTED,
            "rejected: no endpoint",
            vec![counted(Action::Reject)],
        ),
        chain(
            NO_LOCAL_ENDPOINTS,
            "policy Local and no endpoint here: another node may answer",
            vec![counted(Action::Drop)],
        ),
        chain(
            CLUSTER_IP_CLIENTS,
            "who is masqueraded on the way to a ClusterIP",
            cluster_ip_clients(plan, mark),
        ),
        chain(
            NEAR_CLIENTS,
            "policy Local: this node and its pods go to any endpoint",
            near_clients(plan, mark, SetName::NearFrontends),
        ),
        chain(
            NEAR_NODE_PORT_CLIENTS,
            "policy Local: this node and its pods go to any endpoint",
            near_clients(plan, mark, SetName::NearNodePorts),
        ),
        chain(
            MARK_FOR_MASQUERADE,
            "the reply must come back through this node",
            vec![Rule::always(Action::Mark(mark))],
        ),
        chain(
            MASQUERADE,
            "marked or reaching itself",
            masquerade(plan, mark),
        ),
    ]
}

/// The action of looking up the packet in a verdict map.
fn verdict_of(map: SetName) -> Action {
    Action::Verdict(map.key().fields().into(), SetRef::Standing(map))
}

/// The packet is in the set.
fn is_in(set: SetName) -> Match {
    Match::In(Sense::Is, set.key().fields().into(), SetRef::Standing(set))
}

fn node_ports(family: IpFamily, plan: &FamilyPlan, set: SetName) -> Rule {
    let rule = Rule::always(verdict_of(set));
    let listed = is_in(SetName::NodePortIps);
    let loopback = match family {
        IpFamily::V4 => "127.0.0.0/8",
        IpFamily::V6 => "::1/128",
    };
    let loopback = loopback.parse().expect("a prefix");
    let not_loopback = Match::Address(Side::Destination, Sense::IsNot, loopback);
    let is_local = Match::IsLocal(Side::Destination);
    match &plan.node_ports {
        NodePortMatch::AnyLocal => rule.and(not_loopback).and(is_local),
        NodePortMatch::LocalWithin(_) => rule.and(listed).and(not_loopback).and(is_local),
        NodePortMatch::Only(_) => rule.and(listed),
    }
}

fn cluster_ip_clients(plan: &FamilyPlan, mark: u32) -> Vec<Rule> {
    match (&plan.cluster_ip_masquerade, &plan.local_traffic) {
        (ClusterIpMasquerade::Everybody, _) => vec![Rule::always(Action::Mark(mark))],
        (ClusterIpMasquerade::NotLocalPods, Some(local)) => {
            vec![Rule::when(
                pod_of_node(Sense::IsNot, local),
                Action::Mark(mark),
            )]
        }
        _ => Vec::new(),
    }
}

fn near_clients(plan: &FamilyPlan, mark: u32, set: SetName) -> Vec<Rule> {
    let pods = plan.local_traffic.as_ref();
    let pods = pods.map(|local| Rule::when(pod_of_node(Sense::Is, local), verdict_of(set)));
    let node = Rule::when(Match::IsLocal(Side::Source), Action::Mark(mark)).then(verdict_of(set));
    pods.into_iter().chain([node]).collect()
}

fn pod_of_node(sense: Sense, local: &LocalTraffic) -> Match {
    match local {
        LocalTraffic::From(net) => Match::Address(Side::Source, sense, *net),
        LocalTraffic::Interface(name) => Match::Interface(sense, name.clone()),
        LocalTraffic::InterfacePrefix(prefix) => Match::InterfacePrefix(sense, prefix.clone()),
    }
}

fn masquerade(plan: &FamilyPlan, mark: u32) -> Vec<Rule> {
    let itself = is_in(SetName::Hairpin);
    let mut rules = vec![
        Rule::when(Match::Marked(mark), Action::Unmark(mark)).then(Action::Masquerade),
        Rule::when(Match::DestinationTranslated, Action::Masquerade).and(itself),
    ];
    rules.extend(plan.dns_addresses.iter().map(|it| {
        let rule = Rule::when(Match::DestinationTranslated, Action::Masquerade);
        rule.and(Match::Address(Side::Source, Sense::Is, (*it).into()))
    }));
    rules
}

/// The elements that come from the node's plan.
fn members(family: IpFamily, plan: &FamilyPlan) -> Vec<(Key, Object)> {
    let element = |set, net: IpNet, comment: Option<&str>| {
        let element = Element {
            value: ElementValue::Member,
            comment: comment.map(Arc::from),
        };
        (
            Key::Element(family, set, ElementKey::Range(net)),
            Object::Element(element),
        )
    };
    let cidrs = plan.service_cidrs.iter();
    let cidrs = cidrs.map(|net| element(SetName::ServiceCidrs, *net, None));
    let node_ports: Vec<IpNet> = match &plan.node_ports {
        NodePortMatch::AnyLocal => Vec::new(),
        NodePortMatch::LocalWithin(nets) => nets.clone(),
        NodePortMatch::Only(only) => only.map(IpNet::from).into_iter().collect(),
    };
    let node_ports = node_ports.into_iter();
    let node_ports = node_ports.map(|net| element(SetName::NodePortIps, net, None));
    cidrs.chain(node_ports).collect()
}
