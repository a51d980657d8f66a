//! One resource: asks, reads, delivers, asks again.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use sluice_model::Event;
use tokio::time::timeout;

use super::Patience;
use super::course::{Ask, Course, Empty, End, Since};
use super::http::{Answer, Failure, Http, Pace, Status};
use super::hub::Hub;
use super::known::{Incoming, Known};
use super::pace::{Backoff, chance};
use super::query;
use super::resource::Resource;
use super::wire::{Bookmark, Envelope, Garbage, Items, Line, Lines};
use crate::convert::Interner;

/// A list as a watch takes so many times the patience for one object at most: a server may send
/// changes for ever and never say that this was the list.
const LONGEST_LIST: u32 = 10;

/// Objects per page, as client-go asks for.
const PAGE: &str = "500";

/// What all resources share.
pub(super) struct Shared<'a> {
    pub(super) http: &'a Http,
    pub(super) hub: &'a RefCell<Hub>,
    pub(super) names: &'a RefCell<Interner>,
    pub(super) node_name: &'a str,
    pub(super) patience: Patience,
}

/// Follows one resource.
pub(super) struct Reflector<'a> {
    shared: &'a Shared<'a>,
    resource: Resource,
    course: Course,
    known: Known,
    /// The server knows the fields that we select by.
    selects_fields: bool,
}

impl From<Garbage> for End {
    fn from(garbage: Garbage) -> Self {
        Self::Failed(Failure::Garbage(garbage))
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(it) if it.code == 410 => Self::Expired,
            failure => Self::Failed(failure),
        }
    }
}

impl<'a> Reflector<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, resource: Resource) -> Self {
        let patience = shared.patience;
        let backoff = Backoff::new(patience.retry, patience.longest_retry);
        Self {
            shared,
            resource,
            course: Course::new(resource.is_never_empty(), backoff),
            known: Known::new(resource),
            selects_fields: true,
        }
    }

    /// Goes on until it is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let end = match self.course.ask() {
                Ask::Stream(since) => self.stream(&since).await,
                Ask::Pages { since, whole } => self.pages(&since, whole).await,
                Ask::Watch(version) => self.watch(&version).await,
            };
            let end = end.err().unwrap_or(End::Listed);
            if self.is_absent(&end) {
                self.deliver_list(Incoming::default());
                tokio::time::sleep(self.shared.patience.absent.mul_f64(0.5 + chance())).await;
                continue;
            }
            if self.selects_fields && self.is_bad_selector(&end) {
                self.selects_fields = false;
                continue;
            }
            if let Some(reason) = reason(&end) {
                self.shared.hub.borrow_mut().stale(self.resource, &reason);
            }
            tracing::debug!(resource = %self.resource, ?end, "a request ended");
            tokio::time::sleep(self.course.end(&end, chance())).await;
        }
    }

    /// A server without ServiceCIDRs has none; to whoever has no right to ask, as kube-proxy before
    /// 1.33, it says 403 even so. Where there were some it only does not know yet.
    fn is_absent(&self, end: &End) -> bool {
        let is_unknown =
            matches!(end, End::Failed(Failure::Refused(it)) if matches!(it.code, 403 | 404));
        is_unknown && self.resource == Resource::ServiceCidrs && self.known.is_empty()
    }

    /// Before 1.31 no server knew the field `spec.clusterIP` of Services. Without the selector
    /// headless ones come along, and the plan leaves them out.
    fn is_bad_selector(&self, end: &End) -> bool {
        let is_refused = matches!(end, End::Failed(Failure::Refused(it)) if it.code == 400);
        is_refused && self.resource == Resource::Services
    }

    async fn stream(&mut self, since: &Since) -> Result<(), End> {
        let version = match since {
            Since::Newest => "",
            Since::NotOlderThan(version) => version,
        };
        let asked = self
            .get(&[
                ("watch", "1"),
                ("sendInitialEvents", "true"),
                ("resourceVersionMatch", "NotOlderThan"),
                ("resourceVersion", version),
                ("allowWatchBookmarks", "true"),
                ("timeoutSeconds", &watch_seconds()),
            ])
            .await;
        let answer = asked.map_err(|failure| match failure {
            Failure::Refused(it) if matches!(it.code, 400 | 405 | 422) => End::NoStream,
            failure => failure.into(),
        })?;
        self.listen(answer, Some(Incoming::default())).await
    }

    async fn watch(&mut self, version: &str) -> Result<(), End> {
        let asked = self
            .get(&[
                ("watch", "1"),
                ("resourceVersion", version),
                ("allowWatchBookmarks", "true"),
                ("timeoutSeconds", &watch_seconds()),
            ])
            .await;
        self.listen(asked?, None).await
    }

    /// Hears the lines of a watch; `list`: they begin with everything there is.
    async fn listen(&mut self, mut answer: Answer, list: Option<Incoming>) -> Result<(), End> {
        let patience = self.shared.patience;
        let mut heard = Heard {
            list,
            events: Vec::new(),
        };
        let (mut lines, mut steady_at) = (Lines::default(), None);
        let start = Instant::now();
        let mut last_line = start;
        loop {
            let is_listing = heard.list.is_some();
            let mut deadline = match is_listing {
                true => (last_line + patience.answer).min(start + patience.answer * LONGEST_LIST),
                false => last_line + patience.silence,
            };
            if !is_listing {
                let steady_at = steady_at.get_or_insert_with(|| Instant::now() + patience.steady);
                let is_due = Instant::now() >= *steady_at;
                if is_due {
                    self.works();
                } else {
                    deadline = deadline.min(*steady_at);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let piece = match timeout(left, answer.next()).await {
                Ok(Ok(piece)) => piece,
                // However a watch ends that worked, it is asked again before anybody is told.
                Ok(Err(_)) if !is_listing && self.course.is_steady() => return Err(End::Closed),
                Ok(Err(failure)) => return Err(failure.into()),
                Err(_) if steady_at.is_some_and(|it| deadline == it) => continue,
                Err(_) if is_listing => return Err(End::NoStream),
                Err(_) => return Err(End::Silent(patience.silence)),
            };
            let Some(piece) = piece else {
                return Err(self.closed(&lines, is_listing));
            };
            let mut is_news = false;
            let outcome = lines.push(&piece, |line| {
                is_news = true;
                self.line(line, &mut heard)
            });
            if is_news {
                last_line = Instant::now();
            }
            // What came before the end counts: the version says so.
            let events = std::mem::take(&mut heard.events);
            self.shared.hub.borrow_mut().changes(self.resource, events);
            outcome?;
        }
    }

    fn closed(&self, lines: &Lines, is_listing: bool) -> End {
        match (lines.is_whole(), is_listing) {
            (true, false) => End::Closed,
            (false, false) if self.course.is_steady() => End::Closed,
            _ => unreachable("the connection closed in the middle of an answer"),
        }
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), End> {
        let line: Line<'_> = json(line)?;
        let object = line.object.get().as_bytes();
        match (&*line.kind, &mut heard.list) {
            ("BOOKMARK", list) => {
                let Bookmark { metadata } = json(object)?;
                match list.take() {
                    Some(list) if metadata.ends_list() => {
                        self.accept(list, &metadata.resource_version)?;
                    }
                    // Before the end there is none, unless the server does not know what it was
                    // asked for.
                    Some(_) => return Err(End::NoStream),
                    None => {
                        self.course.advance(metadata.resource_version.into())?;
                        self.works_again();
                    }
                }
            }
            ("ERROR", _) => {
                let status: Status = json(object)?;
                return Err(Failure::Refused(status.refusal(500)).into());
            }
            ("DELETED", Some(list)) => {
                let (key, _) = self.resource.read_gone(object)?;
                key.iter().for_each(|it| list.gone(it));
            }
            ("DELETED", None) => {
                let (key, version) = self.resource.read_gone(object)?;
                self.advance(version)?;
                if let Some(key) = key {
                    self.known.gone(&key, &mut heard.events);
                }
            }
            ("ADDED" | "MODIFIED", list) => {
                let seen = self
                    .resource
                    .read(object, &mut self.shared.names.borrow_mut())?;
                match list {
                    Some(list) => list.see(seen.what, &self.known),
                    None => {
                        self.advance(seen.version)?;
                        self.known.see(seen.what, &mut heard.events);
                    }
                }
            }
            (other, _) => {
                let other = sluice_yaml::quoted(other);
                return Err(format!("an event of type {other}").into());
            }
        }
        Ok(())
    }

    fn advance(&mut self, version: Option<Arc<str>>) -> Result<(), End> {
        if let Some(version) = version {
            self.course.advance(version)?;
        }
        self.works_again();
        Ok(())
    }

    /// The watch has been open for a while, or has said something.
    fn works(&mut self) {
        self.course.steady();
        self.works_again();
    }

    fn works_again(&self) {
        let mut hub = self.shared.hub.borrow_mut();
        if hub.is_stale(self.resource) {
            hub.fresh(self.resource);
        }
    }

    async fn pages(&mut self, since: &Since, whole: bool) -> Result<(), End> {
        let mut list = Incoming::default();
        let mut token: Option<String> = None;
        loop {
            let mut parameters = Vec::new();
            if !whole {
                parameters.push(("limit", PAGE));
            }
            match (&token, since) {
                (Some(token), _) => parameters.push(("continue", token)),
                (None, Since::Newest) => {}
                (None, Since::NotOlderThan(version)) => {
                    parameters.push(("resourceVersion", version));
                    parameters.push(("resourceVersionMatch", "NotOlderThan"));
                }
            }
            let answer = self.get(&parameters).await?;
            let envelope = self.page(answer, &mut list).await?;
            let expected = self.resource.list_kind();
            if envelope.kind != expected {
                let kind = sluice_yaml::quoted(&envelope.kind);
                return Err(format!("{kind} in place of {expected}").into());
            }
            token = envelope.metadata.token.filter(|it| !it.is_empty());
            if token.is_none() {
                return self.accept(list, &envelope.metadata.resource_version);
            }
        }
    }

    async fn page(&self, mut answer: Answer, list: &mut Incoming) -> Result<Envelope, End> {
        let patience = self.shared.patience.answer;
        let mut items = Items::default();
        let mut deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let piece: Option<Bytes> = match timeout(left, answer.next()).await {
                Ok(piece) => piece?,
                Err(_) => return Err(unreachable(&silence(patience))),
            };
            let Some(piece) = piece else {
                return Ok(items.finish()?);
            };
            items.push(&piece, |item| -> Result<(), End> {
                let seen = self
                    .resource
                    .read(item, &mut self.shared.names.borrow_mut())?;
                list.see(seen.what, &self.known);
                deadline = Instant::now() + patience;
                Ok(())
            })?;
        }
    }

    /// Everything is there: delivers what is different.
    fn accept(&mut self, list: Incoming, version: &str) -> Result<(), End> {
        if version.is_empty() {
            return Err("a list without a version".to_owned().into());
        }
        let is_empty = match (list.is_empty(), self.known.is_empty()) {
            (false, _) => Empty::No,
            (true, true) => Empty::AsBefore,
            (true, false) => Empty::InPlaceOfObjects,
        };
        self.course.listed(version, is_empty)?;
        self.deliver_list(list);
        Ok(())
    }

    fn deliver_list(&mut self, list: Incoming) {
        let mut events: Vec<Event> = Vec::new();
        self.known.replace(list, &mut events);
        let mut hub = self.shared.hub.borrow_mut();
        hub.list(self.resource, events);
        hub.fresh(self.resource);
    }

    async fn get(&self, parameters: &[(&str, &str)]) -> Result<Answer, Failure> {
        let selectors = self.resource.selectors(self.shared.node_name);
        let selectors = selectors.iter().map(|(name, value)| (*name, &**value));
        let selectors = selectors.filter(|it| self.selects_fields || it.0 != "fieldSelector");
        let query = query(selectors.chain(parameters.iter().copied()));
        let is_watch = parameters.iter().any(|(name, _)| *name == "watch");
        let pace = match is_watch {
            true => Pace::Free,
            false => Pace::Limited,
        };
        let request = Request::get(format!("{}?{query}", self.resource.path()));
        let patience = self.shared.patience.answer;
        self.shared
            .http
            .send(request, Vec::new(), (pace, patience))
            .await
    }
}

/// What the lines of one watch have brought.
struct Heard {
    /// The list they began with, until it is complete.
    list: Option<Incoming>,
    events: Vec<Event>,
}

/// What makes the resource stale; `None` for what happens every day.
fn reason(end: &End) -> Option<String> {
    match end {
        End::Listed | End::Closed | End::Expired | End::NoStream => None,
        End::Doubtful => Some("the server says that there is nothing: asking again".to_owned()),
        End::Silent(time) => Some(silence(*time)),
        End::Rewound => Some("the server is older than what it said before".to_owned()),
        End::Failed(failure) => Some(failure.to_string()),
    }
}

fn silence(time: Duration) -> String {
    format!("nothing has come for {} s", time.as_secs())
}

fn unreachable(why: &str) -> End {
    End::Failed(Failure::Unreachable(why.to_owned()))
}

fn json<'b, T: serde::Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, Garbage> {
    serde_json::from_slice(bytes)
        .map_err(|it| format!("no event: {}", sluice_yaml::escaped(&it.to_string())))
}

/// 5 to 10 minutes, so that not all watches of a cluster begin anew at once (as client-go).
fn watch_seconds() -> String {
    format!("{:.0}", 300.0 * (1.0 + chance()))
}
