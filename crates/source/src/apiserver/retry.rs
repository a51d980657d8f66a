//! When to ask the API server again. Pure: time and random numbers are arguments.

use std::time::{Duration, Instant};

use sluice_reconcile::Waits;

use super::Timeouts;
use super::failure::Failure;

/// The longest `Retry-After` that is honoured.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Why the next request of a kind is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The server ended the watch, as it does every few minutes.
    Closed,
    /// A watch that worked broke off, and why.
    Cut(String),
    /// No event and no bookmark came for [`Timeouts::silence`].
    Silent,
    /// 410 Gone: the version of the watch, or the page of the list, is not there any more.
    Expired,
    /// The server does not send lists as the beginning of a watch.
    NoStream,
    /// The list is empty where objects are expected.
    Empty,
    /// Everything else.
    Failed(Failure),
}

impl<T: Into<Failure>> From<T> for End {
    fn from(failure: T) -> Self {
        match failure.into() {
            Failure::Refused { code: 410, .. } => Self::Expired,
            failure => Self::Failed(failure),
        }
    }
}

impl End {
    /// There was no answer: an answer to any other request ends the wait.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.is_without_answer())
    }

    /// The status code of a refusal.
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Failed(failure) => failure.code(),
            _ => None,
        }
    }

    /// Why the objects are stale now; `None` for an end that is part of normal work.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Closed | Self::Cut(_) | Self::Silent | Self::Expired | Self::NoStream => None,
            Self::Empty => Some("the server says that there is nothing: asking again".to_owned()),
            Self::Failed(failure) => Some(failure.to_string()),
        }
    }
}

/// The waits of one kind. They double with each failure, up to [`Timeouts::longest_retry`].
///
/// An unreachable server is tried every [`Timeouts::reconnect`] or sooner: a connection that is not
/// accepted costs the server nothing. So is a server that answers with errors shortly after it was
/// unreachable: it still starts (403 until its RBAC cache is filled, 503, lists that break off).
#[derive(Debug)]
pub(super) struct Retry {
    timeouts: Timeouts,
    waits: Waits,
    /// Nothing has failed since the watch last worked.
    is_steady: bool,
    /// When a request last got no answer.
    unreachable_at: Option<Instant>,
    was_unreachable: bool,
}

impl Retry {
    pub(super) fn new(timeouts: Timeouts) -> Self {
        let longest = timeouts.longest_retry.max(timeouts.reconnect);
        Self {
            waits: Waits::new(timeouts.retry, longest),
            timeouts,
            is_steady: true,
            unreachable_at: None,
            was_unreachable: false,
        }
    }

    /// The watch works: earlier failures do not count any more.
    pub(super) fn succeed(&mut self) {
        self.waits.reset();
        self.is_steady = true;
    }

    /// Nothing has failed since the watch last worked.
    pub(super) fn is_steady(&self) -> bool {
        self.is_steady
    }

    /// The wait before the next request. `chance` is 0 to 1.
    pub(super) fn wait(&mut self, end: &End, now: Instant, chance: f64) -> Duration {
        let is_unreachable = end.is_unreachable();
        // The server answers: the time without a server does not count any more.
        if self.was_unreachable && !is_unreachable {
            self.succeed();
        }
        self.was_unreachable = is_unreachable;
        if is_unreachable {
            self.unreachable_at = Some(now);
        }
        if *end == End::NoStream {
            return Duration::ZERO;
        }
        let is_first = std::mem::take(&mut self.is_steady);
        let doubled = self.waits.take();
        let timeouts = &self.timeouts;
        let starts = |at| now.duration_since(at) < timeouts.recovery;
        let longest = if self.unreachable_at.is_some_and(starts) {
            timeouts.reconnect
        } else {
            timeouts.longest_retry
        };
        // Half of it more or less, so that the nodes of a cluster do not all come at once.
        let wait = doubled.min(longest).mul_f64(0.5 + chance);
        match end {
            End::Closed | End::Cut(_) | End::Silent if is_first => Duration::ZERO,
            // The versions of all nodes may have expired at once.
            End::Expired if is_first => timeouts.retry.mul_f64(chance),
            End::Failed(Failure::Refused { retry_after, .. }) => {
                wait.max(retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER))
            }
            _ => wait,
        }
    }
}

/// A random number of 0 to 1, good enough for jitter.
pub(super) fn chance() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let bits = RandomState::new().build_hasher().finish();
    f64::from((bits >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
