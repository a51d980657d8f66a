//! `loop`, `cache` and `forward` of a server block.

use std::sync::Arc;
use std::time::Instant;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::Name;
use sluice_corefile::Plugins;
use sluice_upstream::{
    Cache, Failure, Forwarder, Lookup, LoopProbe, Question as Asked, SetupError, Transport,
    is_answer,
};

use super::Common;
use crate::metrics::Plugin;
use crate::request::{Client, Reply};

/// Asks other servers.
pub(crate) struct Upstream {
    forwarders: Vec<Forwarder>,
    pub(crate) cache: Option<Arc<Cache>>,
    probe: Option<LoopProbe>,
}

impl Upstream {
    /// `zone` is the first of the server block.
    pub(super) fn new(plugins: &Plugins, zone: &Name, common: &Common) -> Result<Self, SetupError> {
        let forwarder = |config| {
            let observer = common.metrics.observed.clone();
            Forwarder::new(config, observer, common.runtime.clone())
        };
        let cache = plugins.cache.as_ref();
        Ok(Self {
            forwarders: plugins
                .forward
                .iter()
                .map(forwarder)
                .collect::<Result<_, _>>()?,
            cache: cache.map(|it| Arc::new(Cache::new(it.clone()))),
            probe: plugins.loop_detection.then(|| LoopProbe::new(zone)),
        })
    }

    /// Looks, once, whether queries come back.
    pub(crate) async fn probe(&self) {
        if let (Some(probe), Some(forwarder)) = (&self.probe, self.forwarders.first()) {
            probe.run(forwarder).await;
        }
    }

    /// Asks the cache, then upstreams. `None`: the name is not forwarded.
    pub(super) async fn answer(
        self: &Arc<Self>,
        common: &Arc<Common>,
        asked: &Asked,
        client: Client,
    ) -> Option<Reply> {
        let covers = |it: &Forwarder| it.covers(&asked.query.name);
        if !self.forwarders.iter().any(covers) {
            return None;
        }
        if let Some(reply) = self.looped(common, asked) {
            return Some(reply);
        }
        let over = client.transport;
        let found = self
            .cache
            .as_ref()
            .map(|it| it.lookup(asked, Instant::now()));
        let expired = match found {
            Some(Lookup::Hit { response, refresh }) => {
                if refresh {
                    self.refresh(common, asked, over);
                }
                return Some(reply(response, Plugin::Cache));
            }
            Some(Lookup::Expired(expired)) => Some(expired),
            Some(Lookup::Miss) | None => None,
        };
        let outcome = match common.queries.admit(client.address.ip()) {
            Some(_permit) => self.exchange(asked, over).await.map_err(Some),
            None => Err(None),
        };
        Some(match (outcome, expired, &self.cache) {
            (Ok(response), None, _) => reply(response, Plugin::Forward),
            (Ok(response), Some(_), _) if is_answer(&response) => reply(response, Plugin::Forward),
            (_, Some(expired), Some(cache)) => reply(cache.serve_stale(expired), Plugin::Cache),
            (Ok(response), ..) => reply(response, Plugin::Forward),
            (Err(failure), ..) => refusal(failure),
        })
    }

    fn looped(&self, common: &Common, asked: &Asked) -> Option<Reply> {
        let probe = self
            .probe
            .as_ref()
            .filter(|it| it.recognises(&asked.query))?;
        let forwarder = self.forwarders.first()?;
        common.fail(probe.found(forwarder));
        Some(Reply::empty(ResponseCode::ServFail, Plugin::Loop))
    }

    /// Asks the first upstream that is for the name, then the next as long as the answer is to be passed
    /// on, and keeps the answer.
    async fn exchange(&self, asked: &Asked, over: Transport) -> Result<Message, Failure> {
        let mut last = None;
        for forwarder in self
            .forwarders
            .iter()
            .filter(|it| it.covers(&asked.query.name))
        {
            let response = forwarder.exchange(asked, over).await?;
            let is_last = !forwarder.passes_on(&response);
            last = Some(response);
            if is_last {
                break;
            }
        }
        let response = last.ok_or(Failure::AllDown)?;
        Ok(match &self.cache {
            Some(cache) => cache.store(asked, response, Instant::now()),
            None => response,
        })
    }

    /// Asks again, for those who ask later.
    fn refresh(self: &Arc<Self>, common: &Common, asked: &Asked, over: Transport) {
        let (upstream, asked) = (self.clone(), asked.clone());
        common.runtime.spawn(async move {
            // What fails is asked again by the next client.
            let _ = upstream.exchange(&asked, over).await;
        });
    }
}

/// The reply without an answer. A query that is shed is counted, not logged: a line for each would make things
/// worse.
fn refusal(failure: Option<Failure>) -> Reply {
    let code = failure
        .as_ref()
        .map_or(ResponseCode::ServFail, Failure::response_code);
    Reply {
        error: failure.map(|it| it.to_string()),
        ..Reply::empty(code, Plugin::Forward)
    }
}

fn reply(message: Message, plugin: Plugin) -> Reply {
    Reply {
        message,
        ..Reply::empty(ResponseCode::NoError, plugin)
    }
}
