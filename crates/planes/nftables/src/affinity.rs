//! Session affinity: clients that stay with their endpoint.
//!
//! Few Services use it, so it may cost a set and a chain per endpoint, as in kube-proxy: a rule
//! that asks each set in turn can be listed by every nft, one shared map of clients cannot.

use std::sync::Arc;

use sluice_plan::{Frontend, PoolEndpoint, PortPlan, Route, Scope, Verdict};

use crate::name::{
    AffinityChain, CLUSTER_IP_CLIENTS, ChainName, MARK_FOR_MASQUERADE, NEAR_CLIENTS,
    NEAR_NODE_PORT_CLIENTS, Standing, sticky,
};
use crate::object::{Chain, Key, Object, Rules};
use crate::rule::{Action, Fields, Match, Rule, Sense, SetRef};
use crate::text::shared_comment;

/// The chains and sets of a service port with session affinity.
pub(crate) fn render(port: &PortPlan, objects: &mut Vec<(Key, Object)>) {
    let Some(timeout_seconds) = port.affinity_seconds else {
        return;
    };
    let name = &port.key.name;
    let family = port.key.family;
    let label = name.to_string();
    let mut chain = |chain: ChainName, comment: String, rules: Vec<Rule>| {
        let rules = Rules::Ours(family, rules.into());
        let body = Chain {
            hook: None,
            comment: shared_comment(&comment.into()),
            rules,
        };
        objects.push((Key::Chain(family, chain), Object::Chain(body)));
    };
    for entry in entries(port) {
        let rules = vec![
            Rule::always(Action::Jump(ChainName::Standing(entry.first))),
            Rule::always(Action::Goto(entry.choice.of(name))),
        ];
        chain(entry.chain.of(name), label.clone(), rules);
    }
    for (scope, choice) in [
        (Scope::Cluster, AffinityChain::Cluster),
        (Scope::Local, AffinityChain::Local),
    ] {
        if let Some(pool) = port.pool(scope) {
            chain(
                choice.of(name),
                label.clone(),
                choose(port, pool.endpoints()),
            );
        }
    }
    let endpoints = port.reachable();
    for endpoint in &endpoints {
        let clients = sticky(name, endpoint.addr);
        let rules = vec![
            Rule::always(Action::Remember(clients.clone(), timeout_seconds)),
            Rule::when(
                Match::Protocol(name.protocol),
                Action::DestinationTo(endpoint.addr),
            ),
        ];
        chain(ChainName::Named(clients), comment(&label, endpoint), rules);
    }
    for endpoint in endpoints {
        let key = Key::NamedSet(family, sticky(name, endpoint.addr));
        let comment = shared_comment(&label.as_str().into());
        objects.push((key, Object::Sticky(comment)));
    }
}

fn comment(label: &str, endpoint: &PoolEndpoint) -> String {
    match &endpoint.target {
        Some(target) => format!("{label} {target}"),
        None => label.to_owned(),
    }
}

/// A chain that frontends lead to: does what is due to their clients, then chooses.
struct Entry {
    chain: AffinityChain,
    first: Standing,
    choice: AffinityChain,
}

fn entries(port: &PortPlan) -> Vec<Entry> {
    let choice = |scope| match scope {
        Scope::Cluster => AffinityChain::Cluster,
        Scope::Local => AffinityChain::Local,
    };
    let mut entries: Vec<Entry> = Vec::new();
    for planned in &port.frontends {
        let is_node_port = matches!(planned.frontend, Frontend::NodePort { .. });
        let (chain, first, verdict) = match planned.route {
            Route::Internal(verdict) => (AffinityChain::ClusterIp, CLUSTER_IP_CLIENTS, verdict),
            Route::External(verdict) => (AffinityChain::External, MARK_FOR_MASQUERADE, verdict),
            Route::ExternalLocal { far } if is_node_port => {
                (AffinityChain::OutsideNodePort, NEAR_NODE_PORT_CLIENTS, far)
            }
            Route::ExternalLocal { far } => (AffinityChain::Outside, NEAR_CLIENTS, far),
        };
        let Verdict::Balance(scope) = verdict else {
            continue;
        };
        if !entries.iter().any(|it| it.chain == chain) {
            entries.push(Entry {
                chain,
                first,
                choice: choice(scope),
            });
        }
    }
    entries
}

/// Known clients first, in the order of endpoints; then one at random.
fn choose(port: &PortPlan, endpoints: &[PoolEndpoint]) -> Vec<Rule> {
    let chain = |it: &PoolEndpoint| -> Arc<str> { sticky(&port.key.name, it.addr) };
    let known = endpoints.iter().map(|it| {
        let clients = chain(it);
        let condition = Match::In(Sense::Is, Fields::Source, SetRef::Sticky(clients.clone()));
        Rule::when(condition, Action::Goto(ChainName::Named(clients)))
    });
    let random = endpoints.iter().enumerate().map(|(index, it)| {
        let remaining = u32::try_from(endpoints.len() - index).expect("slices are bounded");
        let goto = Action::Goto(ChainName::Named(chain(it)));
        match remaining {
            1 => Rule::always(goto),
            _ => Rule::when(Match::OneIn(remaining), goto),
        }
    });
    known.chain(random).collect()
}
