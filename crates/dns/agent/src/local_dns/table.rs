//! The tables that bring queries to the sockets, and replies back: of each family, as `nft` shows them
//!
//! ```text
//! table ip sluice-dns {              # owned by this process
//!   chain prerouting { type filter hook prerouting priority raw
//!     meta l4proto udp th dport 53 ip daddr @anybody notrack
//!     meta l4proto udp th dport 53 ip daddr @pods ip saddr 10.244.0.0/16 notrack   # ClusterIPs
//!   }
//!   chain output { type filter hook output priority raw
//!     meta l4proto udp th dport 53 ip daddr @served notrack    # queries of the node itself
//!   }
//! }
//! table ip sluice-dns-replies {      # stays, as the addresses do
//!   chain output { type filter hook output priority raw
//!     meta l4proto udp th sport 53 ip saddr @served notrack
//!   }
//! }
//! ```
//!
//! and the same for TCP. Replies must not be tracked while the server ends either: the kernel goes on to
//! acknowledge what clients send to connections of a process that is gone. Conntrack would take such a packet
//! as the first of a connection, and the client's next query from that port as its reply, which is not
//! translated. An untracked packet passes no chain of kind nat, is not new to conntrack and not
//! invalid: the data plane leaves it alone. Where the sockets have another port, the rules change that
//! number in the packet, too (`th dport set 5353`), and in replies back.

use std::net::IpAddr;

use sluice_model::{IpFamily, LocalDetector, LocalTraffic, NodeDns, Protocol};
use sluice_nft::rule::{Action, Field, Match, Sense, Side};
use sluice_nft::shape::{Shape, Value};
use sluice_nft::{
    Batch, Chain, ChainKind, Contents, Create, Datum, Family, Hook, HookPoint, Kernel, Policy,
    Rule, Scope,
};
use sluice_node::{NodeError, failed};

use super::DNS_PORT;

const QUERIES: &str = "sluice-dns";
const REPLIES: &str = "sluice-dns-replies";

/// Only a table with this comment is ours.
const COMMENT: &str = "replies of the node's DNS server; written by sluice";

/// Before conntrack, at -200 (`NF_IP_PRI_RAW`).
const RAW: i32 = -300;

/// A group of addresses, by the clients that are answered.
#[derive(Clone, Copy)]
enum Group {
    /// Every address.
    Served,
    /// Addresses that answer every client.
    Anybody,
    /// Addresses that answer pods of this node, and the node itself.
    Pods,
}

impl Group {
    const ALL: [Self; 3] = [Self::Served, Self::Anybody, Self::Pods];

    const fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Anybody => "anybody",
            Self::Pods => "pods",
        }
    }
}

/// A rule and its chain.
type ChainRule = (HookPoint, Rule);

/// The inputs of the tables.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Every address of the server that the machine has.
    pub(super) addresses: Vec<IpAddr>,
    /// The port of the sockets.
    pub(super) port: u16,
    /// The ClusterIPs among the addresses.
    cluster_ips: Vec<IpAddr>,
    /// How pods of this node are recognised, for IPv4 and IPv6; `None`: they are not.
    pods: [Option<LocalTraffic>; 2],
}

impl Table {
    pub(super) fn new(dns: &NodeDns, pods: &LocalDetector, port: u16, present: &[IpAddr]) -> Self {
        Self {
            addresses: present.to_vec(),
            port,
            cluster_ips: dns.cluster_ips.clone(),
            // The Node object is not known here.
            pods: IpFamily::ALL.map(|it| LocalTraffic::detected_by(pods, None, it)),
        }
    }

    /// The tables that take queries. The kernel deletes them with the socket that commits this.
    pub(super) fn queries(&self) -> Batch {
        let mut batch = Batch::new();
        for family in self.families() {
            let scope = scope(family, QUERIES);
            batch.add_owned_table(0, scope);
            let contents = self.contents(family, |it| self.query_rules(family, it));
            batch.add_contents(0, scope, &contents);
        }
        batch
    }

    /// The tables for replies, in place of earlier ones.
    pub(super) fn replies(&self, kernel: &mut impl Kernel) -> Result<Batch, NodeError> {
        let mut batch = delete_replies(kernel)?;
        for family in self.families() {
            let scope = scope(family, REPLIES);
            batch.add_table(0, scope, Some(COMMENT), Create::New);
            let contents = self.contents(family, |protocol| {
                let ports = (self.port, DNS_PORT);
                let rule = untracked(protocol, Side::Source, ports, Group::Served);
                vec![(HookPoint::Output, rule)]
            });
            batch.add_contents(0, scope, &contents);
        }
        Ok(batch)
    }

    fn families(&self) -> impl Iterator<Item = IpFamily> {
        let is_served = |it: &IpFamily| self.of(Group::Served, *it).next().is_some();
        IpFamily::ALL.into_iter().filter(is_served)
    }

    fn of(&self, group: Group, family: IpFamily) -> impl Iterator<Item = &IpAddr> {
        let knows_pods = self.pods[family as usize].is_some();
        self.addresses.iter().filter(move |it| {
            let is_for_pods = knows_pods && self.cluster_ips.contains(it);
            IpFamily::of(it) == family
                && match group {
                    Group::Served => true,
                    Group::Anybody => !is_for_pods,
                    Group::Pods => is_for_pods,
                }
        })
    }

    /// Sets, chains and rules of a table.
    fn contents(&self, family: IpFamily, rules: impl Fn(Protocol) -> Vec<ChainRule>) -> Contents {
        let shape = Shape {
            key: &[Field::Address(Side::Destination)],
            value: Value::None,
        };
        let sets = Group::ALL.into_iter().map(|group| {
            let members = self.of(group, family);
            let members = members.map(|it| vec![Datum::Address(*it)]).collect();
            (shape.set(netlink(family), group.name()), members)
        });
        let rules: Vec<ChainRule> = [Protocol::Udp, Protocol::Tcp]
            .into_iter()
            .flat_map(rules)
            .collect();
        let chains = [HookPoint::Prerouting, HookPoint::Output].map(|point| {
            let chain = Chain {
                name: point.word().to_owned(),
                hook: Some(Hook {
                    kind: ChainKind::Filter,
                    point,
                    priority: RAW,
                    policy: Policy::Accept,
                }),
                comment: None,
            };
            let rules = rules.iter().filter(|it| it.0 == point);
            (chain, rules.map(|it| it.1.clone()).collect())
        });
        Contents {
            sets: sets.collect(),
            chains: chains.into(),
        }
    }

    fn query_rules(&self, family: IpFamily, protocol: Protocol) -> Vec<ChainRule> {
        let query = |group| {
            let ports = (DNS_PORT, self.port);
            untracked(protocol, Side::Destination, ports, group)
        };
        let mut rules = vec![
            (HookPoint::Output, query(Group::Served)),
            (HookPoint::Prerouting, query(Group::Anybody)),
        ];
        if let Some(pods) = &self.pods[family as usize] {
            let query = query(Group::Pods).and(match pods {
                LocalTraffic::From(net) => Match::Address(Side::Source, Sense::Is, *net),
                LocalTraffic::Interface(name) => Match::Interface(Sense::Is, name.clone()),
                LocalTraffic::InterfacePrefix(it) => Match::InterfacePrefix(Sense::Is, it.clone()),
            });
            rules.push((HookPoint::Prerouting, query));
        }
        rules
    }
}

/// Deletes the tables for replies that a Sluice made, of both families.
pub(super) fn delete_replies(kernel: &mut impl Kernel) -> Result<Batch, NodeError> {
    let mut batch = Batch::new();
    for family in IpFamily::ALL {
        let scope = scope(family, REPLIES);
        let tables = kernel.tables(scope.family);
        let tables = tables.map_err(failed("list the tables of nftables"))?;
        let mut named = tables.iter().filter(|it| it.name == REPLIES);
        if named.any(|it| it.comment.as_deref() == Some(COMMENT)) {
            batch.delete_table(0, scope);
        }
    }
    Ok(batch)
}

/// Whether any process takes queries.
pub(super) fn has_queries(kernel: &mut impl Kernel) -> Result<bool, NodeError> {
    for family in IpFamily::ALL {
        let tables = kernel.tables(netlink(family));
        let tables = tables.map_err(failed("list the tables of nftables"))?;
        if tables.iter().any(|it| it.name == QUERIES) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A rule for packets with the first of these ports, and an address of the group on the same side: it changes the
/// port to the second if that differs, and takes the packet out of connection tracking.
fn untracked(protocol: Protocol, side: Side, ports: (u16, u16), group: Group) -> Rule {
    let (now, then) = ports;
    let protocol = protocol.number();
    let mut rule = Rule {
        matches: vec![
            Match::Protocol(protocol),
            Match::Port(side, now),
            Match::In(
                Sense::Is,
                vec![Field::Address(side)].into(),
                group.name().into(),
            ),
        ],
        actions: Vec::new(),
    };
    if now != then {
        rule = rule.then(Action::SetPort {
            side,
            protocol,
            port: then,
        });
    }
    rule.then(Action::Untrack)
}

fn netlink(family: IpFamily) -> Family {
    match family {
        IpFamily::V4 => Family::Ipv4,
        IpFamily::V6 => Family::Ipv6,
    }
}

fn scope(family: IpFamily, table: &'static str) -> Scope<'static> {
    Scope {
        family: netlink(family),
        table,
    }
}

#[cfg(test)]
mod tests;
