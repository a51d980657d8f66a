//! Parts of answers that all servers share.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Serialize;
use sluice_yaml::{shown, shown_json};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Timeout of an answer to a client: consumers answer between two steps.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Plain text that no browser interprets as another type, without a character that cannot be seen: names in it may be
/// anybody's.
pub fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    let head = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, head, shown(&text.into()).into_owned()).into_response()
}

/// JSON text, without a character that cannot be seen.
pub fn json(text: &str) -> Response {
    (
        [(header::CONTENT_TYPE, "application/json")],
        shown_json(text).into_owned(),
    )
        .into_response()
}

/// The pairs of a query.
pub fn query(uri: &Uri) -> HashMap<String, String> {
    let text = uri.query().unwrap_or_default().as_bytes();
    form_urlencoded::parse(text).into_owned().collect()
}

/// Waits for an answer of the runtime's thread.
///
/// # Errors
///
/// The response to send to the client instead: the agent is stopping, or busy with a step.
pub async fn await_answer<T>(answer: oneshot::Receiver<T>) -> Result<T, Response> {
    let unavailable = |why| plain(StatusCode::SERVICE_UNAVAILABLE, why);
    match timeout(ANSWER_TIMEOUT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(unavailable("the agent is stopping\n")),
        Err(_) => Err(unavailable("the agent is busy with a sync\n")),
    }
}

/// Makes entity tags (RFC 9110, section 8.8.3), so that a client that asks again gets no answer that it already has.
#[derive(Clone, Debug)]
pub struct Tags {
    /// Part of every entity tag: revisions of an earlier agent do not match ours.
    started: Arc<str>,
}

impl Tags {
    /// Tags of a process that starts now.
    #[must_use]
    pub fn now() -> Self {
        let started = format!("{:x}", Timestamp::now().as_nanosecond());
        Self {
            started: started.into(),
        }
    }

    /// The tag that a client knows of this agent's answers.
    #[must_use]
    pub fn known<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let tag = headers.get(header::IF_NONE_MATCH)?.to_str().ok()?;
        let tag = tag.strip_prefix('"')?.strip_suffix('"')?;
        tag.strip_prefix(&*self.started)?.strip_prefix('-')
    }

    /// JSON with its tag, or nothing for a client that knows the tag.
    pub fn answer<T: Serialize>(&self, headers: &HeaderMap, tag: &str, answer: &T) -> Response {
        self.tagged(headers, tag, || match serde_json::to_string(answer) {
            Ok(text) => json(&text),
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        })
    }

    /// JSON with a tag made of its content, for an answer without a revision.
    pub fn answer_by_content<T: Serialize>(&self, headers: &HeaderMap, answer: &T) -> Response {
        let content = serde_json::to_string(answer).unwrap_or_default();
        self.answer(headers, &hash_of(&content), answer)
    }

    pub(super) fn tagged(
        &self,
        headers: &HeaderMap,
        tag: &str,
        answer: impl FnOnce() -> Response,
    ) -> Response {
        if self.known(headers) == Some(tag) {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        let tag = format!("\"{}-{tag}\"", self.started);
        ([(header::ETAG, tag)], answer()).into_response()
    }
}

/// A tag of an answer that has no revision. It need not be stable between two agents.
pub(super) fn hash_of(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}
