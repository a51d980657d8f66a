//! Who counts requests.

use std::sync::Arc;
use std::time::Duration;

/// One HTTP request that has been answered, or has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    /// Host and port of the API server.
    pub host: &'a str,
    /// The status code; `None` when there was no answer.
    pub code: Option<u16>,
    /// Until the head of the answer was there: a watch goes on after that.
    pub took: Duration,
}

/// Is told of every request.
pub trait Observe: Send + Sync {
    /// One request is done.
    fn request(&self, observed: Observed<'_>);
}

/// Counts nothing.
impl Observe for () {
    fn request(&self, _observed: Observed<'_>) {}
}

impl<T: Observe + ?Sized> Observe for Arc<T> {
    fn request(&self, observed: Observed<'_>) {
        (**self).request(observed);
    }
}
