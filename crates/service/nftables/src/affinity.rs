//! Session affinity: clients that stay with their endpoint.
//!
//! ```text
//! affinity-cluster-ip/default/web/tcp/http      how frontends come in
//!   jump cluster-ip-clients
//!   goto affinity/default/web/tcp/http
//! affinity/default/web/tcp/http
//!   client . 0 @sticky/…  update, dnat to 10.244.1.7:8080      clients that are known
//!   client . 1 @sticky/…  update, dnat to 10.244.2.9:8080
//!   one in 2              update, dnat to 10.244.1.7:8080      everyone else
//!                         update, dnat to 10.244.2.9:8080
//! ```
//!
//! Each endpoint of a service port has a label, which no later endpoint gets: clients of one that
//! left are never taken for clients of another. The port has one set of clients and labels, which
//! nobody else's clients can fill. One map of all clients would be cheaper, but nft aborts when it
//! lists a lookup of a lookup.
//!
//! The rules of a large pool are in blocks, so that a replaced endpoint does not rewrite them all.

use std::sync::Arc;

use sluice_plan::{Frontend, Pool, PortPlan, Route, Scope, Verdict};

use crate::block::{Block, Members, Part, share};
use crate::labels::{Labels, block_count};
use crate::name::{
    AffinityChain, CLUSTER_IP_CLIENTS, ChainName, MARK_FOR_MASQUERADE, NEAR_CLIENTS,
    NEAR_NODE_PORT_CLIENTS, Standing, sticky,
};
use crate::object::{Chain, Key, Object, Rules, shared_comment};
use crate::placement::Placement;
use crate::rule::{Action, Rule};

/// The chains and the set of a service port with session affinity.
pub(crate) fn render(port: &PortPlan, placement: &Placement, objects: &mut Vec<(Key, Object)>) {
    let Some(timeout_seconds) = port.affinity_seconds else {
        return;
    };
    let mut out = Render {
        port,
        labels: placement.labels(),
        clients: sticky(&port.key.name),
        timeout_seconds,
        comment: shared_comment(&port.key.name.to_string().into()),
        objects,
    };
    let name = &port.key.name;
    for entry in entries(port) {
        let rules = out.ours([
            Rule::always(Action::Jump(ChainName::Standing(entry.first))),
            Rule::always(Action::Goto(entry.choice.of(name))),
        ]);
        out.chain(entry.chain.of(name), rules);
    }
    for (scope, choice) in [
        (Scope::Cluster, AffinityChain::Cluster),
        (Scope::Local, AffinityChain::Local),
    ] {
        if let Some(pool) = port.pool(scope) {
            out.choice(choice, pool);
        }
    }
    let set = Key::NamedSet(port.key.family, out.clients.clone());
    let sticky = Object::Sticky(out.comment.clone());
    out.objects.push((set, sticky));
}

/// A chain that frontends jump to: it applies the rules for their clients, then chooses an endpoint.
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

struct Render<'a> {
    port: &'a PortPlan,
    labels: &'a Labels,
    /// The set of the port's clients.
    clients: Arc<str>,
    timeout_seconds: u32,
    comment: Arc<str>,
    objects: &'a mut Vec<(Key, Object)>,
}

impl Render<'_> {
    fn chain(&mut self, name: ChainName, rules: Rules) {
        let chain = Chain {
            hook: None,
            comment: self.comment.clone(),
            rules,
        };
        let key = Key::Chain(self.port.key.family, name);
        self.objects.push((key, Object::Chain(chain)));
    }

    fn ours(&self, rules: impl IntoIterator<Item = Rule>) -> Rules {
        Rules::Ours(self.port.key.family, rules.into_iter().collect())
    }

    fn block(&self, part: Part, members: &Members) -> Block {
        Block {
            part,
            protocol: self.port.key.name.protocol,
            clients: self.clients.clone(),
            timeout_seconds: self.timeout_seconds,
            members: members.clone(),
        }
    }

    /// Sends known clients to their endpoint, all others to a random one, each as likely as any other.
    fn choice(&mut self, choice: AffinityChain, pool: &Pool) {
        let port = self.port;
        let (name, family) = (&port.key.name, port.key.family);
        let blocks = self.blocks(pool);
        if let [(_, members)] = &blocks[..] {
            let [known, random] = Part::ALL.map(|it| self.block(it, members).rules());
            let rules = self.ours(known.into_iter().chain(random));
            return self.chain(choice.of(name), rules);
        }
        let known = blocks.iter();
        let known = known.map(|(it, _)| Rule::always(Action::Jump(choice.known(name, *it))));
        let mut remaining = pool.endpoints().len();
        let random = blocks.iter().map(|(it, members)| {
            let of = remaining;
            remaining -= members.len();
            share(members.len(), of, Action::Goto(choice.random(name, *it)))
        });
        let rules = self.ours(known.chain(random));
        self.chain(choice.of(name), rules);
        for (index, members) in &blocks {
            for part in Part::ALL {
                let block = Rules::Block(family, self.block(part, members));
                let chain = match part {
                    Part::Known => choice.known(name, *index),
                    Part::Random => choice.random(name, *index),
                };
                self.chain(chain, block);
            }
        }
    }

    /// The endpoints of a pool, in blocks that have any.
    fn blocks(&self, pool: &Pool) -> Vec<(usize, Members)> {
        let count = block_count(pool.endpoints().len());
        let mut blocks = vec![Vec::new(); count];
        for endpoint in pool.endpoints() {
            let label = self.labels.get(endpoint.addr);
            blocks[label as usize % count].push((label, endpoint.addr));
        }
        let blocks = blocks.into_iter().enumerate();
        let used = blocks.filter(|(_, members)| !members.is_empty());
        used.map(|(index, mut members)| {
            members.sort_unstable();
            (index, members.into())
        })
        .collect()
    }
}
