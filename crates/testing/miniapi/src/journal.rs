//! What clients asked.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use sluice_api::query;

/// One request, as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `POST`, ...
    pub method: String,
    /// The path without query.
    pub path: String,
    /// The query string as sent, without `?`.
    pub query: String,
    /// Header `User-Agent`.
    pub user_agent: Option<String>,
    /// Header `Authorization`.
    pub authorization: Option<String>,
    /// Header `Accept`.
    pub accept: Option<String>,
    /// Header `Content-Type`.
    pub content_type: Option<String>,
    /// The connection it came on, counted from 1.
    pub connection: u64,
}

impl Request {
    /// A parameter of the query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        query::parameter(&self.query, name)
    }

    /// Whether it asks for a watch.
    pub fn is_watch(&self) -> bool {
        self.parameter("watch")
            .is_some_and(|it| query::boolean(&it))
    }
}

/// All requests so far.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    requests: Mutex<Vec<Request>>,
    grown: Condvar,
}

impl Journal {
    pub(crate) fn push(&self, request: Request) {
        self.lock().push(request);
        self.grown.notify_all();
    }

    pub(crate) fn all(&self) -> Vec<Request> {
        self.lock().clone()
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Waits until `wanted` says yes to all requests so far.
    pub(crate) fn wait(&self, within: Duration, wanted: impl Fn(&[Request]) -> bool) -> bool {
        let short = |requests: &mut Vec<Request>| !wanted(requests);
        let waited = self.grown.wait_timeout_while(self.lock(), within, short);
        !waited
            .expect("nobody panics with the journal")
            .1
            .timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests
            .lock()
            .expect("nobody panics with the journal")
    }
}
