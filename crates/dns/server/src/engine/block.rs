//! One server block: its plugins, in order.

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, Name};
use sluice_corefile::{AclAction, Plugins, Pods, ServerBlock};
use sluice_upstream::{Question as Asked, SetupError};
use sluice_zone::NoForwardZone;

use super::alias::joined;
use super::upstream::Upstream;
use super::{Common, Engine, finish};
use crate::metrics::Plugin;
use crate::plugins::autopath::{self, Autopath, Step};
use crate::plugins::errors::Errors;
use crate::plugins::hosts::Hosts;
use crate::plugins::kubernetes::Kubernetes;
use crate::plugins::{access, loadbalance, rewrite, small};
use crate::request::{Client, Reply, Request, renamed};

/// Why a server block cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlockError {
    #[error("kubernetes: {0}")]
    Zones(#[from] NoForwardZone),
    #[error("{0}")]
    Upstream(#[from] SetupError),
}

/// The plugins of one server block.
pub(crate) struct Block {
    pub(super) plugins: Plugins,
    /// First zone and address, in metrics of plugins.
    pub(super) label: (String, String),
    pub(crate) hosts: Option<Arc<Hosts>>,
    kubernetes: Option<Kubernetes>,
    autopath: Option<Autopath>,
    pub(super) errors: Option<Errors>,
    pub(crate) upstream: Arc<Upstream>,
}

/// How a question came to a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) client: Client,
    /// Aliases passed so far.
    pub(super) aliases: u8,
    /// Whether the search path is followed already.
    pub(super) is_step: bool,
}

impl Block {
    /// Makes the plugins. Nothing is sent.
    pub(crate) fn new(
        block: &ServerBlock,
        server: &str,
        listens: Vec<IpAddr>,
        common: &Common,
    ) -> Result<Arc<Self>, BlockError> {
        let plugins = block.plugins.clone();
        let zone = block.keys.first();
        let zone = zone.map_or_else(Name::root, |it| it.zone.clone());
        let kubernetes = plugins.kubernetes.as_ref();
        let kubernetes = kubernetes
            .map(|it| Kubernetes::new(it, listens))
            .transpose()?;
        let autopath = plugins.autopath.as_ref();
        let clients = &common.options.search_paths;
        let errors = plugins.errors.as_ref();
        Ok(Arc::new(Self {
            label: (server.to_owned(), zone.to_ascii()),
            hosts: plugins.hosts.as_ref().map(|it| Arc::new(Hosts::new(it))),
            kubernetes,
            autopath: autopath.map(|it| Autopath::new(it, clients.clone())),
            errors: errors.map(|it| Errors::new(it, common.runtime.clone())),
            upstream: Arc::new(Upstream::new(&plugins, &zone, common)?),
            plugins,
        }))
    }

    pub(super) fn verifies_pods(&self) -> bool {
        let kubernetes = self.plugins.kubernetes.as_ref();
        kubernetes.is_some_and(|it| it.pods == Pods::Verified)
    }

    /// The option NSID, if the block sends it.
    pub(super) fn nsid(&self, host: &str) -> Option<EdnsOption> {
        let text = self.plugins.nsid.as_deref()?;
        finish::nsid(if text.is_empty() { host } else { text })
    }

    /// Answers a client's query. `None`: no response.
    pub(super) async fn answer(&self, engine: &Engine, request: &Request) -> Option<Reply> {
        let (asked, client) = (&request.query.asked, request.client);
        match self.access(engine, asked, client) {
            AclAction::Allow => {}
            AclAction::Block => return Some(access::blocked()),
            AclAction::Filter => return Some(access::filtered()),
            AclAction::Drop => return None,
        }
        if let Some(reply) = self.about_server(asked, engine) {
            return Some(reply);
        }
        let way = Way {
            client,
            aliases: 0,
            is_step: false,
        };
        let mut reply = self.rewritten(engine, asked, way).await;
        if !self.plugins.acl.is_empty() {
            reply.revision = None;
        }
        if self.plugins.minimal {
            small::minimal(&mut reply.message);
        }
        if let Some(settings) = &self.plugins.loadbalance {
            loadbalance::balance(settings, &mut reply.message, request.turn);
        }
        Some(reply)
    }

    /// `acl`.
    fn access(&self, engine: &Engine, asked: &Asked, client: Client) -> AclAction {
        let rules = &self.plugins.acl;
        if rules.is_empty() {
            return AclAction::Allow;
        }
        let decided = access::decide(rules, &asked.query, client.address.ip());
        let (server, root) = (&*self.label.0, Name::root());
        let (action, zone) = decided.unwrap_or((AclAction::Allow, &root));
        engine.common.metrics.acl.count(server, action, zone);
        action
    }

    /// `any` and `chaos`.
    fn about_server(&self, asked: &Asked, engine: &Engine) -> Option<Reply> {
        let any = self.plugins.any.then(|| small::any(asked)).flatten();
        any.or_else(|| {
            let chaos = self.plugins.chaos.as_ref()?;
            let common = &engine.common;
            small::chaos(chaos, asked, &common.options.version, &common.host)
        })
    }

    /// `rewrite`, and the plugins after it.
    pub(super) async fn rewritten(&self, engine: &Engine, asked: &Asked, way: Way) -> Reply {
        match rewrite::rewrite(&self.plugins.rewrite, asked) {
            Ok(None) => self.completed(engine, asked, way).await,
            Ok(Some(rewritten)) => {
                let mut reply = self.completed(engine, &rewritten.asked, way).await;
                rewritten
                    .undo
                    .iter()
                    .for_each(|it| it.apply(&mut reply.message));
                reply
            }
            Err(error) => Reply::failure(error, Plugin::None),
        }
    }

    /// `autopath`, and the plugins after it.
    async fn completed(&self, engine: &Engine, asked: &Asked, way: Way) -> Reply {
        let mut first = self.resolved(engine, asked, way).await;
        let Some(autopath) = self.autopath.as_ref().filter(|_| !way.is_step) else {
            return first;
        };
        if autopath::step(&first.message) != Step::Missing {
            return first;
        }
        // From here on the answer depends on the client.
        first.revision = None;
        let name = &asked.query.name;
        for candidate in autopath.candidates(name, way.client.address.ip()) {
            let step = renamed(asked, candidate);
            let way = Way {
                is_step: true,
                ..way
            };
            let mut reply = engine.follow(&step, way).await;
            match autopath::step(&reply.message) {
                Step::Missing => {}
                Step::Uncertain => break,
                Step::Found => {
                    autopath::alias(&mut reply.message, name, step.query.name);
                    reply.revision = None;
                    reply.plugin = Plugin::Autopath;
                    let completed = &engine.common.metrics.completed;
                    completed.with_label_values(&[&self.label.0]).inc();
                    return reply;
                }
            }
        }
        first
    }

    /// Asks the plugins that have answers.
    async fn resolved(&self, engine: &Engine, asked: &Asked, way: Way) -> Reply {
        if let Some(reply) = self.templated(engine, asked, way).await {
            return reply;
        }
        if asked.query.query_class != DNSClass::IN {
            return Reply::empty(ResponseCode::Refused, Plugin::None);
        }
        if let Some(reply) = self.hosts.as_ref().and_then(|it| it.answer(asked)) {
            return reply;
        }
        let (objects, pods) = (&engine.common.objects, engine.pods);
        let kubernetes = self.kubernetes.as_ref();
        match kubernetes.and_then(|it| it.answer(objects, pods, asked)) {
            None => {}
            Some((reply, None)) => return reply,
            Some((reply, Some(target))) => {
                let target = self.target(engine, asked, target, way).await;
                return joined(reply, target);
            }
        }
        if let Some(reply) = self
            .upstream
            .answer(&engine.common, asked, way.client)
            .await
        {
            return reply;
        }
        if self.plugins.whoami {
            return small::whoami(asked, way.client);
        }
        Reply::failure("no plugin answers this name", Plugin::None)
    }
}
