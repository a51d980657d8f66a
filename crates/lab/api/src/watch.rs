//! WATCH: the changes of a collection as a stream of lines.

mod line;

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::answer::Pieces;
use crate::format::Format;
use crate::history::{EventType, Forgotten, History};
use crate::object::Object;
use crate::query::{Query, Streaming};
use crate::resource::Resource;
use crate::selector::Filter;
use crate::status::Status;

/// Bytes of events that are gathered before they are sent.
const PIECE: usize = 64 * 1024;

/// The duration of a watch without `timeoutSeconds`. kube-apiserver chooses 30 to 60 minutes.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// The longest `timeoutSeconds`.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How the server sends watch events.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub streaming: Streaming,
    /// Time between bookmarks, at least a millisecond. `None` sends no bookmark, not even the one
    /// after the initial events.
    pub bookmarks: Option<Duration>,
    /// Changes between the initial events and the bookmark that completes them. A real server
    /// sends it up to a second after the last initial event, and all changes in between before it
    /// (`cacher/cache_watcher.go`).
    pub changes_before_end: usize,
    /// How often each event is sent.
    pub copies: usize,
    pub format: Format,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            streaming: Streaming::Served,
            bookmarks: Some(Duration::from_secs(60)),
            changes_before_end: 0,
            copies: 1,
            format: Format::Plain,
        }
    }
}

/// A running watch.
pub struct Watching {
    history: Arc<History>,
    resource: Arc<Resource>,
    filter: Filter,
    /// Changes up to this version are sent.
    position: u64,
    /// Objects that are still to be sent as ADDED.
    initial: vec::IntoIter<Arc<Object>>,
    /// The bookmark that completes the initial events is sent after so many changes.
    end_after: Option<usize>,
    changes: watch::Receiver<()>,
    bookmarks: Option<Interval>,
    deadline: Instant,
    copies: usize,
    format: Format,
}

/// A watch that was started.
pub enum Opened {
    Running(Box<Watching>),
    /// The version is too old: this event is the only one.
    Ended(Bytes),
}

/// Starts a watch.
///
/// # Errors
///
/// The parameters contradict each other, or the version is in the future. A version that is too old
/// is reported in the stream.
pub fn open(
    history: Arc<History>,
    resource: Arc<Resource>,
    query: Query,
    settings: Settings,
) -> Result<Opened, Status> {
    query.check_watch(settings.streaming)?;
    let changes = history.changes();
    let state = history.lock();
    let collection = state.collection(&resource);
    let wanted = query.version.unwrap_or_default();
    let initial_events = match query.initial_events {
        _ if settings.streaming == Streaming::Overlooked => wanted == 0,
        // Without it, a watch without version begins with the present objects.
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
        return Ok(Opened::Ended(Status::expired(message).event().into()));
    }
    drop(state);
    let every = settings.bookmarks.filter(|_| query.bookmarks);
    let is_streamed =
        query.initial_events == Some(true) && settings.streaming != Streaming::Overlooked;
    let end_after = (every.is_some() && is_streamed).then_some(settings.changes_before_end);
    let lasting = match query.timeout_seconds {
        None | Some(0) => LONGEST,
        Some(seconds) => Duration::from_secs(seconds).min(A_DAY),
    };
    let bookmarks = every.map(|every| {
        let every = every.max(Duration::from_millis(1));
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    });
    let watching = Watching {
        history,
        resource,
        filter: query.filter,
        position,
        initial: initial.into_iter(),
        end_after,
        changes,
        bookmarks,
        deadline: Instant::now() + lasting,
        copies: settings.copies,
        format: settings.format,
    };
    Ok(Opened::Running(Box::new(watching)))
}

impl Opened {
    /// The events of the watch, as they come.
    pub fn pieces(self) -> Pieces {
        match self {
            Self::Ended(line) => stream::iter([line]).boxed(),
            Self::Running(watching) => stream::unfold(watching, |mut watching| async {
                let piece = watching.next().await?;
                Some((piece, watching))
            })
            .boxed(),
        }
    }
}

impl Watching {
    /// The next events; `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(lines) = self.ready(u64::MAX).ok()? {
                return Some(lines);
            }
            if let Some(bookmark) = self.wait().await? {
                return Some(bookmark);
            }
        }
    }

    /// Waits until there may be events, or returns a bookmark that is due; `None` at the end of the watch. The future
    /// may be dropped before it is ready.
    pub async fn wait(&mut self) -> Option<Option<Bytes>> {
        tokio::select! {
            biased;
            () = sleep_until(self.deadline) => None,
            changed = self.changes.changed() => changed.ok().map(|()| None),
            () = tick(&mut self.bookmarks), if self.end_after.is_none() => {
                Some(Some(self.format.bookmark(&self.resource, self.position, false)))
            }
        }
    }

    /// The events up to version `until` that can be sent now.
    ///
    /// # Errors
    ///
    /// The client is slower than the history is long: kube-apiserver ends the watch of such a
    /// client.
    pub fn ready(&mut self, until: u64) -> Result<Option<Bytes>, Forgotten> {
        let mut lines = BytesMut::new();
        let mut push = |line: &[u8]| {
            for _ in 0..self.copies {
                lines.extend_from_slice(line);
            }
            lines.len() >= PIECE
        };
        for object in self.initial.by_ref() {
            let line = self.format.line(&self.resource, EventType::Added, &object);
            self.format = self.format.later();
            if push(&line) {
                return Ok(Some(lines.freeze()));
            }
        }
        if self.end_after == Some(0) {
            push(&self.format.bookmark(&self.resource, self.position, true));
            self.format = self.format.later();
            self.end_after = None;
        }
        self.changes.mark_unchanged();
        let state = self.history.lock();
        let events = state.collection(&self.resource).since(self.position);
        for event in events?.take_while(|it| it.revision <= until) {
            self.position = event.revision;
            let line = self.format.event(&self.resource, event, &self.filter);
            if line.is_some() {
                self.format = self.format.later();
            }
            let mut is_full = line.is_some_and(|line| push(&line));
            self.end_after = self.end_after.map(|it| it - 1);
            if self.end_after == Some(0) {
                is_full = push(&self.format.bookmark(&self.resource, self.position, true));
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

async fn tick(bookmarks: &mut Option<Interval>) {
    match bookmarks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}
