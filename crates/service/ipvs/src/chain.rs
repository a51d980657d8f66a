//! The constant rules of iptables, with the names and the order of kube-proxy. `README.md` explains them.

use ipnet::IpNet;
use sluice_model::{IpFamily, LocalTraffic, Protocol};
use sluice_plan::{ClusterIpMasquerade, FamilyPlan, NodePlan, NodePortMatch};
use sluice_plane::kube_proxy::{
    CLUSTER_IPS, FORWARD, IPVS_FILTER, IPVS_OUT_FILTER, LOAD_BALANCER, MARK_MASQ, NODE_PORT,
    POSTROUTING, PROXY_FIREWALL, SERVICES, SOURCE_RANGES_FIREWALL as SOURCE_RANGES,
};
use sluice_plane::rules;
use sluice_xtables::rule::Table::{self, Filter, Mangle, Nat};
use sluice_xtables::rule::{ChainName, Match, Rule, Sense, Side, States, Target};

use crate::mark::MarkLayout;
use crate::object::{Key, Object};
use crate::set::SetName;

/// Ours: marks packets of near clients.
const NEAR_CLIENTS: &str = "SLUICE-NEAR-CLIENTS";
/// Ours: drops what the node sends to a Local policy without an endpoint here.
const NO_LOCAL_ENDPOINT: &str = "SLUICE-NO-LOCAL-ENDPOINT";

/// Every chain of the ipvs mode, with its table.
pub(crate) const CHAINS: &[(Table, &str)] = &[
    (Mangle, NEAR_CLIENTS),
    (Mangle, NO_LOCAL_ENDPOINT),
    (Mangle, PROXY_FIREWALL),
    (Mangle, SOURCE_RANGES),
    (Filter, IPVS_FILTER),
    (Filter, IPVS_OUT_FILTER),
    (Filter, CLUSTER_IPS),
    (Filter, NODE_PORT),
    (Filter, FORWARD),
    (Filter, PROXY_FIREWALL),
    (Filter, SOURCE_RANGES),
    (Nat, SERVICES),
    (Nat, NODE_PORT),
    (Nat, LOAD_BALANCER),
    (Nat, MARK_MASQ),
    (Nat, POSTROUTING),
];

/// Table, built-in chain, and our chain to which it jumps. Those of one built-in chain are in the order
/// in which packets meet them.
pub(crate) const JUMPS: &[(Table, &str, &str)] = &[
    (Mangle, "PREROUTING", NEAR_CLIENTS),
    (Mangle, "OUTPUT", PROXY_FIREWALL),
    (Mangle, "OUTPUT", NO_LOCAL_ENDPOINT),
    (Mangle, "OUTPUT", NEAR_CLIENTS),
    (Filter, "INPUT", PROXY_FIREWALL),
    (Filter, "INPUT", IPVS_FILTER),
    (Filter, "INPUT", NODE_PORT),
    (Filter, "FORWARD", PROXY_FIREWALL),
    (Filter, "FORWARD", CLUSTER_IPS),
    (Filter, "FORWARD", FORWARD),
    (Filter, "OUTPUT", IPVS_OUT_FILTER),
    (Nat, "PREROUTING", SERVICES),
    (Nat, "OUTPUT", SERVICES),
    (Nat, "POSTROUTING", POSTROUTING),
];

/// Whether a chain is ours, or a built-in chain that jumps to ours.
pub(crate) fn concerns(table: Table, chain: &str) -> bool {
    let jumps = JUMPS.iter().any(|it| (it.0, it.1) == (table, chain));
    jumps || CHAINS.contains(&(table, chain))
}

/// The comment of a rule that jumps to this chain of ours; kube-proxy's where it has the chain.
fn comment(chain: &str) -> &'static str {
    match chain {
        NEAR_CLIENTS => "clients on this node",
        NO_LOCAL_ENDPOINT => "Local policy without an endpoint here",
        PROXY_FIREWALL => "kube-proxy firewall rules",
        IPVS_FILTER | IPVS_OUT_FILTER => "kubernetes ipvs access filter",
        NODE_PORT => "kubernetes health check rules",
        CLUSTER_IPS => "ClusterIPs that no Service has",
        FORWARD => "kubernetes forwarding rules",
        SERVICES => "kubernetes service portals",
        _ => "kubernetes postrouting rules",
    }
}

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
    let jumps = JUMPS.iter().map(|(table, from, to)| {
        let rule = Rule::when([Match::comment(comment(to))], jump(to));
        let (from, to) = (ChainName::new(from), ChainName::new(to));
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
            (Mangle, NEAR_CLIENTS) => self.near_clients(),
            (Mangle, NO_LOCAL_ENDPOINT) => vec![self.no_local_endpoint()],
            (_, PROXY_FIREWALL) => vec![self.proxy_firewall()],
            (_, SOURCE_RANGES) => self.source_ranges(),
            (Filter, IPVS_FILTER) => self.ipvs_filter(),
            (Filter, IPVS_OUT_FILTER) => vec![Rule::when([NEW], jump(CLUSTER_IPS))],
            (Filter, CLUSTER_IPS) => self.unknown_cluster_ips(),
            (Filter, NODE_PORT) => self.health_checks(),
            (Filter, FORWARD) => rules::forward(self.mark).to_vec(),
            (Nat, SERVICES) => self.services(),
            (Nat, NODE_PORT) => self.node_ports(),
            (Nat, LOAD_BALANCER) => self.load_balancers(),
            (Nat, MARK_MASQ) => vec![rules::mark_masquerade(self.mark)],
            (Nat, POSTROUTING) => self.postrouting(),
            _ => Vec::new(),
        }
    }

    /// Packets of the node and its pods get the mark of the virtual server of near clients. A packet whose
    /// destination is no member keeps its mark (`set_target_v3`, `xt_set.c`).
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
        // A tunnel's packet has the mark of the packet inside, and IPVS would take it for one of a near
        // client. Such a mark has no bits but ours. Packets that IPVS forwards come through OUTPUT, too,
        // and need their mark until they are masqueraded.
        let carried = Rule::when(
            [self.is_near_marked(), Match::Ipvs(Sense::Not)],
            Target::Mark {
                clear: u32::MAX,
                flip: 0,
            },
        );
        // Virtual IPs come before NodePorts with the same address and port.
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

    /// Drops new connections of every client. Established ones go on.
    fn no_local_endpoint(&self) -> Rule {
        let set = self.described(SetName::NoLocalEndpoint);
        Rule::when([vec![NEW], set].concat(), Target::Drop)
    }

    fn source_ranges(&self) -> Vec<Rule> {
        let allowed = [
            SetName::LoadBalancerSourceCidr,
            SetName::LoadBalancerSourceIp,
        ];
        let mut rules = allowed
            .map(|set| Rule::when(self.described(set), Target::Return))
            .to_vec();
        rules.push(Rule::always(Target::Drop));
        rules
    }

    /// Packets in this chain are for an address of the node and are not translated yet.
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

    fn unknown_cluster_ips(&self) -> Vec<Rule> {
        let mut rules = vec![Rule::when([self.is_in(SetName::IpvsIps)], Target::Return)];
        let to = |net: &IpNet| Match::Destination(Sense::Is, *net);
        let cidrs = self.node.service_cidrs.iter();
        rules.extend(cidrs.map(|it| Rule::when([NEW, to(it)], Target::Drop)));
        rules
    }

    fn health_checks(&self) -> Vec<Rule> {
        let set = self.described(SetName::HealthCheckNodePort);
        vec![Rule::when(set, Target::Accept)]
    }

    /// Marks packets to masquerade. Packets to a virtual IP are accepted: the node has the address, and
    /// rules for ports of the node (`hostPort`) must not translate them.
    fn services(&self) -> Vec<Rule> {
        let accepted = [
            SetName::ExternalIp,
            SetName::ExternalIpLocal,
            SetName::LoadBalancer,
            SetName::ClusterIp,
            SetName::IpvsIps,
        ];
        // A frontend that changes its policy is in both sets for a moment.
        let mut external = self.described(SetName::ExternalIp);
        external.push(Match::Set {
            sense: Sense::Not,
            set: SetName::ExternalIpLocal.name(self.family).into(),
            fields: SetName::ExternalIpLocal.fields(),
        });
        let mut rules = vec![
            Rule::when(
                [Match::Destination(Sense::Is, rules::loopback(self.family))],
                Target::Return,
            ),
            Rule::when([self.is_near_marked()], Target::Accept),
            Rule::when(self.described(SetName::LoadBalancer), jump(LOAD_BALANCER)),
            self.cluster_ips(),
            Rule::when(external, jump(MARK_MASQ)),
            self.only_the_node(self.described(SetName::ExternalIpLocal)),
        ];
        rules.extend(accepted.map(|set| Rule::when([self.is_in(set)], Target::Accept)));
        // On other addresses of the node the port is not a NodePort.
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
            // A node that dials a virtual IP has that address as source, because kube-ipvs0 has it.
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
        for protocol in Protocol::ALL {
            let [all, local] = SetName::node_ports(protocol);
            let of = |set| [vec![Match::Protocol(protocol)], self.described(set)].concat();
            rules.push(self.only_the_node(of(local)));
            rules.push(Rule::when(of(local), Target::Return));
            rules.push(Rule::when(of(all), jump(MARK_MASQ)));
        }
        rules
    }

    fn postrouting(&self) -> Vec<Rule> {
        let mark_only = |flip| Target::Mark {
            clear: u32::MAX,
            flip,
        };
        // A tunnel's packet gets the mark of the packet inside (`skb_scrub_packet`, skbuff.c): so the
        // marks of near clients are removed here, and packets of the node get the masquerade mark, which
        // the rules below remove.
        let mut near = vec![self.is_near_marked(), Match::SourceIsLocal(Sense::Is)];
        // POSTROUTING has no incoming interface to match.
        if let Some(LocalTraffic::From(_)) = &self.node.local_traffic {
            near.extend(self.is_pod(Sense::Not));
        }
        // Connections to an endpoint's own address are not masqueraded.
        let hairpin = [
            self.described(SetName::LoopBack),
            vec![Match::Ipvs(Sense::Is)],
        ];
        let masquerade = Target::Masquerade { random_fully: true };
        let mut rules = vec![
            Rule::when(hairpin.concat(), masquerade),
            Rule::when(near, mark_only(self.mark)),
            Rule::when([self.is_near_marked()], mark_only(0)),
        ];
        rules.extend(rules::masquerade(self.mark));
        rules
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

    fn is_near_marked(&self) -> Match {
        let (value, mask) = MarkLayout::beside(self.mark).tag();
        Match::Mark {
            sense: Sense::Is,
            value,
            mask,
        }
    }

    /// Matches packets of pods of this node; `None` when the configuration detects none.
    fn is_pod(&self, sense: Sense) -> Option<Match> {
        let pods = self.node.local_traffic.as_ref()?;
        Some(rules::from_pods(pods, sense))
    }
}

const NEW: Match = Match::State(Sense::Is, States::NEW);

fn jump(chain: &str) -> Target {
    Target::Jump(ChainName::new(chain))
}
