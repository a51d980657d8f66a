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
    /// How long the request waited because of the limit of requests a second; `None` for a watch,
    /// which has no limit.
    pub waited: Option<Duration>,
    /// Bytes of the request's body; `None` when they are not known beforehand.
    pub sent: Option<u64>,
    /// Bytes of the answer's body that were read; `None` for a watch and without an answer.
    pub received: Option<u64>,
}
