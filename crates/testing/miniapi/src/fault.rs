//! Misbehaviour on purpose: what, for which requests, how often.

mod shape;

use std::sync::Mutex;
use std::time::Duration;

pub(crate) use shape::{reply, shape};

use crate::body::Cut;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Every request.
    Any,
    /// The list of a collection, first page or only one.
    List,
    /// A further page of a list.
    Continue,
    Watch,
    /// A watch that goes on from a version; it is a [`Verb::Watch`], too.
    WatchFrom,
    /// One object, a version or a health check.
    Get,
    /// POST.
    Write,
}

/// One way to misbehave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is read and never answered.
    Silence,
    /// The answer begins after this time.
    Late(Duration),
    /// The body trickles: at most so many bytes at a time, with a pause after each.
    Slow {
        /// Bytes at a time, at least 1.
        bytes: usize,
        /// Pause after each.
        pause: Duration,
    },
    /// The body breaks off. [`Cut::End`] is a truncated body in proper HTTP.
    Cut {
        /// Bytes of the body that still arrive.
        after: usize,
        /// How it ends.
        how: Cut,
    },
    /// 200 with bytes that are no JSON.
    Garbage,
    /// 200 with JSON whose types are all wrong; in a watch, such an event.
    WrongTypes,
    /// A page of HTML with this status (502 for a number that is none), as proxies and captive
    /// portals send.
    Html(u16),
    /// A list of no items although there are objects.
    EmptyList,
    /// The same with `items: null`.
    NullItems,
    /// A page of no items that names a further page, each time.
    EndlessList,
    /// 401: the token is no longer good.
    Unauthorized,
    /// 400 for a field selector, as a server that does not know the field.
    UnknownField,
    /// 403.
    Forbidden,
    /// 404, as if the collection were not served.
    NotFound,
    /// 410 with reason `Expired`: continue tokens and watch versions that are too old.
    Gone,
    /// A watch that opens with 200 and says in an ERROR event that its version is too old.
    GoneEvent,
    /// A watch that opens with 200 and fails in an ERROR event with status 500.
    ErrorEvent,
    /// 422 for `sendInitialEvents`, as servers without streaming lists.
    NoStreamingLists,
    /// 429 with `Retry-After` in seconds.
    TooManyRequests(u32),
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// 504 with cause `ResourceVersionTooLarge`.
    VersionTooLarge,
    /// A line of so many MiB without an end; then silence.
    EndlessLine(usize),
    /// Every event of the watch comes twice.
    DuplicateEvents,
    /// The watch ends properly before its first event.
    EndsAtOnce,
    /// The watch sends no bookmark, not even the one that completes the initial events.
    NoBookmarks,
    /// The watch overlooks `sendInitialEvents`: neither initial events (unless the version is
    /// unset or 0) nor the bookmark after them.
    IgnoresInitialEvents,
    /// The bookmark that completes the initial events comes after so many changes. A real server
    /// sends it up to a second after the last initial event, and all changes in between before it
    /// (`cacher/cache_watcher.go`).
    LateEnd(usize),
}

/// A fault with its scope; see [`MiniApi::inject`](crate::MiniApi::inject).
#[derive(Clone, Debug)]
pub struct Trouble {
    fault: Fault,
    verb: Verb,
    path: String,
    /// Requests left to hit; `None` until cleared.
    left: Option<usize>,
}

impl Fault {
    /// This fault for every request of `verb` whose path contains `path`, until cleared.
    pub fn on(self, verb: Verb, path: &str) -> Trouble {
        Trouble {
            fault: self,
            verb,
            path: path.to_owned(),
            left: None,
        }
    }
}

impl Trouble {
    /// For one request only.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// For so many requests.
    pub fn times(mut self, count: usize) -> Self {
        self.left = Some(count);
        self
    }
}

/// The faults waiting for requests, in the order they were injected.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Trouble>>);

impl Faults {
    pub(crate) fn inject(&self, trouble: Trouble) {
        self.0.lock().expect("nobody panics with it").push(trouble);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().expect("nobody panics with it").clear();
    }

    /// The first fault for a request, which thereby is used once.
    pub(crate) fn take(&self, verb: Verb, path: &str) -> Option<Fault> {
        let mut troubles = self.0.lock().expect("nobody panics with it");
        let concerns = |it: &Trouble| {
            let is_watch = it.verb == Verb::Watch && verb == Verb::WatchFrom;
            (it.verb == Verb::Any || it.verb == verb || is_watch)
                && path.contains(&it.path)
                && it.left != Some(0)
        };
        let found = troubles.iter_mut().find(|it| concerns(it))?;
        found.left = found.left.map(|it| it - 1);
        Some(found.fault.clone())
    }
}
