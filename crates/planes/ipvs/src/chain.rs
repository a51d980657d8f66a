//! The constant rules of iptables: names and order of kube-proxy, which `README.md` explains.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use sluice_model::{IpFamily, Protocol};
use sluice_plan::{ClusterIpMasquerade, FamilyPlan, LocalTraffic, NodePlan, NodePortMatch};
use sluice_plane::kube_proxy::{
    CLUSTER_IPS as CLUSTER_IP_GUARD, FORWARD, IPVS_FILTER, IPVS_OUT_FILTER, LOAD_BALANCER,
    MARK_MASQ, NODE_PORT, POSTROUTING, PROXY_FIREWALL, SERVICES,
    SOURCE_RANGES_FIREWALL as SOURCE_RANGES,
};
use sluice_xtables::rule::{ChainName, Match, Rule, Sense, Side, States, Table, Target};

use crate::mark::MarkLayout;
use crate::object::{Key, Object};
use crate::set::SetName;

/// Ours: marks packets of near clients.
const NEAR_CLIENTS: &str = "SLUICE-NEAR-CLIENTS";
/// Ours: drops what the node sends to a Local policy without an endpoint here.
const NO_LOCAL_ENDPOINT: &str = "SLUICE-NO-LOCAL-ENDPOINT";

/// Chains of ours, by table.
pub(crate) const CHAINS: &[(Table, &str)] = &[
    (Table::Mangle, NEAR_CLIENTS),
    (Table::Mangle, NO_LOCAL_ENDPOINT),
    (Table::Mangle, PROXY_FIREWALL),
    (Table::Mangle, SOURCE_RANGES),
    (Table::Filter, IPVS_FILTER),
    (Table::Filter, IPVS_OUT_FILTER),
    (Table::Filter, CLUSTER_IP_GUARD),
    (Table::Filter, NODE_PORT),
    (Table::Filter, FORWARD),
    (Table::Filter, PROXY_FIREWALL),
    (Table::Filter, SOURCE_RANGES),
    (Table::Nat, SERVICES),
    (Table::Nat, NODE_PORT),
    (Table::Nat, LOAD_BALANCER),
    (Table::Nat, MARK_MASQ),
    (Table::Nat, POSTROUTING),
];

/// Whether a chain is ours, or one of the kernel's that leads to ours: a change of it by somebody
/// else is worth a look.
pub(crate) fn concerns(table: Table, chain: &str) -> bool {
    let leads_to_ours = JUMPS.iter().any(|it| (it.0, it.1) == (table, chain));
    leads_to_ours || CHAINS.contains(&(table, chain))
}

/// Table, built-in chain, our chain, and why. Of one built-in chain in the order in which packets
/// meet them.
pub(crate) const JUMPS: &[(Table, &str, &str, &str)] = &[
    (
        Table::Mangle,
        "PREROUTING",
        NEAR_CLIENTS,
        "clients on this node",
    ),
    (
        Table::Mangle,
        "OUTPUT",
        PROXY_FIREWALL,
        "kube-proxy firewall rules",
    ),
    (
        Table::Mangle,
        "OUTPUT",
        NO_LOCAL_ENDPOINT,
        "Local policy without an endpoint here",
    ),
    (
        Table::Mangle,
        "OUTPUT",
        NEAR_CLIENTS,
        "clients on this node",
    ),
    (
        Table::Filter,
        "INPUT",
        PROXY_FIREWALL,
        "kube-proxy firewall rules",
    ),
    (
        Table::Filter,
        "INPUT",
        IPVS_FILTER,
        "kubernetes ipvs access filter",
    ),
    (
        Table::Filter,
        "INPUT",
        NODE_PORT,
        "kubernetes health check rules",
    ),
    (
        Table::Filter,
        "FORWARD",
        PROXY_FIREWALL,
        "kube-proxy firewall rules",
    ),
    (
        Table::Filter,
        "FORWARD",
        CLUSTER_IP_GUARD,
        "ClusterIPs that no Service has",
    ),
    (
        Table::Filter,
        "FORWARD",
        FORWARD,
        "kubernetes forwarding rules",
    ),
    (
        Table::Filter,
        "OUTPUT",
        IPVS_OUT_FILTER,
        "kubernetes ipvs access filter",
    ),
    (
        Table::Nat,
        "PREROUTING",
        SERVICES,
        "kubernetes service portals",
    ),
    (Table::Nat, "OUTPUT", SERVICES, "kubernetes service portals"),
    (
        Table::Nat,
        "POSTROUTING",
        POSTROUTING,
        "kubernetes postrouting rules",
    ),
];

/// The chains and jumps of one family.
pub(crate) fn objects(node: &NodePlan, family: IpFamily) -> Vec<(Key, Object)> {
    let rules = Rules {
        node: node.family(family),
        mark: node.masquerade_mark,
        family,
    };
    let chains = CHAINS.iter().map(|(table, name)| {
        let key = Key::Chain(family, *table, ChainName::new(name));
        (key, Object::Chain(rules.of(*table, name).into()))
    });
    let jumps = JUMPS.iter().map(|(table, from, to, comment)| {
        let (from, to) = (ChainName::new(from), ChainName::new(to));
        let rule = Rule::when([Match::comment(comment)], Target::Jump(to));
        (Key::Jump(family, *table, from, to), Object::Jump(rule))
    });
    chains.chain(jumps).collect()
}

struct Rules<'a> {
    node: &'a FamilyPlan,
    mark: u32,
    family: IpFamily,
}

impl Rules<'_> {
    fn of(&self, table: Table, chain: &str) -> Vec<Rule> {
        match (table, chain) {
            (Table::Mangle, NEAR_CLIENTS) => self.near_clients(),
            (Table::Mangle, NO_LOCAL_ENDPOINT) => vec![self.no_local_endpoint()],
            (_, PROXY_FIREWALL) => vec![self.proxy_firewall()],
            (_, SOURCE_RANGES) => self.source_ranges(),
            (Table::Filter, IPVS_FILTER) => self.ipvs_filter(),
            (Table::Filter, IPVS_OUT_FILTER) => vec![jump_when([NEW], CLUSTER_IP_GUARD)],
            (Table::Filter, CLUSTER_IP_GUARD) => self.cluster_ip_guard(),
            (Table::Filter, NODE_PORT) => self.health_checks(),
            (Table::Filter, FORWARD) => self.forward(),
            (Table::Nat, SERVICES) => self.services(),
            (Table::Nat, NODE_PORT) => self.node_ports(),
            (Table::Nat, LOAD_BALANCER) => self.load_balancers(),
            (Table::Nat, MARK_MASQ) => vec![self.mark_masquerade()],
            (Table::Nat, POSTROUTING) => self.postrouting(),
            _ => Vec::new(),
        }
    }

    /// The node itself and its pods get the mark of the virtual server that is for them. A packet
    /// that is for no member keeps the mark it has (`set_target_v3`, `xt_set.c`).
    fn near_clients(&self) -> Vec<Rule> {
        let node = Match::SourceIsLocal(Sense::Is);
        let near: Vec<Match> = self.is_pod(Sense::Is).into_iter().chain([node]).collect();
        let marks = |set: SetName| {
            let mark = Target::MapMark {
                set: set.name(self.family).into(),
                fields: set.fields(),
            };
            let near = near.iter().cloned();
            near.map(move |who| Rule::when([NEW, who], mark.clone()))
        };
        // What a tunnel sends has the mark of the packet that it carries, and IPVS would take it for
        // one of a near client. Such a mark has no bits but ours. What IPVS sends on comes through
        // OUTPUT, too, and needs its mark until it is masqueraded.
        let carried = Rule::when(
            [self.is_near_marked(), Match::Ipvs(Sense::Not)],
            Target::Mark {
                clear: u32::MAX,
                flip: 0,
            },
        );
        // They come before NodePorts of the same numbers.
        let virtual_ips = SetName::VIRTUAL_IPS.into_iter();
        let virtual_ips = virtual_ips.map(|set| Rule::when([NEW, self.is_in(set)], Target::Return));
        let rules = std::iter::once(carried).chain(marks(SetName::NearClients));
        let rules = rules.chain(virtual_ips);
        rules.chain(marks(SetName::NearNodePorts)).collect()
    }

    fn proxy_firewall(&self) -> Rule {
        let set = self.described(SetName::LoadBalancerFw);
        Rule::when([vec![NEW], set].concat(), jump(SOURCE_RANGES))
    }

    /// New connections of everybody; those that were made before go on.
    fn no_local_endpoint(&self) -> Rule {
        let set = self.described(SetName::NoLocalEndpoint);
        Rule::when([vec![NEW], set].concat(), Target::Drop)
    }

    fn source_ranges(&self) -> Vec<Rule> {
        let allowed = [
            SetName::LoadBalancerSourceCidr,
            SetName::LoadBalancerSourceIp,
        ];
        let allowed = allowed.map(|set| Rule::when(self.described(set), Target::Return));
        allowed
            .into_iter()
            .chain([Rule::always(Target::Drop)])
            .collect()
    }

    /// What comes here is for an address of the node and was not translated yet.
    fn ipvs_filter(&self) -> Vec<Rule> {
        let far = |set| {
            let mut far = vec![NEW];
            far.extend(self.described(set));
            far.extend(self.is_pod(Sense::Not));
            far.push(Match::SourceIsLocal(Sense::Not));
            Rule::when(far, Target::Drop)
        };
        let known = |set| Rule::when([self.is_in(set)], Target::Return);
        let mut rules = vec![self.no_local_endpoint(), far(SetName::NoLocalEndpointFar)];
        rules.extend(SetName::VIRTUAL_IPS.map(known));
        rules.push(far(SetName::NoLocalNodePortFar));
        rules.push(known(SetName::HealthCheckNodePort));
        rules.push(Rule::when(
            [NEW, self.is_in(SetName::IpvsIps)],
            Target::Reject,
        ));
        rules
    }

    fn cluster_ip_guard(&self) -> Vec<Rule> {
        let owned = Rule::when([self.is_in(SetName::IpvsIps)], Target::Return);
        let cidrs = self.node.service_cidrs.iter();
        let drop =
            cidrs.map(|net| Rule::when([NEW, Match::Destination(Sense::Is, *net)], Target::Drop));
        std::iter::once(owned).chain(drop).collect()
    }

    fn health_checks(&self) -> Vec<Rule> {
        let set = self.described(SetName::HealthCheckNodePort);
        vec![Rule::when(set, Target::Accept)]
    }

    fn forward(&self) -> Vec<Rule> {
        let answers = States::RELATED.or(States::ESTABLISHED);
        vec![
            Rule::when(
                [
                    Match::comment("kubernetes forwarding rules"),
                    self.is_marked(Sense::Is),
                ],
                Target::Accept,
            ),
            Rule::when(
                [
                    Match::comment("kubernetes forwarding conntrack rule"),
                    Match::State(Sense::Is, answers),
                ],
                Target::Accept,
            ),
        ]
    }

    /// Marks what must be masqueraded. What is for a virtual IP is accepted: the node has its
    /// address now, and rules for ports of the node (`hostPort`) must not take it away.
    fn services(&self) -> Vec<Rule> {
        let loopback = match self.family {
            IpFamily::V4 => IpNet::new_assert(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
            IpFamily::V6 => IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST)),
        };
        let accepted = [
            SetName::ExternalIp,
            SetName::ExternalIpLocal,
            SetName::LoadBalancer,
            SetName::ClusterIp,
            SetName::IpvsIps,
        ];
        // One that changes from the one set to the other is in both for a moment.
        let mut external = self.described(SetName::ExternalIp);
        external.push(Match::Set {
            sense: Sense::Not,
            set: SetName::ExternalIpLocal.name(self.family).into(),
            fields: SetName::ExternalIpLocal.fields(),
        });
        let mut rules = vec![
            Rule::when([Match::Destination(Sense::Is, loopback)], Target::Return),
            Rule::when([self.is_near_marked()], Target::Accept),
            Rule::when(self.described(SetName::LoadBalancer), jump(LOAD_BALANCER)),
            self.cluster_ips(),
            Rule::when(external, jump(MARK_MASQ)),
            self.only_the_node(self.described(SetName::ExternalIpLocal)),
        ];
        rules.extend(accepted.map(|set| Rule::when([self.is_in(set)], Target::Accept)));
        // Elsewhere the number of a NodePort is the node's own business.
        match &self.node.node_ports {
            NodePortMatch::AnyLocal => {
                let here = Match::DestinationIsLocal(Sense::Is);
                rules.push(Rule::when([here], jump(NODE_PORT)));
            }
            NodePortMatch::LocalWithin(_) | NodePortMatch::Only(_) => {
                let addresses = self.node.node_port_addresses().into_iter();
                rules.extend(addresses.map(|ip| {
                    let here = Match::Destination(Sense::Is, IpNet::from(ip));
                    Rule::when([here], jump(NODE_PORT))
                }));
            }
        }
        rules
    }

    fn cluster_ips(&self) -> Rule {
        let mut matches = vec![Match::comment(SetName::ClusterIp.comment())];
        match self.node.cluster_ip_masquerade {
            ClusterIpMasquerade::Everybody => matches.push(self.is_in(SetName::ClusterIp)),
            ClusterIpMasquerade::NotLocalPods => {
                matches.push(self.is_in(SetName::ClusterIp));
                matches.extend(self.is_pod(Sense::Not));
            }
            // The node takes the virtual IP as source when it dials one: kube-ipvs0 has it.
            ClusterIpMasquerade::Nobody => matches.push(Match::Set {
                sense: Sense::Is,
                set: SetName::ClusterIp.name(self.family).into(),
                fields: &[Side::Src, Side::Dst],
            }),
        }
        Rule::when(matches, jump(MARK_MASQ))
    }

    /// Under policy Local only the node itself is masqueraded.
    fn only_the_node(&self, mut matches: Vec<Match>) -> Rule {
        matches.push(Match::SourceIsLocal(Sense::Is));
        matches.extend(self.is_pod(Sense::Not));
        Rule::when(matches, jump(MARK_MASQ))
    }

    fn load_balancers(&self) -> Vec<Rule> {
        let local = self.described(SetName::LoadBalancerLocal);
        vec![
            self.only_the_node(local.clone()),
            Rule::when(local, Target::Return),
            Rule::always(jump(MARK_MASQ)),
        ]
    }

    fn node_ports(&self) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (protocol, all, local) in [
            (
                Protocol::Tcp,
                SetName::NodePortTcp,
                SetName::NodePortLocalTcp,
            ),
            (
                Protocol::Udp,
                SetName::NodePortUdp,
                SetName::NodePortLocalUdp,
            ),
            (
                Protocol::Sctp,
                SetName::NodePortSctp,
                SetName::NodePortLocalSctp,
            ),
        ] {
            let of = |set| [vec![Match::Protocol(protocol)], self.described(set)].concat();
            rules.push(self.only_the_node(of(local)));
            rules.push(Rule::when(of(local), Target::Return));
            rules.push(Rule::when(of(all), jump(MARK_MASQ)));
        }
        rules
    }

    fn mark_masquerade(&self) -> Rule {
        Rule::always(Target::Mark {
            clear: self.mark,
            flip: self.mark,
        })
    }

    fn postrouting(&self) -> Vec<Rule> {
        let masquerade = || Target::Masquerade { random_fully: true };
        let mark_only = |flip| Target::Mark {
            clear: u32::MAX,
            flip,
        };
        // A mark that stays is that of the tunnel's packet, too (`skb_scrub_packet`, skbuff.c): so
        // near clients lose theirs here, and the node gets the one that is taken off below.
        let mut near = vec![self.is_near_marked(), Match::SourceIsLocal(Sense::Is)];
        // What the node sends has come from no interface, and there is none to ask for here.
        if let Some(LocalTraffic::From(_)) = &self.node.local_traffic {
            near.extend(self.is_pod(Sense::Not));
        }
        vec![
            Rule::when(
                // Who dials an endpoint by its own address sees it as it is.
                [
                    self.described(SetName::LoopBack),
                    vec![Match::Ipvs(Sense::Is)],
                ]
                .concat(),
                masquerade(),
            ),
            Rule::when(near, mark_only(self.mark)),
            Rule::when([self.is_near_marked()], mark_only(0)),
            Rule::when([self.is_marked(Sense::Not)], Target::Return),
            Rule::always(Target::Mark {
                clear: 0,
                flip: self.mark,
            }),
            Rule::when(
                [Match::comment("kubernetes service traffic requiring SNAT")],
                masquerade(),
            ),
        ]
    }

    fn is_in(&self, set: SetName) -> Match {
        Match::Set {
            sense: Sense::Is,
            set: set.name(self.family).into(),
            fields: set.fields(),
        }
    }

    fn described(&self, set: SetName) -> Vec<Match> {
        vec![Match::comment(set.comment()), self.is_in(set)]
    }

    fn is_marked(&self, sense: Sense) -> Match {
        Match::Mark {
            sense,
            value: self.mark,
            mask: self.mark,
        }
    }

    fn is_near_marked(&self) -> Match {
        let (value, mask) = MarkLayout::beside(self.mark).tag();
        Match::Mark {
            sense: Sense::Is,
            value,
            mask,
        }
    }

    /// Whether a packet comes from a pod of this node; `None` when nobody can tell.
    fn is_pod(&self, sense: Sense) -> Option<Match> {
        Some(match self.node.local_traffic.as_ref()? {
            LocalTraffic::From(net) => Match::Source(sense, *net),
            LocalTraffic::Interface(name) => Match::InInterface(sense, name.clone()),
            LocalTraffic::InterfacePrefix(prefix) => {
                Match::InInterface(sense, format!("{prefix}+").into())
            }
        })
    }
}

const NEW: Match = Match::State(Sense::Is, States::NEW);

fn jump(chain: &str) -> Target {
    Target::Jump(ChainName::new(chain))
}

fn jump_when(matches: impl Into<Vec<Match>>, chain: &str) -> Rule {
    Rule::when(matches, jump(chain))
}
