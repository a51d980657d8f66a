//! A source that runs, and another one in its place.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::Context;
use prometheus::IntGauge;
use sluice_dns::ClusterMetrics;
use sluice_model::ApiRequest;
use sluice_source::apiserver::{self, Timeouts};
use sluice_source::{Hub, Subscription};
use sluice_zone::{Event, Objects};

use super::super::reported::Reported;
use super::{Demand, From, absorb};

/// The receivers of a source's events.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) objects: Arc<RwLock<Objects>>,
    pub(crate) metrics: ClusterMetrics,
    /// The number of files and objects that could not be read.
    pub(crate) problems: IntGauge,
}

/// A running source. It ends when all clones are dropped, or when another one takes its place.
#[derive(Clone)]
pub(crate) struct Following(Arc<Mutex<Option<Running>>>);

#[expect(dead_code, reason = "dropping them ends the source")]
enum Running {
    Nowhere,
    Folder(sluice_source::Watch, Subscription),
    ApiServer(apiserver::Follow, Subscription),
}

impl Following {
    fn new(running: Running) -> Self {
        Self(Arc::new(Mutex::new(Some(running))))
    }

    /// Ends the source: no event follows.
    fn end(&self) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(running);
    }
}

impl Demand {
    /// Follows the objects. Those of `old` are answered, and go on to change, until all of the new source are known.
    pub(crate) fn start(&self, told: &Told, old: Option<Following>) -> anyhow::Result<Following> {
        let Told {
            objects,
            metrics,
            problems,
        } = told.clone();
        let of_requests = metrics.clone();
        let mut reported = Reported::new(problems);
        let rule = self.namespace_rule();
        let mut fresh = old.map(|old| (RwLock::new(Objects::new(rule)), old));
        let sink = move |events: Vec<Event>| {
            reported.take(&events);
            let Some((own, old)) = &mut fresh else {
                return absorb(&objects, &events, &metrics);
            };
            absorb(own, &events, &metrics);
            let own = own.get_mut().unwrap_or_else(PoisonError::into_inner);
            if own.is_synced() {
                old.end();
                let own = mem::replace(own, Objects::new(rule));
                let objects = objects.write();
                objects.unwrap_or_else(PoisonError::into_inner).replace(own);
                fresh = None;
            }
        };
        let hub = Hub::default();
        let subscription = hub.subscribe(self.wanted.wants(), sink);
        let running = match &self.from {
            From::Nowhere => Running::Nowhere,
            From::Folder(folder) => {
                let watch = hub.watch(folder).context("--manifests")?;
                Running::Folder(watch, subscription)
            }
            From::ApiServer(access) => {
                let client = apiserver::connect(access)?;
                let observer = Arc::new(move |it: &ApiRequest<'_>| of_requests.requested(it));
                let follow = hub.follow(&client, Timeouts::default(), observer)?;
                Running::ApiServer(follow, subscription)
            }
        };
        Ok(Following::new(running))
    }
}
