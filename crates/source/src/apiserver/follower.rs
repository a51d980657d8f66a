//! Follows the objects of one kind: list, watch, and again after every end.
//!
//! From kube's client: the requests and their parameters, decoding of watch events, bookmarks and
//! errors. Ours is the order of the requests (ADR 7 says why it is not kube-runtime's):
//!
//! - A list is the beginning of a watch (KEP-3157), or comes in pages from a server that does not
//!   know such lists. Either way it is a consistent read, so that a server that lags behind never
//!   takes us back.
//! - The watch goes on from its last version when it had worked, after 429, and when no connection could be made. A
//!   list follows anything else, because a watch from the same version may fail for ever.
//! - A watch without an event or bookmark for 45 s is replaced by another one from its version, which costs the server
//!   next to nothing and shows that it works. While a kind is quiet, its watches are so short that the server ends
//!   each of them in time, and sends a bookmark before the end (`cacher/cache_watcher.go`, `nextBookmarkTime`).
//! - An object is converted while it is read, and its JSON is dropped.

use std::cell::{RefCell, RefMut};
use std::convert::Infallible;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::stream::StreamExt as _;
use http::Response;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::core::Request;
use kube::core::watch::BookmarkMeta;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::Timeouts;
use super::causes::chain;
use super::connection::{Connection, whole};
use super::events::{Events, events};
use super::failure::Failure;
use super::retry::{End, Retry, chance};
use crate::convert::Interner;
use crate::hub::{Absence, Core, Delivered, Listing, Selection, Topic};
use crate::known::Known;
use crate::object::Event;
use crate::received::Received;

/// Objects per page, as client-go asks for (`tools/pager`).
const PAGE: u32 = 500;

/// Pages of one list before it is given up: a million objects. Kubernetes is made for 10,000 Services
/// and 150,000 pods ("Considerations for large clusters"), whose slices hold 100 endpoints each.
const MAX_PAGES: usize = 2_000;

/// The longest page, or whole list, in bytes: 500 objects as large as etcd takes them are 750 MiB.
const MAX_LIST: usize = 1 << 30;

/// Empty lists in a row, each after a wait, before they are believed where objects are expected.
const EMPTY_LISTS: u32 = 3;

/// How much sooner than [`Timeouts::silence`] the server ends a watch of a quiet kind.
const EARLY: Duration = Duration::from_secs(5);

/// The annotation of the bookmark that ends a list as a watch (KEP-3157).
const END_OF_LIST: &str = "k8s.io/initial-events-end";

/// The state that all followers share.
pub(crate) struct Shared {
    pub(super) connection: Connection,
    pub(super) client: kube::Client,
    pub(super) core: RefCell<Core>,
    pub(super) names: RefCell<Interner>,
    pub(super) timeouts: Timeouts,
    /// Held while a follower waits to try an unreachable server again: one at a time.
    pub(super) probe: Mutex<()>,
}

/// Follows the objects of one kind that a selection names.
pub(super) struct Follower<'a> {
    shared: &'a Shared,
    known: &'static Known,
    /// The position of the topic.
    topic: usize,
    selection: Selection,
    request: Request,
    /// The server sends lists as the beginning of a watch.
    has_streams: bool,
    /// Objects per page; `None` after a page has expired: then the list comes whole, as in
    /// client-go (`tools/pager`).
    page: Option<u32>,
    /// Where the watch goes on; `None` before a list.
    version: Option<String>,
    /// A complete list was delivered.
    is_listed: bool,
    /// Empty lists in a row that were not believed.
    empty_lists: u32,
    /// Watches in a row that ended without an event or bookmark.
    silent_watches: u32,
    /// No event has come on the last watch.
    is_quiet: bool,
    /// When the server last sent a list or an event of a watch; before that, when it was first asked.
    heard: jiff::Timestamp,
    retry: Retry,
}

/// One page of a list.
#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

impl<'a> Follower<'a> {
    pub(super) fn of(shared: &'a Shared, core: &Core, topic: usize) -> Self {
        let Topic { known, selection } = core.topics[topic].topic.clone();
        Self {
            shared,
            known,
            topic,
            request: Request::new(selection.path(known)),
            selection,
            has_streams: true,
            page: Some(PAGE),
            version: None,
            is_listed: false,
            empty_lists: 0,
            silent_watches: 0,
            is_quiet: false,
            heard: jiff::Timestamp::now(),
            retry: Retry::new(shared.timeouts),
        }
    }

    /// Reads an object that exists.
    fn received(&self, json: &RawValue) -> Result<Received, Failure> {
        let read = (self.known.read)(json.get(), &mut self.shared.names.borrow_mut());
        read.map_err(Failure::Garbage)
    }

    fn core(&self) -> RefMut<'a, Core> {
        self.shared.core.borrow_mut()
    }

    /// The objects that were delivered.
    fn delivered(&self) -> RefMut<'a, Delivered> {
        RefMut::map(self.core(), |it| &mut it.topics[self.topic].delivered)
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let Err(end) = self.follow().await;
            tracing::debug!(kind = self.known.objects, ?end, "a request ended");
            self.report_cut(&end);
            self.adapt(&end);
            if end.code() == Some(400) && self.selection.drop_fields() {
                continue;
            }
            if self.is_absent(&end) {
                self.go_without(&end);
                let wait = self.shared.timeouts.absent;
                sleep(wait.mul_f64(0.5 + chance())).await;
                continue;
            }
            if let Some(reason) = end.reason() {
                self.core().report_stale(self.topic, &reason, self.heard);
            }
            self.wait(&end).await;
        }
    }

    /// Lists if there is no version to watch from, then watches.
    async fn follow(&mut self) -> Result<Infallible, End> {
        if let Some(version) = self.version.clone() {
            let events = self.watch(&version, false).await?;
            return self.read(events, None).await;
        }
        // An empty list is checked by the other way.
        if self.has_streams && self.empty_lists == 0 {
            let events = self.watch("", true).await.map_err(|end| match end.code() {
                Some(400 | 405 | 422) => End::NoStream,
                _ => end,
            })?;
            return self.read(events, Some(Listing::default())).await;
        }
        let version = self.list_in_pages().await?;
        let events = self.watch(&version, false).await?;
        self.read(events, None).await
    }

    /// Opens a watch. `is_list`: it begins with every object that exists.
    async fn watch(&mut self, version: &str, is_list: bool) -> Result<Events, End> {
        let parameters = WatchParams {
            label_selector: self.selection.label_selector(),
            field_selector: self.selection.field_selector(),
            timeout: Some(self.duration()),
            bookmarks: true,
            send_initial_events: is_list,
        };
        let request = self.request.watch(&parameters, version);
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.is_quiet = true;
        Ok(events(self.send(request).await?))
    }

    /// How long the server may keep a watch open, in seconds. 5 to 10 minutes as in client-go, so that not all watches
    /// of a cluster begin anew at once; 30 to 40 s while the kind is quiet.
    fn duration(&self) -> u32 {
        if !self.is_quiet {
            return 300 + (chance() * 300.0) as u32;
        }
        let longest = self.shared.timeouts.silence.saturating_sub(EARLY);
        let seconds = longest.as_secs_f64() * (0.75 + 0.25 * chance());
        (seconds as u32).max(1)
    }

    /// Sends a request and waits for the head of the answer.
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Response<Body>, End> {
        let answer = self.shared.client.send(request.map(Body::from));
        Ok(self.awaited(answer).await?)
    }

    /// Waits for a part of an answer. Reports the objects as not up to date while it is late.
    async fn awaited<T>(&self, part: impl Future<Output = T>) -> T {
        let mut part = pin!(part);
        let late = self.shared.timeouts.late;
        if let Ok(it) = timeout(late, &mut part).await {
            return it;
        }
        let reason = format!("no answer for {} s", late.as_secs());
        self.core().report_stale(self.topic, &reason, self.heard);
        part.await
    }

    /// Reports the objects as not up to date while their list comes, but too slowly.
    fn report_slow(&self, begun: Instant) {
        let longest = self.shared.timeouts.silence;
        if begun.elapsed() > longest {
            let reason = format!("the list is not complete after {} s", longest.as_secs());
            self.core().report_stale(self.topic, &reason, self.heard);
        }
    }

    /// Reads a watch to its end. `listing`: it begins with every object that exists.
    async fn read(
        &mut self,
        mut events: Events,
        mut listing: Option<Listing>,
    ) -> Result<Infallible, End> {
        let timeouts = self.shared.timeouts;
        let begun = Instant::now();
        let mut is_steady = false;
        loop {
            let next = match (&listing, is_steady) {
                (Some(_), _) => timeout(timeouts.answer, self.awaited(events.next())).await,
                (None, false) => timeout(timeouts.steady, events.next()).await,
                (None, true) => timeout(timeouts.silence, events.next()).await,
            };
            let Ok(next) = next else {
                match (&listing, is_steady) {
                    // The server has not understood that it was asked for a list.
                    (Some(_), _) => return Err(End::NoStream),
                    (None, false) => self.succeed(),
                    (None, true) => return Err(End::Silent),
                }
                is_steady = true;
                continue;
            };
            let Some(next) = next else {
                return Err(match listing {
                    None => End::Closed,
                    Some(_) => broken("the connection closed in the middle of a list"),
                });
            };
            let mut changes = Vec::new();
            let outcome = next.into_iter().try_for_each(|event| {
                let event = event.map_err(|failure| self.watch_error(failure, &listing))?;
                self.event(event, &mut listing, &mut changes)
            });
            // The events before an error count: the version to go on from is behind them.
            self.core().send(self.topic, changes, false);
            outcome?;
            if listing.is_some() {
                self.report_slow(begun);
            }
        }
    }

    /// When a watch that worked breaks off, the server is asked again before it is a problem.
    fn watch_error(&self, failure: Failure, listing: &Option<Listing>) -> End {
        match failure {
            Failure::Broken(why) if listing.is_none() && self.retry.is_steady() => End::Cut(why),
            failure => failure.into(),
        }
    }

    fn report_cut(&self, end: &End) {
        if let End::Cut(reason) = end {
            let server = &*self.core().server;
            tracing::info!(
                kind = self.known.objects,
                server,
                reason,
                "a watch broke off: the next one goes on from the last version"
            );
        }
    }

    fn event(
        &mut self,
        event: WatchEvent<Box<RawValue>>,
        listing: &mut Option<Listing>,
        changes: &mut Vec<Event>,
    ) -> Result<(), End> {
        self.silent_watches = 0;
        self.heard = jiff::Timestamp::now();
        let is_bookmark = matches!(event, WatchEvent::Bookmark(_));
        self.is_quiet &= is_bookmark || listing.is_some();
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let received = self.received(&object)?;
                let is_selected = self.selection.has_name(&received.outcome.key().name);
                match listing {
                    Some(listing) if is_selected => {
                        listing.add(received.outcome, &self.delivered());
                    }
                    Some(_) => {}
                    None => {
                        self.advance(received.version);
                        if is_selected {
                            self.delivered().set(received.outcome, changes);
                        }
                    }
                }
            }
            // Also before a list is complete: the server sends its end about a second after the
            // last object, and what changes meanwhile before it (`cacher/cache_watcher.go`).
            WatchEvent::Deleted(object) => {
                let identity = (self.known.identify)(object.get());
                let (key, version) = identity.map_err(Failure::Garbage)?;
                match listing {
                    Some(listing) => listing.remove(&key),
                    None => {
                        self.advance(version);
                        self.delivered().delete(&key, changes);
                    }
                }
            }
            WatchEvent::Bookmark(bookmark) => match listing.take() {
                Some(listing) if ends_list(&bookmark.metadata) => {
                    self.accept(listing, bookmark.metadata.resource_version)?;
                }
                // Before the end there is no bookmark, unless the server does not know streaming
                // lists.
                Some(_) => return Err(End::NoStream),
                None => self.advance(Some(bookmark.metadata.resource_version)),
            },
            WatchEvent::Error(status) => return Err((*status).into()),
        }
        Ok(())
    }

    /// The watch has come to this version.
    fn advance(&mut self, version: Option<String>) {
        if version.is_some() {
            self.version = version;
        }
        self.succeed();
    }

    /// The watch has been open for a while, or has sent an event.
    fn succeed(&mut self) {
        self.retry.succeed();
        self.core().report_fresh(self.topic);
    }

    /// The version of the list.
    async fn list_in_pages(&mut self) -> Result<String, End> {
        let begun = Instant::now();
        let mut listing = Listing::default();
        let mut parameters = ListParams {
            label_selector: self.selection.label_selector(),
            field_selector: self.selection.field_selector(),
            limit: self.page,
            ..ListParams::default()
        };
        for _ in 0..MAX_PAGES {
            let request = self.request.list(&parameters);
            let request = request.map_err(kube::Error::BuildRequest)?;
            let answer = self.send(request).await?;
            let text = self.awaited(whole(answer.into_body(), MAX_LIST)).await;
            let text = text.map_err(|it| Failure::Broken(chain(&*it)))?;
            self.report_slow(begun);
            let page: Page<'_> = serde_json::from_slice(&text)?;
            for object in page.items.into_iter().flatten() {
                let received = self.received(object)?;
                if self.selection.has_name(&received.outcome.key().name) {
                    listing.add(received.outcome, &self.delivered());
                }
            }
            parameters.continue_token = page.metadata.token.filter(|it| !it.is_empty());
            if parameters.continue_token.is_none() {
                let version = page.metadata.resource_version;
                self.accept(listing, version.clone())?;
                return Ok(version);
            }
        }
        let why = format!("a list of more than {MAX_PAGES} pages");
        Err(Failure::Garbage(why).into())
    }

    /// The list is complete: delivers the differences.
    ///
    /// An empty list in place of objects is only believed when two consistent reads, each after a
    /// wait, say the same: believing it removes every rule.
    fn accept(&mut self, listing: Listing, version: String) -> Result<(), End> {
        if version.is_empty() {
            return Err(Failure::Garbage("a list without a version".to_owned()).into());
        }
        let is_expected =
            !self.delivered().is_empty() || (self.selection.is_never_empty && !self.is_listed);
        if listing.is_empty() && is_expected && self.empty_lists + 1 < EMPTY_LISTS {
            self.empty_lists += 1;
            return Err(End::Empty);
        }
        self.empty_lists = 0;
        self.silent_watches = 0;
        self.heard = jiff::Timestamp::now();
        self.page = Some(PAGE);
        self.version = Some(version);
        self.deliver_list(listing);
        Ok(())
    }

    /// Goes on without the objects of the kind: reports the loss if there is one.
    fn go_without(&mut self, end: &End) {
        match (self.absence(), end.reason()) {
            (Absence::Loss(lost), Some(reason)) => {
                self.core().send(self.topic, Vec::new(), true);
                self.core().report_absent(self.topic, &reason, lost);
            }
            _ => self.deliver_list(Listing::default()),
        }
    }

    fn deliver_list(&mut self, listing: Listing) {
        let mut events = Vec::new();
        self.delivered().replace(listing, &mut events);
        self.is_listed = true;
        let mut core = self.core();
        core.send(self.topic, events, true);
        core.report_fresh(self.topic);
    }

    fn absence(&self) -> Absence {
        self.core().absence(self.topic)
    }

    /// A server without the kind has no objects of it; it answers 403 to clients without the right
    /// to ask. If there were objects before, the server only does not know them yet.
    fn is_absent(&self, end: &End) -> bool {
        let is_unknown = matches!(end.code(), Some(403 | 404));
        is_unknown && self.absence() != Absence::Outage && self.delivered().is_empty()
    }

    /// Changes the next request by how the last one ended.
    fn adapt(&mut self, end: &End) {
        match end {
            End::NoStream => self.has_streams = false,
            End::Expired if self.version.is_none() => self.page = None,
            End::Closed | End::Silent => self.silent_watches += 1,
            _ => {}
        }
        if !self.goes_on(end) {
            self.version = None;
        }
    }

    /// Whether the next watch begins where this one ended. As client-go, which lists after everything but the end of a
    /// watch that worked, 429 and a refused connection (`tools/cache/reflector.go`, `isWatchErrorRetriable`).
    fn goes_on(&self, end: &End) -> bool {
        match end {
            End::Closed | End::Cut(_) | End::Silent => {
                self.retry.is_steady() && self.silent_watches < self.shared.timeouts.silent_watches
            }
            End::Failed(Failure::Unreachable(_)) => true,
            _ => end.code() == Some(429),
        }
    }

    async fn wait(&mut self, end: &End) {
        let wait = self.retry.wait(end, Instant::now(), chance());
        if !end.is_unreachable() {
            return sleep(wait).await;
        }
        let probe = async {
            let _turn = self.shared.probe.lock().await;
            sleep(wait).await;
        };
        tokio::select! {
            () = probe => {}
            () = self.shared.connection.answered() => {}
        }
    }
}

fn ends_list(bookmark: &BookmarkMeta) -> bool {
    let annotation = bookmark.annotations.get(END_OF_LIST);
    annotation.is_some_and(|it| it == "true")
}

fn broken(why: &str) -> End {
    End::Failed(Failure::Broken(why.to_owned()))
}
