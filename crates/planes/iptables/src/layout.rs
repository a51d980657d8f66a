//! The part of the ruleset that does not depend on any Service.
//!
//! ```text
//! filter INPUT    KUBE-PROXY-FIREWALL  KUBE-NODEPORTS  KUBE-EXTERNAL-SERVICES
//! filter FORWARD  KUBE-PROXY-FIREWALL  KUBE-FORWARD  KUBE-SERVICES  KUBE-EXTERNAL-SERVICES  SLUICE-CLUSTER-IPS
//! filter OUTPUT   KUBE-PROXY-FIREWALL  KUBE-SERVICES  KUBE-EXTERNAL-SERVICES  SLUICE-CLUSTER-IPS
//! nat PREROUTING, OUTPUT   KUBE-SERVICES ─▶ ... ─▶ KUBE-NODEPORTS, the last rule
//! nat POSTROUTING          KUBE-POSTROUTING
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_plan::{FamilyPlan, NodePlan, NodePortMatch};
use sluice_xtables::rule::{ChainName, Match, Rule, Sense, States, Table, Target};

use crate::accounts::{self, Accounting};
use crate::name::{self, chain};
use crate::object::{Key, Object, Place};

/// What the machine says about connection tracking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conntrack {
    /// Packets outside the window of their connection are invalid, and a reply that is neither
    /// translated back nor dropped would reset the connection of the client.
    #[default]
    Strict,
    /// `nf_conntrack_tcp_be_liberal` is set: nothing has to be dropped.
    Liberal,
}

/// The tables that have to be read. In [`mangle`] there is but an empty chain.
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

/// The jumps of a chain of the kernel, in their order.
fn jumps(table: Table, name: &str) -> Vec<Rule> {
    let to = |to: &'static str, comment: &str, new: bool| {
        let mut matches = Vec::new();
        if new {
            matches.push(Match::State(Sense::Is, States::NEW));
        }
        matches.push(Match::comment(comment));
        Rule::when(matches, Target::Jump(chain(to)))
    };
    let firewall = || {
        to(
            name::PROXY_FIREWALL,
            "kubernetes load balancer firewall",
            true,
        )
    };
    let services = || to(name::SERVICES, "kubernetes service portals", true);
    let external = || {
        let comment = "kubernetes externally-visible service portals";
        to(name::EXTERNAL_SERVICES, comment, true)
    };
    let guard = || {
        to(
            name::CLUSTER_IPS,
            "sluice: cluster IPs that nobody answers",
            true,
        )
    };
    match (table, name) {
        (Table::Filter, name::INPUT) => {
            let comment = "kubernetes health check service ports";
            vec![firewall(), to(name::NODE_PORTS, comment, false), external()]
        }
        (Table::Filter, name::FORWARD) => vec![
            firewall(),
            to(name::FORWARD_RULES, "kubernetes forwarding rules", false),
            services(),
            external(),
            guard(),
        ],
        // The node asks for its own load balancers' addresses, too.
        (Table::Filter, _) => vec![firewall(), services(), external(), guard()],
        (_, name::POSTROUTING) => {
            let comment = "kubernetes postrouting rules";
            vec![to(name::POSTROUTING_RULES, comment, false)]
        }
        _ => vec![to(name::SERVICES, "kubernetes service portals", false)],
    }
}

/// Loopback addresses of a family.
pub(crate) fn loopback(family: IpFamily) -> IpNet {
    match family {
        IpFamily::V4 => IpNet::new(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
        IpFamily::V6 => IpNet::new(Ipv6Addr::LOCALHOST.into(), 128),
    }
    .expect("the constants are prefixes")
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

/// Against CVE-2020-8558: with `route_localnet` a neighbour could reach what listens on loopback.
/// The kubelet writes the same rule.
pub(crate) fn martian_guard() -> Rule {
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

/// The rule and what leads there. Always there, because the sysctl outlives the process that set it.
pub(crate) fn loopback_guard() -> Vec<(Key, Object)> {
    let place = |name| Place {
        family: IpFamily::V4,
        table: Table::Filter,
        chain: chain(name),
    };
    let rule = |name, rule| (Key::Rule(place(name), Arc::new(rule)), Object::Present);
    vec![
        (Key::Common(place(name::FIREWALL)), Object::Present),
        rule(name::FIREWALL, martian_guard()),
        rule(name::INPUT, to_firewall()),
        rule(name::OUTPUT, to_firewall()),
    ]
}

/// What there is in mangle.
pub(crate) fn mangle(family: IpFamily) -> Vec<(Key, Object)> {
    let place = Place {
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
            objects.extend(loopback_guard());
        }
        objects.push(self.whole(Filter, name::FORWARD_RULES, self.forwarding(conntrack)));
        objects.extend(self.unallocated());
        objects.push(self.whole(Filter, name::CANARY, Vec::new()));
        objects.extend([name::SERVICES, name::NODE_PORTS].map(|it| self.common(Nat, it)));
        objects.push(self.whole(Nat, name::POSTROUTING_RULES, self.masquerading()));
        objects.push(self.whole(Nat, name::MARK_MASQ, self.marking()));
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

    fn place(&self, table: Table, name: &'static str) -> Place {
        Place {
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
        let mark = self.node.masquerade_mark;
        let mut rules = Vec::new();
        if conntrack == Conntrack::Strict {
            let mut invalid = vec![Match::State(Sense::Is, States::INVALID)];
            if self.accounting == Accounting::On {
                invalid.push(accounts::count_invalid());
            }
            rules.push(Rule::when(invalid, Target::Drop));
        }
        let marked = Match::Mark {
            sense: Sense::Is,
            value: mark,
            mask: mark,
        };
        let comment = Match::comment("kubernetes forwarding rules");
        rules.push(Rule::when([comment, marked], Target::Accept));
        let comment = Match::comment("kubernetes forwarding conntrack rule");
        let known = Match::State(Sense::Is, States::RELATED.or(States::ESTABLISHED));
        rules.push(Rule::when([comment, known], Target::Accept));
        rules
    }

    fn masquerading(&self) -> Vec<Rule> {
        let mark = self.node.masquerade_mark;
        let unmarked = Match::Mark {
            sense: Sense::Not,
            value: mark,
            mask: mark,
        };
        // A packet that passes here twice must not be masqueraded again.
        let unmark = Target::Mark {
            clear: 0,
            flip: mark,
        };
        let comment = Match::comment("kubernetes service traffic requiring SNAT");
        let masquerade = Target::Masquerade { random_fully: true };
        vec![
            Rule::when([unmarked], Target::Return),
            Rule::always(unmark),
            Rule::when([comment], masquerade),
        ]
    }

    fn marking(&self) -> Vec<Rule> {
        let mark = self.node.masquerade_mark;
        vec![Rule::always(Target::Mark {
            clear: mark,
            flip: mark,
        })]
    }

    fn node_ports(&self) -> Option<(Key, Object)> {
        let comment =
            "kubernetes service nodeports; NOTE: this must be the last rule in this chain";
        let rule = |to: Vec<Match>| {
            let matches: Vec<Match> = [Match::comment(comment)].into_iter().chain(to).collect();
            Rule::when(matches, Target::Jump(chain(name::NODE_PORTS)))
        };
        self.tail(
            Table::Nat,
            name::SERVICES,
            node_port_destinations(self.family, self.plan)
                .into_iter()
                .map(rule),
        )
    }

    fn unallocated(&self) -> Option<(Key, Object)> {
        let rule = |net: &IpNet| {
            let comment = Match::comment("sluice: no Service has this cluster IP");
            let to = Match::Destination(Sense::Is, *net);
            Rule::when([comment, to], Target::Drop)
        };
        let nets = self.plan.service_cidrs.iter().map(rule);
        self.tail(Table::Filter, name::CLUSTER_IPS, nets)
    }

    fn tail(
        &self,
        table: Table,
        name: &'static str,
        rules: impl Iterator<Item = Rule>,
    ) -> Option<(Key, Object)> {
        let rules: Vec<Rule> = rules.collect();
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
