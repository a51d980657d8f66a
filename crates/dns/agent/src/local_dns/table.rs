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

use ipnet::IpNet;
use sluice_model::{IpFamily, Protocol};
use sluice_nft::{
    Batch, Chain, ChainKind, CmpOp, Connection, Create, ElementRef, Expr, Family, Hook, HookPoint,
    MetaKey, PayloadBase, Policy, Register, Rule, Scope, Set,
};
use sluice_node::{NodeError, failed};
use sluice_plan::LocalTraffic;
use sluice_plan::settings::{LocalDetector, NodeDns};

use super::DNS_PORT;

const QUERIES: &str = "sluice-dns";
const REPLIES: &str = "sluice-dns-replies";

/// Only a table with this comment is ours.
const COMMENT: &str = "replies of the node's DNS server; written by sluice";

/// Before conntrack, at -200 (`NF_IP_PRI_RAW`).
const RAW: i32 = -300;

/// `IFNAMSIZ`.
const INTERFACE_NAME_LEN: usize = 16;

/// Where UDP and TCP headers have their ports, each of two bytes.
const SOURCE_PORT: u32 = 0;
const DESTINATION_PORT: u32 = 2;

const FIRST: Register = Register::word(0);

/// Addresses, by who is answered there.
#[derive(Clone, Copy)]
enum Group {
    /// Every address.
    Served,
    /// Whoever asks is answered.
    Anybody,
    /// Pods of this node are answered, and the node itself.
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

/// A rule and the chain that has it.
type ChainRule = (HookPoint, Vec<Expr>);

/// What the tables are made of.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Every address, of those that the machine has.
    pub(super) addresses: Vec<IpAddr>,
    /// The port of the sockets.
    pub(super) port: u16,
    /// The ClusterIPs among the addresses.
    cluster_ips: Vec<IpAddr>,
    /// How pods of this node are recognised, of IPv4 and IPv6; `None`: not at all.
    pods: [Option<LocalTraffic>; 2],
}

impl Table {
    pub(super) fn new(dns: &NodeDns, pods: &LocalDetector, port: u16, present: &[IpAddr]) -> Self {
        Self {
            addresses: present.to_vec(),
            port,
            cluster_ips: dns.cluster_ips.clone(),
            // The Node object is not known yet.
            pods: IpFamily::ALL.map(|it| LocalTraffic::detected_by(pods, None, it)),
        }
    }

    /// Makes the tables that take queries. They go with the socket that commits this.
    pub(super) fn queries(&self) -> Batch {
        let mut batch = Batch::new();
        for family in self.families() {
            let scope = scope(family, QUERIES);
            batch.add_owned_table(0, scope);
            self.fill(&mut batch, scope, family, |it| self.query_rules(family, it));
        }
        batch
    }

    /// Makes the tables for replies, in place of earlier ones.
    pub(super) fn replies(&self, connection: &mut Connection) -> Result<Batch, NodeError> {
        let mut batch = delete_replies(connection)?;
        for family in self.families() {
            let scope = scope(family, REPLIES);
            batch.add_table(0, scope, Some(COMMENT), Create::New);
            self.fill(&mut batch, scope, family, |it| {
                let packet = Packet {
                    family,
                    protocol: it,
                };
                let mut rule = packet.at(SOURCE_PORT, self.port, Group::Served);
                rule.extend(packet.untrack(SOURCE_PORT, self.port, DNS_PORT));
                vec![(HookPoint::Output, rule)]
            });
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
    fn fill(
        &self,
        batch: &mut Batch,
        scope: Scope<'_>,
        family: IpFamily,
        rules: impl Fn(Protocol) -> Vec<ChainRule>,
    ) {
        for group in Group::ALL {
            batch.add_set(0, scope, &set(group, family), Create::New);
            for address in self.of(group, family) {
                let element = ElementRef {
                    key: &octets(*address),
                    ..ElementRef::default()
                };
                batch.add_element(0, scope, group.name(), &element, Create::New);
            }
        }
        for point in [HookPoint::Prerouting, HookPoint::Output] {
            let chain = Chain {
                name: chain_name(point).to_owned(),
                hook: Some(Hook {
                    kind: ChainKind::Filter,
                    point,
                    priority: RAW,
                    policy: Policy::Accept,
                }),
                comment: None,
            };
            batch.add_chain(0, scope, &chain, Create::New);
        }
        for (point, exprs) in [Protocol::Udp, Protocol::Tcp].into_iter().flat_map(rules) {
            let rule = Rule {
                chain: chain_name(point).to_owned(),
                exprs,
                comment: None,
            };
            batch.add_rule(0, scope, &rule);
        }
    }

    fn query_rules(&self, family: IpFamily, protocol: Protocol) -> Vec<ChainRule> {
        let packet = Packet { family, protocol };
        let query = |group, condition: Vec<Expr>| {
            let mut rule = packet.at(DESTINATION_PORT, DNS_PORT, group);
            rule.extend(condition);
            rule.extend(packet.untrack(DESTINATION_PORT, DNS_PORT, self.port));
            rule
        };
        let mut rules = vec![
            (HookPoint::Output, query(Group::Served, Vec::new())),
            (HookPoint::Prerouting, query(Group::Anybody, Vec::new())),
        ];
        if let Some(pods) = &self.pods[family as usize] {
            let query = query(Group::Pods, from(pods, family));
            rules.push((HookPoint::Prerouting, query));
        }
        rules
    }
}

/// Deletes the tables for replies that a Sluice made, of both families.
pub(super) fn delete_replies(connection: &mut Connection) -> Result<Batch, NodeError> {
    let mut batch = Batch::new();
    for family in IpFamily::ALL {
        let scope = scope(family, REPLIES);
        let tables = connection.tables(scope.family);
        let tables = tables.map_err(failed("list the tables of nftables"))?;
        let mut named = tables.iter().filter(|it| it.name == REPLIES);
        if named.any(|it| it.comment.as_deref() == Some(COMMENT)) {
            batch.delete_table(0, scope);
        }
    }
    Ok(batch)
}

/// Whether some process takes queries.
pub(super) fn has_queries(connection: &mut Connection) -> Result<bool, NodeError> {
    for family in IpFamily::ALL {
        let tables = connection.tables(scope(family, QUERIES).family);
        let tables = tables.map_err(failed("list the tables of nftables"))?;
        if tables.iter().any(|it| it.name == QUERIES) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn chain_name(point: HookPoint) -> &'static str {
    match point {
        HookPoint::Prerouting => "prerouting",
        _ => "output",
    }
}

/// The packets of one family and protocol.
#[derive(Clone, Copy)]
struct Packet {
    family: IpFamily,
    protocol: Protocol,
}

impl Packet {
    /// Has this number at this port, and an address of the group on the same side.
    fn at(self, side: u32, number: u16, group: Group) -> Vec<Expr> {
        let address = match side {
            SOURCE_PORT => source(self.family),
            _ => destination(self.family),
        };
        vec![
            Expr::Meta {
                key: MetaKey::L4Proto,
                dreg: FIRST,
            },
            equal(vec![self.protocol.number()]),
            Expr::Payload {
                dreg: FIRST,
                base: PayloadBase::Transport,
                offset: side,
                len: 2,
            },
            equal(number.to_be_bytes().to_vec()),
            address,
            Expr::Lookup {
                set: group.name().to_owned(),
                sreg: FIRST,
                dreg: None,
                invert: false,
            },
        ]
    }

    /// Gets another number at this port if it differs, and has no connection.
    fn untrack(self, side: u32, now: u16, then: u16) -> Vec<Expr> {
        // RFC 768, RFC 9293.
        let checksum = match self.protocol {
            Protocol::Tcp => 16,
            _ => 6,
        };
        let mut exprs = Vec::new();
        if now != then {
            exprs.push(Expr::ImmediateData {
                dreg: FIRST,
                data: then.to_be_bytes().to_vec(),
            });
            exprs.push(Expr::PayloadSet {
                sreg: FIRST,
                offset: side,
                len: 2,
                checksum,
            });
        }
        exprs.push(Expr::Untrack);
        exprs
    }
}

/// Comes from a pod of this node.
fn from(pods: &LocalTraffic, family: IpFamily) -> Vec<Expr> {
    let name = |bytes| {
        let load = Expr::Meta {
            key: MetaKey::IncomingName,
            dreg: FIRST,
        };
        vec![load, equal(bytes)]
    };
    match pods {
        LocalTraffic::From(net) => within(net, family),
        LocalTraffic::Interface(interface) => {
            let mut padded = interface.as_bytes().to_vec();
            padded.resize(INTERFACE_NAME_LEN, 0);
            name(padded)
        }
        LocalTraffic::InterfacePrefix(prefix) => name(prefix.as_bytes().to_vec()),
    }
}

fn within(net: &IpNet, family: IpFamily) -> Vec<Expr> {
    let network = octets(net.network());
    let mask = Expr::Bitwise {
        sreg: FIRST,
        dreg: FIRST,
        mask: octets(net.netmask()),
        xor: vec![0; network.len()],
    };
    vec![source(family), mask, equal(network)]
}

fn source(family: IpFamily) -> Expr {
    address(family, [12, 8])
}

fn destination(family: IpFamily) -> Expr {
    address(family, [16, 24])
}

/// `offsets`: in an IPv4 header and in an IPv6 one.
fn address(family: IpFamily, offsets: [u32; 2]) -> Expr {
    Expr::Payload {
        dreg: FIRST,
        base: PayloadBase::Network,
        offset: offsets[family as usize],
        len: length(family),
    }
}

fn equal(data: Vec<u8>) -> Expr {
    Expr::Cmp {
        op: CmpOp::Equal,
        sreg: FIRST,
        data,
    }
}

fn set(group: Group, family: IpFamily) -> Set {
    Set {
        name: group.name().to_owned(),
        // nft's numbers of `ipv4_addr` and `ipv6_addr`.
        key_type: match family {
            IpFamily::V4 => 7,
            IpFamily::V6 => 8,
        },
        key_length: length(family),
        ..Set::default()
    }
}

/// Bytes of an address.
fn length(family: IpFamily) -> u32 {
    match family {
        IpFamily::V4 => 4,
        IpFamily::V6 => 16,
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn scope(family: IpFamily, table: &'static str) -> Scope<'static> {
    Scope {
        family: match family {
            IpFamily::V4 => Family::Ipv4,
            IpFamily::V6 => Family::Ipv6,
        },
        table,
    }
}
