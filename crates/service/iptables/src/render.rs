//! One service port: the chains of kube-proxy's `writeIptablesRules`, and the rules that lead there.
//!
//! ```text
//! KUBE-SERVICES  ─▶ KUBE-SVC-x, KUBE-SVL-x             ClusterIP
//!                ─▶ [KUBE-FW-x ─▶] KUBE-EXT-x          external addresses, source ranges
//! KUBE-NODEPORTS ─▶ KUBE-EXT-x ─▶ KUBE-SVC-x, KUBE-SVL-x ─▶ KUBE-SEP-y ─▶ DNAT
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::{IpFamily, Protocol};
use sluice_plan::{
    ClusterIpMasquerade, FamilyPlan, Frontend, PlannedFrontend, Pool, PoolEndpoint, PortPlan, Role,
    Route, Scope, Verdict,
};
use sluice_plane::rules::{from_pods, loopback};
use sluice_plane::{Scale, Scene};
use sluice_xtables::rule::{ChainName, Match, Rule, Sense, Table, Target};

use crate::accounts::{self, Accounting};
use crate::layout::node_port_destinations;
use crate::name::{self, PortChains, chain};
use crate::object::{ChainId, Key, Object};

/// The objects of one service port. Pure.
pub fn port(scene: &Scene, port: &PortPlan, accounting: Accounting) -> Vec<(Key, Object)> {
    let mut render = Render {
        plan: scene.node.family(port.key.family),
        scale: scene.scale,
        accounting,
        port,
        label: port.key.name.to_string(),
        chains: PortChains::of(&port.key.name),
        objects: Vec::new(),
    };
    let mut frontends: Vec<&PlannedFrontend> = port.frontends.iter().collect();
    // kube-proxy's order of roles. The sort keeps that of the addresses.
    frontends.sort_by_key(|it| match it.role {
        Role::ClusterIp => 0,
        Role::NodeDns => 1,
        Role::ExternalIp => 2,
        Role::LoadBalancer => 3,
        Role::NodePort => 4,
    });
    for frontend in &frontends {
        render.frontend(frontend);
    }
    render.health_check();
    render.undefined_ports();
    render.external(&frontends);
    render.source_ranges(&frontends);
    render.pools(&frontends);
    render.objects
}

struct Render<'a> {
    plan: &'a FamilyPlan,
    scale: Scale,
    accounting: Accounting,
    port: &'a PortPlan,
    /// `namespace/name:port`: the comment of everything that belongs to the port.
    label: String,
    chains: PortChains,
    objects: Vec<(Key, Object)>,
}

impl Render<'_> {
    fn frontend(&mut self, planned: &PlannedFrontend) {
        let (to, otherwise) = self.verdict(planned);
        let services = match planned.route {
            Route::Internal(_) => name::SERVICES,
            Route::External(_) | Route::ExternalLocal { .. } => name::EXTERNAL_SERVICES,
        };
        let refused = match otherwise {
            Some(Verdict::Reject) => Some(("has no endpoints", Target::Reject)),
            Some(Verdict::Drop) => Some(("has no local endpoints", Target::Drop)),
            Some(Verdict::Balance(_)) | None => None,
        };
        let refused = refused.map(|(reason, it)| (format!("{} {reason}", self.label), it));
        match planned.frontend {
            Frontend::Address {
                addr,
                port,
                protocol,
            } => {
                let comment = match planned.role {
                    Role::ClusterIp => "cluster IP",
                    Role::NodeDns => "node DNS",
                    Role::ExternalIp => "external IP",
                    Role::LoadBalancer | Role::NodePort => "loadbalancer IP",
                };
                let comment = format!("{} {comment}", self.label);
                if let Some(to) = to {
                    let matches = address(&comment, addr, protocol, port);
                    self.rule(Table::Nat, name::SERVICES, matches, Target::Jump(to));
                }
                if planned.allowed_sources.is_some() {
                    self.firewall(planned, addr, port);
                }
                if let Some((comment, target)) = refused {
                    let matches = address(&comment, addr, protocol, port);
                    self.rule(Table::Filter, services, matches, target);
                }
            }
            Frontend::NodePort { port, protocol, .. } => {
                if let Some(to) = to {
                    self.count_localhost(protocol, port, &to);
                    let matches = to_port(Match::comment(&self.label), protocol, port);
                    self.rule(Table::Nat, name::NODE_PORTS, matches, Target::Jump(to));
                }
                if let Some((comment, target)) = refused {
                    for to in node_port_destinations(self.family(), self.plan) {
                        let mut matches = vec![Match::comment(&comment)];
                        matches.extend(to);
                        matches.push(Match::Protocol(protocol));
                        matches.push(Match::DestinationPort(port));
                        self.rule(Table::Filter, services, matches, target.clone());
                    }
                }
            }
        }
    }

    /// A rule before that of a NodePort, which jumps to the same chain.
    fn count_localhost(&mut self, protocol: Protocol, port: u16, to: &ChainName) {
        if self.accounting == Accounting::On && self.plan.node_ports_on_loopback {
            let matches = vec![
                Match::comment(&self.label),
                Match::Protocol(protocol),
                Match::Destination(Sense::Is, loopback(self.family())),
                Match::DestinationPort(port),
                accounts::count_localhost(),
            ];
            let target = Target::Jump(*to);
            self.rule(Table::Nat, name::NODE_PORTS, matches, target);
        }
    }

    /// The chain of nat to which packets to a frontend jump, and the verdict on packets that do not.
    fn verdict(&self, planned: &PlannedFrontend) -> (Option<ChainName>, Option<Verdict>) {
        let external = match planned.allowed_sources {
            Some(_) => self.chains.firewall(),
            None => self.chains.external(),
        };
        match planned.route {
            Route::Internal(Verdict::Balance(scope)) => (Some(self.policy(scope)), None),
            Route::External(Verdict::Balance(_))
            | Route::ExternalLocal {
                far: Verdict::Balance(_),
            } => (Some(external), None),
            Route::ExternalLocal { far } => (Some(external), Some(far)),
            Route::Internal(verdict) | Route::External(verdict) => (None, Some(verdict)),
        }
    }

    /// Packets to an address with source ranges that KUBE-FW-x does not admit are not translated and come
    /// to filter. Without endpoints, admitted packets come to filter, too, where another KUBE-FW-x
    /// separates them.
    fn firewall(&mut self, planned: &PlannedFrontend, addr: IpAddr, port: u16) {
        let firewall = self.chains.firewall();
        let comment = format!("{} traffic not accepted by {firewall}", self.label);
        let target = if is_refused(planned) {
            Target::Jump(firewall)
        } else {
            Target::Drop
        };
        let matches = address(&comment, addr, planned.frontend.protocol(), port);
        self.rule(Table::Filter, name::PROXY_FIREWALL, matches, target);
    }

    fn health_check(&mut self) {
        if let Some(port) = self.port.health_check_node_port {
            let comment = format!("{} health check node port", self.label);
            let matches = to_port(Match::comment(&comment), Protocol::Tcp, port);
            self.rule(Table::Filter, name::NODE_PORTS, matches, Target::Accept);
        }
    }

    /// Rejects packets to ports that a ClusterIP does not have: packets to other ports are translated or
    /// refused before they come to this chain.
    fn undefined_ports(&mut self) {
        let Some(addr) = self.port.owned_cluster_ip else {
            return;
        };
        let prefix = prefix_of(addr);
        let of_prefix = name::of_prefix(prefix);
        let place = self.place(Table::Filter, of_prefix);
        self.objects.push((Key::Common(place), Object::Present));
        let comment = format!("{} has no such port", self.port.key.name.service);
        let to = Match::Destination(Sense::Is, addr.into());
        let refuse = Rule::when([Match::comment(&comment), to], Target::Reject);
        self.objects
            .push((Key::Rule(place, Arc::new(refuse)), Object::Present));
        let to = Match::Destination(Sense::Is, prefix);
        self.rule(
            Table::Filter,
            name::CLUSTER_IPS,
            vec![to],
            Target::Jump(of_prefix),
        );
    }

    /// KUBE-EXT-x: which clients are masqueraded, and which stay on this node.
    fn external(&mut self, frontends: &[&PlannedFrontend]) {
        let external = |it: &&&PlannedFrontend| !matches!(it.route, Route::Internal(_));
        // All of them have the Service's one external policy.
        let Some(planned) = frontends.iter().find(external) else {
            return;
        };
        let masquerade = Target::Jump(chain(name::MARK_MASQ));
        let comment = |what: &str| {
            let comment = format!("{what} traffic for {} external destinations", self.label);
            Match::comment(&comment)
        };
        let cluster = || Target::Jump(self.chains.cluster());
        let mut rules = Vec::new();
        let scope = match planned.route {
            Route::External(Verdict::Balance(scope)) => {
                rules.push(Rule::when([comment("masquerade")], masquerade));
                Some(scope)
            }
            Route::ExternalLocal { far } => {
                if let Some(pods) = &self.plan.local_traffic {
                    let matches = [comment("pod"), from_pods(pods, Sense::Is)];
                    rules.push(Rule::when(matches, cluster()));
                }
                let node = || Match::SourceIsLocal(Sense::Is);
                let matches = [comment("masquerade LOCAL"), node()];
                rules.push(Rule::when(matches, masquerade));
                rules.push(Rule::when([comment("route LOCAL"), node()], cluster()));
                match far {
                    Verdict::Balance(scope) => Some(scope),
                    Verdict::Drop | Verdict::Reject => None,
                }
            }
            Route::Internal(_) | Route::External(_) => return,
        };
        if let Some(scope) = scope {
            rules.push(Rule::always(Target::Jump(self.policy(scope))));
        }
        self.chain(Table::Nat, self.chains.external(), rules);
    }

    /// KUBE-FW-x: in nat it jumps to KUBE-EXT-x for admitted clients; in filter, without endpoints, it drops
    /// other clients, before admitted ones are refused.
    fn source_ranges(&mut self, frontends: &[&PlannedFrontend]) {
        // A port's restricted addresses all have the Service's one list.
        let restricted = frontends.iter().find_map(|it| {
            let allowed = it.allowed_sources.as_ref()?;
            Some((is_refused(it), allowed))
        });
        let Some((refused, allowed)) = restricted else {
            return;
        };
        let (table, target) = if refused {
            (Table::Filter, Target::Return)
        } else {
            (Table::Nat, Target::Jump(self.chains.external()))
        };
        let comment = Match::comment(&format!("{} loadbalancer IP", self.label));
        let allow = |net: &IpNet| {
            let from = Match::Source(Sense::Is, *net);
            Rule::when([comment.clone(), from], target.clone())
        };
        let mut rules: Vec<Rule> = allowed.iter().map(allow).collect();
        let label = &self.label;
        let comment = Match::comment(&format!(
            "other traffic to {label} will be dropped by {}",
            name::PROXY_FIREWALL
        ));
        rules.push(if refused {
            Rule::when([comment], Target::Drop)
        } else {
            Rule::count([comment])
        });
        self.chain(table, self.chains.firewall(), rules);
    }

    /// KUBE-SVC-x, KUBE-SVL-x, and KUBE-SEP-y of all their endpoints.
    fn pools(&mut self, frontends: &[&PlannedFrontend]) {
        for scope in [Scope::Cluster, Scope::Local] {
            let Some(pool) = self.port.pool(scope) else {
                continue;
            };
            let internal = frontends.iter().filter(
                |it| matches!(it.route, Route::Internal(Verdict::Balance(to)) if to == scope),
            );
            let masquerade = internal.filter_map(|it| self.masquerade_cluster_ip(&it.frontend));
            let mut rules: Vec<Rule> = masquerade.collect();
            rules.extend(self.balance(pool));
            self.chain(Table::Nat, self.policy(scope), rules);
        }
        for endpoint in in_order(self.port.reachable().into_iter()) {
            self.endpoint(endpoint);
        }
    }

    fn masquerade_cluster_ip(&self, frontend: &Frontend) -> Option<Rule> {
        let Frontend::Address {
            addr,
            port,
            protocol,
        } = *frontend
        else {
            return None;
        };
        let mut matches = address(&format!("{} cluster IP", self.label), addr, protocol, port);
        match (self.plan.cluster_ip_masquerade, &self.plan.local_traffic) {
            (ClusterIpMasquerade::Everybody, _) => {}
            (ClusterIpMasquerade::NotLocalPods, Some(pods)) => {
                matches.push(from_pods(pods, Sense::Not));
            }
            (ClusterIpMasquerade::NotLocalPods, None) | (ClusterIpMasquerade::Nobody, _) => {
                return None;
            }
        }
        Some(Rule::when(matches, Target::Jump(chain(name::MARK_MASQ))))
    }

    /// First the rules of affinity, then an endpoint by chance.
    fn balance(&self, pool: &Pool) -> Vec<Rule> {
        let endpoints = in_order(pool.endpoints().iter());
        let comment =
            |it: &PoolEndpoint| self.for_endpoint(&format!("{} -> {}", self.label, it.addr));
        let mut rules = Vec::with_capacity(endpoints.len());
        if let Some(seconds) = self.port.affinity_seconds {
            rules.extend(endpoints.iter().map(|it| {
                let endpoint = self.chains.endpoint(it.addr);
                let list = endpoint.as_str().into();
                let seen = Match::SeenWithin { list, seconds };
                let mut matches = comment(it);
                matches.push(seen);
                Rule::when(matches, Target::Jump(endpoint))
            }));
        }
        let left = (1..=endpoints.len()).rev();
        rules.extend(endpoints.iter().zip(left).map(|(it, left)| {
            let mut matches = comment(it);
            if left > 1 {
                let left = u32::try_from(left).unwrap_or(u32::MAX);
                matches.push(Match::one_in(left));
            }
            Rule::when(matches, Target::Jump(self.chains.endpoint(it.addr)))
        }));
        rules
    }

    /// The first conditions of a rule about one endpoint: a comment in a small plan.
    fn for_endpoint(&self, comment: &str) -> Vec<Match> {
        match self.scale {
            Scale::Small => vec![Match::comment(comment)],
            Scale::Large => Vec::new(),
        }
    }

    fn endpoint(&mut self, endpoint: &PoolEndpoint) {
        let name = self.chains.endpoint(endpoint.addr);
        let mut hairpin = self.for_endpoint(&self.label);
        let mut matches = hairpin.clone();
        // An endpoint that dials itself: without masquerading the answer would not come through this node.
        hairpin.push(Match::Source(Sense::Is, endpoint.addr.ip().into()));
        let masquerade = Target::Jump(chain(name::MARK_MASQ));
        let hairpin = Rule::when(hairpin, masquerade);
        if self.port.affinity_seconds.is_some() {
            let list = name.as_str().into();
            matches.push(Match::Remember { list });
        }
        matches.push(Match::Protocol(self.port.key.name.protocol));
        let translate = Rule::when(matches, Target::Dnat(endpoint.addr));
        self.chain(Table::Nat, name, vec![hairpin, translate]);
    }

    fn policy(&self, scope: Scope) -> ChainName {
        match scope {
            Scope::Cluster => self.chains.cluster(),
            Scope::Local => self.chains.local(),
        }
    }

    fn family(&self) -> IpFamily {
        self.port.key.family
    }

    fn place(&self, table: Table, chain: ChainName) -> ChainId {
        ChainId {
            family: self.family(),
            table,
            chain,
        }
    }

    fn chain(&mut self, table: Table, chain: ChainName, rules: Vec<Rule>) {
        let key = Key::Chain(self.place(table, chain));
        self.objects.push((key, Object::Rules(rules.into())));
    }

    fn rule(&mut self, table: Table, to: &'static str, matches: Vec<Match>, target: Target) {
        let rule = Rule::when(matches, target);
        let key = Key::Rule(self.place(table, chain(to)), Arc::new(rule));
        self.objects.push((key, Object::Present));
    }
}

/// Whether no client is served.
fn is_refused(planned: &PlannedFrontend) -> bool {
    planned.route == Route::External(Verdict::Reject)
}

fn to_port(comment: Match, protocol: Protocol, port: u16) -> Vec<Match> {
    vec![
        comment,
        Match::Protocol(protocol),
        Match::DestinationPort(port),
    ]
}

fn address(comment: &str, addr: IpAddr, protocol: Protocol, port: u16) -> Vec<Match> {
    vec![
        Match::comment(comment),
        Match::Protocol(protocol),
        Match::Destination(Sense::Is, addr.into()),
        Match::DestinationPort(port),
    ]
}

/// kube-proxy sorts endpoints by their text.
fn in_order<'a>(endpoints: impl Iterator<Item = &'a PoolEndpoint>) -> Vec<&'a PoolEndpoint> {
    let mut endpoints: Vec<&PoolEndpoint> = endpoints.collect();
    endpoints.sort_by_cached_key(|it| it.addr.to_string());
    endpoints
}

/// ClusterIPs of one prefix share a chain, so that packets to other addresses pass them in one rule.
fn prefix_of(addr: IpAddr) -> IpNet {
    let length = match addr {
        IpAddr::V4(_) => 16,
        IpAddr::V6(_) => 112,
    };
    IpNet::new(addr, length)
        .expect("both lengths are within their family's")
        .trunc()
}
