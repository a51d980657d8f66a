//! One server block: its plugins, in order.

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};
use sluice_corefile::{LogRule, Plugins, ServerBlock};
use sluice_upstream::{Question as Asked, SetupError};
use sluice_zone::NoForwardZone;

use super::upstream::Upstream;
use super::{Common, Engine, finish};
use crate::metrics::Plugin;
use crate::plugins::access::{self, Access};
use crate::plugins::autopath::{self, Autopath, Step};
use crate::plugins::errors::Errors;
use crate::plugins::hosts::{Found, Hosts};
use crate::plugins::kubernetes::{Known, Kubernetes};
use crate::plugins::template::{self, Templated};
use crate::plugins::{loadbalance, rewrite, small};
use crate::request::{Client, Reply, Request, renamed};

/// Aliases that are followed one after the other, as in CoreDNS.
const MOST_ALIASES: u8 = 8;

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
    plugins: Plugins,
    /// First zone and address, in metrics of plugins.
    label: (String, String),
    hosts: Option<Arc<Hosts>>,
    kubernetes: Option<Kubernetes>,
    autopath: Option<Autopath>,
    errors: Option<Errors>,
    upstream: Arc<Upstream>,
}

/// How a question came to a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    client: Client,
    /// Aliases passed so far.
    aliases: u8,
    /// Whether the search path is followed already.
    is_step: bool,
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
        let zone = block
            .keys
            .first()
            .map_or_else(Name::root, |it| it.zone.clone());
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

    pub(super) fn payload(&self) -> Option<u16> {
        self.plugins.bufsize
    }

    pub(super) fn is_balanced(&self) -> bool {
        self.plugins.loadbalance.is_some()
    }

    pub(super) fn log(&self) -> &[LogRule] {
        &self.plugins.log
    }

    pub(super) fn errors(&self) -> Option<&Errors> {
        self.errors.as_ref()
    }

    /// The server's identity, if it is told to clients.
    pub(super) fn nsid(&self, host: &str) -> Option<EdnsOption> {
        let text = self.plugins.nsid.as_deref()?;
        finish::nsid(if text.is_empty() { host } else { text })
    }

    pub(crate) fn hosts(&self) -> Option<&Arc<Hosts>> {
        self.hosts.as_ref()
    }

    pub(crate) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// What becomes of a client's query. `None`: no response.
    pub(super) async fn answer(&self, engine: &Engine, request: &Request) -> Option<Reply> {
        let (asked, client) = (&request.query.asked, request.client);
        match access::decide(&self.plugins.acl, &asked.query, client.address.ip()) {
            Access::Allowed => {}
            Access::Answered(reply) => return Some(*reply),
            Access::Dropped => return None,
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
                    return reply;
                }
            }
        }
        first
    }

    /// The plugins that know answers.
    async fn resolved(&self, engine: &Engine, asked: &Asked, way: Way) -> Reply {
        if let Some(reply) = self.templated(engine, asked, way).await {
            return reply;
        }
        if asked.query.query_class != DNSClass::IN {
            return Reply::empty(ResponseCode::Refused, Plugin::None);
        }
        match self.hosts.as_ref().map(|it| it.answer(asked)) {
            None | Some(Found::Passed) => {}
            Some(Found::Answered(reply)) => return *reply,
            Some(Found::Unknown) => {
                // NXDOMAIN needs an SOA record, which a hosts file does not have.
                return Reply::empty(ResponseCode::ServFail, Plugin::Hosts);
            }
        }
        let objects = &engine.common.objects;
        match self.kubernetes.as_ref().map(|it| it.answer(objects, asked)) {
            None | Some(Known::Passed) => {}
            Some(Known::Answered(reply)) => return *reply,
            Some(Known::Alias {
                reply,
                target,
                without,
            }) => {
                let target = self.target(engine, asked, target, way).await;
                return joined(*reply, target, *without);
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

    /// What is known of the target of an alias.
    async fn target(&self, engine: &Engine, asked: &Asked, target: Name, way: Way) -> Reply {
        if way.aliases >= MOST_ALIASES {
            let error = format!("more than {MOST_ALIASES} aliases");
            return Reply::failure(error, Plugin::Kubernetes);
        }
        let way = Way {
            aliases: way.aliases + 1,
            is_step: true,
            ..way
        };
        engine.follow(&renamed(asked, target), way).await
    }

    async fn templated(&self, engine: &Engine, asked: &Asked, way: Way) -> Option<Reply> {
        let client = way.client.address.ip();
        let metrics = &engine.common.metrics;
        let (server, zone) = (&*self.label.0, &*self.label.1);
        let labels = |number: usize| {
            let template = &self.plugins.template[number];
            (template.class.to_string(), template.record_type.to_string())
        };
        match template::answer(&self.plugins.template, asked, client) {
            Templated::Passed => None,
            Templated::Unmatched => Some(Reply::failure(
                "no pattern of the template matches",
                Plugin::Template,
            )),
            Templated::Answered { template, reply } => {
                let (class, kind) = labels(template);
                let labels = [server, zone, "", &*class, &*kind];
                metrics.template_matches.with_label_values(&labels).inc();
                Some(self.followed(engine, asked, *reply, way).await)
            }
            Templated::Broken {
                template,
                section,
                error,
            } => {
                let (class, kind) = labels(template);
                let number = template.to_string();
                let labels = [server, zone, "", &*class, &*kind, section, &*number];
                metrics.template_failures.with_label_values(&labels).inc();
                Some(Reply::failure(error, Plugin::Template))
            }
        }
    }

    /// Adds what is known of the target when a template answers with a CNAME.
    async fn followed(&self, engine: &Engine, asked: &Asked, mut reply: Reply, way: Way) -> Reply {
        let kind = asked.query.query_type;
        if [RecordType::CNAME, RecordType::ANY].contains(&kind) {
            return reply;
        }
        let target = match reply.message.answers.last().map(|it| &it.data) {
            Some(RData::CNAME(it)) => it.0.clone(),
            _ => return reply,
        };
        let target = self.target(engine, asked, target, way).await;
        reply.message.answers.extend(target.message.answers);
        reply
    }
}

/// An alias with the records of its target.
fn joined(mut alias: Reply, target: Reply, without: Reply) -> Reply {
    match target.code() {
        _ if target.plugin == Plugin::None => return without,
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        // Not the alias alone: a client would take it for a name without addresses.
        _ => {
            return Reply {
                error: target.error,
                ..Reply::empty(ResponseCode::ServFail, target.plugin)
            };
        }
    }
    alias.message.metadata.truncation |= target.message.truncation;
    alias.message.answers.extend(target.message.answers);
    alias.revision = alias.revision.filter(|it| target.revision == Some(*it));
    alias
}
