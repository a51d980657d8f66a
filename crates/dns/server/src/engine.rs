//! The server blocks of one address.
//!
//! ```text
//! bytes ─wire::read─▶ query ─longest zone─▶ Block: acl any chaos ─▶ rewrite ─▶ autopath ─▶
//!     template ─▶ hosts ─▶ kubernetes ─▶ loop, cache, forward ─▶ whoami
//! response ◀─encode─ minimal, loadbalance ◀─ undo of rewrite ◀─┘       then log, errors, metrics
//! ```
//!
//! The order is CoreDNS's, but for `cache`: it stands before `forward` and keeps nothing but answers of
//! upstreams, so that a changed object is answered at once.

mod alias;
mod block;
mod common;
mod finish;
mod panics;
mod upstream;
mod version;

use std::future::{self, Future};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RecordType};
use sluice_upstream::Question as Asked;
use sluice_zone::PodRecords;

use crate::metrics::{Plugin, Sample, Tally};
use crate::request::{Client, Reply, Request};
use crate::wire::{self, Received};

pub(crate) use block::Block;
use block::Way;
pub(crate) use common::Common;
pub use panics::{caught, is_caught};
pub(crate) use version::{Reusable, Version};

/// A zone that is served at the address, and by which block.
pub(crate) struct Site {
    pub(crate) zone: Name,
    pub(crate) block: Arc<Block>,
    pub(crate) tally: Arc<Tally>,
}

/// The server blocks of one address.
pub(crate) struct Engine {
    /// Longest zones first.
    sites: Vec<Site>,
    /// `Verified` when one block has it: then answers change with pods.
    pods: PodRecords,
    /// Counts queries that no block sees.
    dropped: Arc<Tally>,
    number: u64,
    pub(crate) common: Arc<Common>,
}

/// A response, and what to do with it beside sending it.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sample: Sample,
    /// Whether the same bytes may be sent again.
    pub(crate) reusable: Option<Reusable>,
}

/// A response to come; `None`: there is none (`acl` with `drop`).
pub(crate) type Waiting = Pin<Box<dyn Future<Output = Option<Response>> + Send>>;

impl Engine {
    /// The blocks of one address. `server` is the address in metrics: `dns://:53`.
    pub(crate) fn new(
        server: &str,
        sites: impl IntoIterator<Item = (Name, Arc<Block>)>,
        common: Arc<Common>,
    ) -> Arc<Self> {
        let site = |(zone, block): (Name, Arc<Block>)| Site {
            tally: common.metrics.tally(server, &zone.to_ascii()),
            zone,
            block,
        };
        let mut sites: Vec<_> = sites.into_iter().map(site).collect();
        sites.sort_by_key(|it| std::cmp::Reverse(it.zone.iter().len()));
        let verifies = sites.iter().any(|it| it.block.verifies_pods());
        Arc::new(Self {
            pods: if verifies {
                PodRecords::Verified
            } else {
                PodRecords::Disabled
            },
            sites,
            // Without a dot at its end, so that it is no zone.
            dropped: common.metrics.tally(server, "dropped"),
            number: common.number(),
            common,
        })
    }

    /// The version of the objects and of the engine that an answer of now belongs to.
    pub(crate) fn version(&self) -> Version {
        let files = self.files();
        let objects = self.common.objects.read();
        let objects = objects.unwrap_or_else(PoisonError::into_inner);
        Version {
            objects: objects.revision(self.pods),
            ..files
        }
    }

    /// The part of the version that the objects have no part in.
    fn files(&self) -> Version {
        Version {
            objects: 0,
            engine: self.number,
            files: self.common.files.load(Ordering::Acquire),
        }
    }

    /// Reads a query and begins its answer. The future of an answer from the zone, or of the server itself, is ready
    /// at the first poll. `None`: it gets no answer.
    pub(crate) fn ask(
        self: &Arc<Self>,
        bytes: &[u8],
        client: Client,
        received: Instant,
        turn: usize,
    ) -> Option<Waiting> {
        match wire::read(bytes) {
            Received::Ignored => None,
            Received::Refused(refused) => {
                let response = self.refusal(&refused, client, bytes.len());
                Some(Box::pin(future::ready(response)))
            }
            Received::Query(query) => Some(self.begin(Request {
                query,
                client,
                received,
                turn,
            })),
        }
    }

    fn begin(self: &Arc<Self>, request: Request) -> Waiting {
        let (engine, client) = (self.clone(), request.client);
        let question = (request.query.metadata, request.query.asked.query.clone());
        Box::pin(async move {
            let answer = caught(engine.answer(&request));
            answer.await.unwrap_or_else(|| {
                engine.common.metrics.panics.inc();
                engine.failure(question, client)
            })
        })
    }

    async fn answer(&self, request: &Request) -> Option<Response> {
        // Read first: what the plugins read afterwards is at least as new.
        let version = self.files();
        let query = &request.query.asked.query;
        let Some(site) = self.site(&query.name, query.query_type) else {
            let refused = Reply::empty(ResponseCode::Refused, Plugin::None);
            return Some(self.finish(None, request, refused, version));
        };
        let reply = match query.query_type {
            // Transfers of zones need a plugin that CoreDNS calls `transfer`.
            RecordType::AXFR | RecordType::IXFR => {
                Reply::empty(ResponseCode::Refused, Plugin::None)
            }
            _ => site.block.answer(self, request).await?,
        };
        Some(self.finish(Some(site), request, reply, version))
    }

    /// The closest zone around a name. DS records are their parent's: CoreDNS gives these questions to the
    /// zone with the fewest labels that is not the root.
    fn site(&self, name: &Name, record_type: RecordType) -> Option<&Site> {
        let mut around = self.sites.iter().filter(|it| it.zone.zone_of(name));
        if record_type == RecordType::DS {
            let below_root = |it: &&Site| !it.zone.is_root();
            let far = around.clone().rfind(below_root);
            return far.or_else(|| around.next());
        }
        around.next()
    }

    /// Asks the plugins again, for the target of an alias or a step of a search path.
    fn follow<'a>(
        &'a self,
        asked: &'a Asked,
        way: Way,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(async move {
            match self.site(&asked.query.name, asked.query.query_type) {
                Some(site) => site.block.rewritten(self, asked, way).await,
                None => Reply::empty(ResponseCode::Refused, Plugin::None),
            }
        })
    }
}
