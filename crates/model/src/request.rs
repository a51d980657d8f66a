//! What a source tells of its requests, for metrics.

use std::time::Duration;

/// An HTTP request to the API server that was answered or has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiRequest<'a> {
    /// The HTTP method as client-go counts it: `LIST` and `WATCH` are `GET`.
    pub method: &'a str,
    /// Host and port of the API server.
    pub host: &'a str,
    /// The HTTP status; `None` without an answer.
    pub code: Option<u16>,
    /// From the request to the head of the answer. A watch goes on after that.
    pub elapsed: Duration,
}
