//! WATCH: the changes of a collection as a stream of lines.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::body::{Cut, Pieces};
use crate::object::Object;
use crate::query::{Query, Streaming};
use crate::resource::Resource;
use crate::selector::Filter;
use crate::status::Status;
use crate::store::{Change, Forgotten, Store};
use crate::watches::{Membership, Order};

/// Bytes gathered before lines go out together.
const PIECE: usize = 64 * 1024;

/// How long a watch lasts that names no time. Real servers choose 30 to 60 minutes.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// The most a client can ask for.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a fault does to a watch from within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twist {
    None,
    /// Every line is sent twice.
    Twice,
    /// No bookmark is ever sent, not even the one after the initial events.
    NoBookmarks,
    /// `sendInitialEvents` is overlooked, as servers before Kubernetes 1.27 do.
    NoInitialEvents,
    /// The bookmark after the initial events comes after so many changes.
    LateEnd(usize),
}

/// A watch being served.
struct Watching {
    store: Arc<Store>,
    resource: &'static Resource,
    filter: Filter,
    /// Changes up to this version were sent.
    position: u64,
    /// Objects still to be announced as ADDED.
    initial: vec::IntoIter<Arc<Object>>,
    /// The bookmark that ends the initial objects is still to be sent, after so many changes.
    end_after: Option<usize>,
    changes: watch::Receiver<()>,
    bookmarks: Option<Interval>,
    deadline: Instant,
    twist: Twist,
    stalled: bool,
    /// An order with the version it was given at: changes up to it come first.
    order: Option<(u64, Order)>,
    membership: Membership,
}

/// Opens a watch.
///
/// # Errors
///
/// Parameters that contradict each other, and versions that do not exist yet. A version that is
/// too old is told inside the stream.
pub(crate) fn open(
    store: Arc<Store>,
    resource: &'static Resource,
    query: Query,
    settings: Settings,
    enter: impl FnOnce() -> Membership,
) -> Result<Pieces, Status> {
    query.check_watch(settings.streaming)?;
    let changes = store.changes();
    let state = store.lock();
    let collection = state.collection(resource);
    let wanted = query.version.unwrap_or_default();
    let initial_events = match query.initial_events {
        _ if settings.twist == Twist::NoInitialEvents => wanted == 0,
        // Without it, a watch that names no version starts with the objects there are.
        None => wanted == 0,
        Some(send) => send,
    };
    if query.initial_events.is_some() && wanted > state.revision {
        return Err(Status::too_large_version(wanted, state.revision));
    }
    let mut initial = Vec::new();
    let mut position = wanted;
    if initial_events {
        let objects = collection.objects.values();
        initial.extend(objects.filter(|it| query.filter.matches(it)).cloned());
        position = state.revision;
    } else if wanted == 0 {
        position = state.revision;
    } else if let Err(forgotten) = collection.since(wanted) {
        let message = format!("too old resource version: {wanted} ({})", forgotten.oldest);
        let line = Bytes::from(Status::expired(message).event());
        return Ok(stream::iter([Ok(line)]).boxed());
    }
    drop(state);
    let may_mark = query.bookmarks && settings.twist != Twist::NoBookmarks;
    let asked = query.initial_events == Some(true) && settings.twist != Twist::NoInitialEvents;
    let end_after = (may_mark && asked).then_some(match settings.twist {
        Twist::LateEnd(changes) => changes,
        _ => 0,
    });
    let lasting = match query.timeout_seconds {
        None | Some(0) => LONGEST,
        Some(seconds) => Duration::from_secs(seconds).min(A_DAY),
    };
    let bookmarks = may_mark.then(|| {
        let every = settings.bookmarks.max(Duration::from_millis(1));
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    });
    let watching = Watching {
        store,
        resource,
        filter: query.filter,
        position,
        initial: initial.into_iter(),
        end_after,
        changes,
        bookmarks,
        deadline: Instant::now() + lasting,
        twist: settings.twist,
        stalled: false,
        order: None,
        membership: enter(),
    };
    Ok(stream::unfold(watching, |mut watching| async {
        let piece = watching.next().await?;
        Some((piece, watching))
    })
    .boxed())
}

/// What the server adds to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) streaming: Streaming,
    pub(crate) twist: Twist,
    /// Time between bookmarks.
    pub(crate) bookmarks: Duration,
}

impl Watching {
    /// The next lines; `None` when the watch is over.
    async fn next(&mut self) -> Option<Result<Bytes, Cut>> {
        loop {
            if self.order.is_none() {
                self.order = self.membership.orders.try_recv().ok();
            }
            let until = self.order.as_ref().map_or(u64::MAX, |(given, _)| *given);
            if !self.stalled
                && let Some(lines) = self.ready(until).ok()?
            {
                return Some(Ok(lines));
            }
            match self.order.take() {
                None => {}
                Some((_, Order::Send(bytes))) => return Some(Ok(bytes)),
                Some((_, Order::End(Cut::End))) => return None,
                Some((_, Order::End(cut))) => return Some(Err(cut)),
                Some((_, order)) => {
                    self.stalled = matches!(order, Order::Stall);
                    continue;
                }
            }
            tokio::select! {
                biased;
                order = self.membership.orders.recv() => self.order = Some(order?),
                () = sleep_until(self.deadline), if !self.stalled => return None,
                changed = self.changes.changed(), if !self.stalled => changed.ok()?,
                () = tick(&mut self.bookmarks), if !self.stalled && self.end_after.is_none() => {
                    return Some(Ok(bookmark(self.resource, self.position, false)));
                }
            }
        }
    }

    /// What can be sent now, of the changes up to version `until`. Fails when the client fell behind
    /// the history: real servers end the watch of a client that is too slow.
    fn ready(&mut self, until: u64) -> Result<Option<Bytes>, Forgotten> {
        let mut lines = BytesMut::new();
        let mut push = |line: &[u8]| {
            lines.extend_from_slice(line);
            if self.twist == Twist::Twice {
                lines.extend_from_slice(line);
            }
            lines.len() >= PIECE
        };
        for object in self.initial.by_ref() {
            if push(&Change::Added.line(&object)) {
                return Ok(Some(lines.freeze()));
            }
        }
        if self.end_after == Some(0) {
            push(&bookmark(self.resource, self.position, true));
            self.end_after = None;
        }
        self.changes.mark_unchanged();
        let state = self.store.lock();
        let events = state.collection(self.resource).since(self.position);
        for event in events?.take_while(|it| it.revision <= until) {
            self.position = event.revision;
            let mut is_full = event.line(&self.filter).is_some_and(|line| push(&line));
            self.end_after = self.end_after.map(|it| it - 1);
            if self.end_after == Some(0) {
                is_full = push(&bookmark(self.resource, self.position, true));
                self.end_after = None;
            }
            if is_full {
                return Ok(Some(lines.freeze()));
            }
        }
        self.position = self.position.max(state.revision.min(until));
        Ok((!lines.is_empty()).then(|| lines.freeze()))
    }
}

/// A BOOKMARK line: an empty object that carries nothing but the version.
fn bookmark(resource: &Resource, revision: u64, complete: bool) -> Bytes {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if complete {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let opening = resource.opening("");
    let comma = if resource.blank.is_empty() { "" } else { "," };
    let blank = resource.blank;
    format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{opening}\"metadata\":{metadata}{comma}{blank}}}}}\n"
    )
    .into()
}

async fn tick(bookmarks: &mut Option<Interval>) {
    match bookmarks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}
