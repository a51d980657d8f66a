//! The part of the ruleset that does not depend on any Service.
//!
//! ```text
//! filter INPUT    KUBE-PROXY-FIREWALL  KUBE-NODEPORTS  KUBE-EXTERNAL-SERVICES
//! filter FORWARD  KUBE-PROXY-FIREWALL  KUBE-FORWARD  KUBE-SERVICES  KUBE-EXTERNAL-SERVICES  SLUICE-CLUSTER-IPS
//! filter OUTPUT   KUBE-PROXY-FIREWALL  KUBE-SERVICES  KUBE-EXTERNAL-SERVICES  SLUICE-CLUSTER-IPS
//! nat PREROUTING, OUTPUT   KUBE-SERVICES ─▶ ... ─▶ KUBE-NODEPORTS, the last rule
//! nat POSTROUTING          KUBE-POSTROUTING
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use sluice_model::IpFamily;
use sluice_plan::{FamilyPlan, NodePlan, NodePortMatch};
use sluice_plane::rules::{self, loopback};
use sluice_xtables::rule::{ChainName, Match, Rule, Sense, States, Table, Target};

use crate::accounts::{self, Accounting};
use crate::name::{self, chain};
use crate::object::{ChainId, Key, Object};

/// The setting of conntrack that rules depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conntrack {
    /// Conntrack marks packets outside the TCP window as invalid. They are dropped: a reply that is not translated back
    /// would reset the client's connection.
    #[default]
    Strict,
    /// `nf_conntrack_tcp_be_liberal` is set: no packet has to be dropped.
    Liberal,
}

/// The tables that have to be read. [`mangle`] has only an empty chain.
pub(crate) const READ: &[Table] = &[Table::Filter, Table::Nat];

/// The objects of these families, in the order in which kube-proxy writes them.
pub(crate) fn standing(
    node: &NodePlan,
    families: &[IpFamily],
    conntrack: Conntrack,
    accounting: impl Fn(IpFamily) -> Accounting,
) -> Vec<(Key, Object)> {
    let mut objects = Vec::new();
    for family in families {
        let standing = Standing {
            family: *family,
            node,
            plan: node.family(*family),
            accounting: accounting(*family),
        };
        objects.extend(standing.objects(conntrack));
    }
    objects
}

/// The jumps of a built-in chain, in their order.
fn jumps(table: Table, name: &str) -> Vec<Rule> {
    let jump = |to: &'static str, comment: &str| {
        Rule::when([Match::comment(comment)], Target::Jump(chain(to)))
    };
    let new = |to: &'static str, comment: &str| {
        let is_new = Match::State(Sense::Is, States::NEW);
        Rule::when([is_new, Match::comment(comment)], Target::Jump(chain(to)))
    };
    let portals = "kubernetes service portals";
    let firewall = new(name::PROXY_FIREWALL, "kubernetes load balancer firewall");
    let services = new(name::SERVICES, portals);
    let comment = "kubernetes externally-visible service portals";
    let external = new(name::EXTERNAL_SERVICES, comment);
    let comment = "sluice: cluster IPs that nobody answers";
    let cluster_ips = new(name::CLUSTER_IPS, comment);
    match (table, name) {
        (Table::Filter, name::INPUT) => {
            let comment = "kubernetes health check service ports";
            vec![firewall, jump(name::NODE_PORTS, comment), external]
        }
        (Table::Filter, name::FORWARD) => {
            let forward = jump(name::FORWARD_RULES, "kubernetes forwarding rules");
            vec![firewall, forward, services, external, cluster_ips]
        }
        // The node dials the addresses of its own load balancers, too.
        (Table::Filter, _) => vec![firewall, services, external, cluster_ips],
        (_, name::POSTROUTING) => {
            let comment = "kubernetes postrouting rules";
            vec![jump(name::POSTROUTING_RULES, comment)]
        }
        _ => vec![jump(name::SERVICES, portals)],
    }
}

/// The destinations that answer on NodePorts, each as conditions of one rule.
pub(crate) fn node_port_destinations(family: IpFamily, plan: &FamilyPlan) -> Vec<Vec<Match>> {
    match plan.node_ports {
        NodePortMatch::AnyLocal => {
            let mut matches = vec![Match::DestinationIsLocal(Sense::Is)];
            if !plan.node_ports_on_loopback {
                matches.push(Match::Destination(Sense::Not, loopback(family)));
            }
            vec![matches]
        }
        NodePortMatch::LocalWithin(_) | NodePortMatch::Only(_) => {
            let addresses = plan.node_port_addresses().into_iter();
            let loopback = plan
                .node_ports_on_loopback
                .then_some(Ipv4Addr::LOCALHOST.into());
            let to = |it: IpAddr| vec![Match::Destination(Sense::Is, it.into())];
            addresses.chain(loopback).map(to).collect()
        }
    }
}

/// Drops packets of other hosts to loopback addresses, which `route_localnet` admits (CVE-2020-8558). The
/// kubelet writes the same rule.
pub(crate) fn drop_to_loopback() -> Rule {
    let loopback = loopback(IpFamily::V4);
    let tracked = States::RELATED.or(States::ESTABLISHED).or(States::DNAT);
    let matches = [
        Match::comment("block incoming localnet connections"),
        Match::Destination(Sense::Is, loopback),
        Match::Source(Sense::Not, loopback),
        Match::State(Sense::Not, tracked),
    ];
    Rule::when(matches, Target::Drop)
}

/// The kubelet's jump to the chain of that rule.
pub(crate) fn to_firewall() -> Rule {
    Rule::always(Target::Jump(chain(name::FIREWALL)))
}

/// That rule and the jumps to it. Always written, because the sysctl outlives the process that set it.
pub(crate) fn loopback_firewall() -> Vec<(Key, Object)> {
    let place = |name| ChainId {
        family: IpFamily::V4,
        table: Table::Filter,
        chain: chain(name),
    };
    let rule = |name, rule| (Key::Rule(place(name), Arc::new(rule)), Object::Present);
    vec![
        (Key::Common(place(name::FIREWALL)), Object::Present),
        rule(name::FIREWALL, drop_to_loopback()),
        rule(name::INPUT, to_firewall()),
        rule(name::OUTPUT, to_firewall()),
    ]
}

/// The objects of table mangle.
pub(crate) fn mangle(family: IpFamily) -> Vec<(Key, Object)> {
    let place = ChainId {
        family,
        table: Table::Mangle,
        chain: chain(name::CANARY),
    };
    vec![(Key::Chain(place), Object::Rules(Vec::new().into()))]
}

struct Standing<'a> {
    family: IpFamily,
    node: &'a NodePlan,
    plan: &'a FamilyPlan,
    accounting: Accounting,
}

impl Standing<'_> {
    fn objects(&self, conntrack: Conntrack) -> Vec<(Key, Object)> {
        use Table::{Filter, Nat};
        let mark = self.node.masquerade_mark;
        let mut objects = mangle(self.family);
        let common = [
            name::SERVICES,
            name::EXTERNAL_SERVICES,
            name::NODE_PORTS,
            name::PROXY_FIREWALL,
            name::CLUSTER_IPS,
        ];
        objects.extend(common.map(|it| self.common(Filter, it)));
        if self.family == IpFamily::V4 {
            objects.extend(loopback_firewall());
        }
        objects.push(self.whole(Filter, name::FORWARD_RULES, self.forwarding(conntrack)));
        objects.extend(self.unallocated());
        objects.push(self.whole(Filter, name::CANARY, Vec::new()));
        objects.extend([name::SERVICES, name::NODE_PORTS].map(|it| self.common(Nat, it)));
        let mut masquerade = self.mark_of_dns();
        masquerade.extend(rules::masquerade(mark));
        objects.push(self.whole(Nat, name::POSTROUTING_RULES, masquerade));
        objects.push(self.whole(Nat, name::MARK_MASQ, vec![rules::mark_masquerade(mark)]));
        objects.extend(self.node_ports());
        for empty in [name::CANARY, name::OWNED] {
            objects.push(self.whole(Nat, empty, Vec::new()));
        }
        for builtin in [name::INPUT, name::FORWARD, name::OUTPUT] {
            objects.push(self.jumps(Filter, builtin));
        }
        for builtin in [name::PREROUTING, name::OUTPUT, name::POSTROUTING] {
            objects.push(self.jumps(Nat, builtin));
        }
        objects
    }

    fn place(&self, table: Table, name: &'static str) -> ChainId {
        ChainId {
            family: self.family,
            table,
            chain: chain(name),
        }
    }

    fn whole(&self, table: Table, name: &'static str, rules: Vec<Rule>) -> (Key, Object) {
        (
            Key::Chain(self.place(table, name)),
            Object::Rules(rules.into()),
        )
    }

    fn common(&self, table: Table, name: &'static str) -> (Key, Object) {
        (Key::Common(self.place(table, name)), Object::Present)
    }

    fn jumps(&self, table: Table, name: &'static str) -> (Key, Object) {
        let rules = Object::Rules(jumps(table, name).into());
        (Key::Jumps(self.place(table, name)), rules)
    }

    fn forwarding(&self, conntrack: Conntrack) -> Vec<Rule> {
        let mut rules = Vec::new();
        if conntrack == Conntrack::Strict {
            let mut invalid = vec![Match::State(Sense::Is, States::INVALID)];
            if self.accounting == Accounting::On {
                invalid.push(accounts::count_invalid());
            }
            rules.push(Rule::when(invalid, Target::Drop));
        }
        rules.extend(rules::forward(self.node.masquerade_mark));
        rules
    }

    fn node_ports(&self) -> Option<(Key, Object)> {
        let comment =
            "kubernetes service nodeports; NOTE: this must be the last rule in this chain";
        let destinations = node_port_destinations(self.family, self.plan).into_iter();
        let rules = destinations.map(|mut matches| {
            matches.insert(0, Match::comment(comment));
            Rule::when(matches, Target::Jump(chain(name::NODE_PORTS)))
        });
        self.tail(Table::Nat, name::SERVICES, rules.collect())
    }

    /// Marks the node's own connections to the addresses of its DNS server where they go to the cluster's:
    /// no endpoint can reply to their source.
    fn mark_of_dns(&self) -> Vec<Rule> {
        let rules = self.plan.dns_addresses.iter().map(|it| {
            let matches = [
                Match::comment("sluice: the node's own DNS queries"),
                Match::Source(Sense::Is, (*it).into()),
                Match::State(Sense::Is, States::DNAT),
            ];
            Rule::when(matches, Target::Jump(chain(name::MARK_MASQ)))
        });
        rules.collect()
    }

    fn unallocated(&self) -> Option<(Key, Object)> {
        let rules = self.plan.service_cidrs.iter().map(|net| {
            let comment = Match::comment("sluice: no Service has this cluster IP");
            Rule::when([comment, Match::Destination(Sense::Is, *net)], Target::Drop)
        });
        self.tail(Table::Filter, name::CLUSTER_IPS, rules.collect())
    }

    fn tail(&self, table: Table, name: &'static str, rules: Vec<Rule>) -> Option<(Key, Object)> {
        let key = Key::Tail(self.place(table, name));
        (!rules.is_empty()).then_some((key, Object::Rules(rules.into())))
    }
}

/// Whether a rule belongs to the tail of its common chain.
pub(crate) fn is_of_tail(table: Table, chain: &ChainName, rule: &Rule) -> bool {
    let Rule::Known { target, .. } = rule else {
        return false;
    };
    match (table, chain.as_str(), target) {
        (Table::Nat, name::SERVICES, Some(Target::Jump(to))) => to.as_str() == name::NODE_PORTS,
        (Table::Filter, name::CLUSTER_IPS, Some(Target::Drop)) => true,
        _ => false,
    }
}
