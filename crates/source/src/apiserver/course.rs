//! What to ask the API server next. Pure: answers and chance come in, no clock, no connection.

use std::sync::Arc;
use std::time::Duration;

use super::http::Failure;
use super::pace::Backoff;

/// Answers with an error from a live server, in a row, after which its newest state is asked for.
const MAX_REFUSALS: u32 = 3;

/// Answers in a row that say that there is nothing, before that is believed.
const EMPTY_ANSWERS: u32 = 3;

/// The server must not keep us waiting for longer than this by `Retry-After`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Everything as the beginning of a watch (KEP-3157).
    Stream(Since),
    /// Everything, page by page; `whole`: in one page, because the next one came too late.
    Pages { since: Since, whole: bool },
    /// What changed after this version.
    Watch(Arc<str>),
}

/// How new a list has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// As new as the cluster is: a consistent read.
    Newest,
    /// At least this version: a server that lags behind must not take us back.
    NotOlderThan(Arc<str>),
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The list is complete and has been delivered.
    Listed,
    /// The list is complete, but not believed.
    Doubtful,
    /// The server closed the watch, as it does every few minutes.
    Closed,
    /// The watch has been silent for too long. The server may be dead; or it waits for our version
    /// to come, because etcd was restored and it never had it: only a list can tell.
    Silent(Duration),
    /// 410 Gone: the version or the page is not there any more.
    Expired,
    /// The server is older than what we know: it lags, or etcd was restored.
    Rewound,
    /// The server gives no list as a watch.
    NoStream,
    /// Anything else.
    Failed(Failure),
}

/// Where one resource stands.
#[derive(Debug)]
pub(super) struct Course {
    /// Of what has been delivered.
    version: Option<Arc<str>>,
    /// The version can be watched from.
    is_listed: bool,
    has_streams: bool,
    wants_newest: bool,
    wants_whole: bool,
    /// Every cluster has some of these objects.
    is_never_empty: bool,
    /// Complete lists in a row that were not believed.
    doubts: u32,
    refusals: u32,
    backoff: Backoff,
}

impl Course {
    pub(super) fn new(is_never_empty: bool, backoff: Backoff) -> Self {
        Self {
            version: None,
            is_listed: false,
            has_streams: true,
            wants_newest: false,
            wants_whole: false,
            is_never_empty,
            doubts: 0,
            refusals: 0,
            backoff,
        }
    }

    /// The next request.
    pub(super) fn ask(&self) -> Ask {
        let since = match &self.version {
            Some(version) if self.is_listed => return Ask::Watch(version.clone()),
            Some(version) if !self.wants_newest => Since::NotOlderThan(version.clone()),
            _ => Since::Newest,
        };
        // A doubtful answer is checked by the other way, which reads etcd.
        match self.has_streams && self.doubts == 0 {
            true => Ask::Stream(since),
            false => Ask::Pages {
                since,
                whole: self.wants_whole,
            },
        }
    }

    /// A list is complete. `Ok`: it counts, and its version is where the watch begins.
    ///
    /// An empty list in place of objects is only believed when two consistent reads, each after
    /// a wait, say the same; so is a first list without any Service.
    pub(super) fn listed(&mut self, version: &str, is_empty: Empty) -> Result<(), End> {
        if !self.wants_newest && self.is_older(version) {
            return Err(End::Rewound);
        }
        let is_odd = match is_empty {
            Empty::No => false,
            Empty::InPlaceOfObjects => true,
            Empty::AsBefore => self.is_never_empty && self.version.is_none(),
        };
        if is_odd && self.doubts + 1 < EMPTY_ANSWERS {
            return Err(End::Doubtful);
        }
        self.version = Some(version.into());
        self.is_listed = true;
        (self.wants_newest, self.wants_whole) = (false, false);
        self.doubts = 0;
        Ok(())
    }

    /// The watch has come to this version.
    pub(super) fn advance(&mut self, version: Arc<str>) -> Result<(), End> {
        if self.is_older(&version) {
            return Err(End::Rewound);
        }
        if self.version.as_ref() != Some(&version) {
            self.version = Some(version);
            self.steady();
        }
        Ok(())
    }

    /// The watch works: past failures do not count any more.
    pub(super) fn steady(&mut self) {
        self.backoff.reset();
        self.refusals = 0;
    }

    /// Nothing has failed since the watch last worked.
    pub(super) fn is_steady(&self) -> bool {
        self.backoff.failures() == 0
    }

    /// Takes in how the request ended; the wait before the next one. `chance` is of 0 to 1.
    pub(super) fn end(&mut self, end: &End, chance: f64) -> Duration {
        let had_failures = !self.is_steady();
        match end {
            End::Listed => return Duration::ZERO,
            End::NoStream => {
                self.has_streams = false;
                return Duration::ZERO;
            }
            End::Doubtful => {
                self.doubts += 1;
                self.relist_newest();
            }
            End::Closed => {}
            End::Expired => {
                self.wants_whole = !self.is_listed;
                self.is_listed = false;
            }
            End::Silent(_) => self.is_listed = false,
            End::Rewound => self.relist_newest(),
            End::Failed(failure) => return self.failed(failure, chance),
        }
        let wait = self.backoff.next(chance);
        // Once is nothing special. Again, before any watch has worked, is.
        match (end, had_failures) {
            (End::Closed | End::Silent(_) | End::Expired | End::Rewound, false) => Duration::ZERO,
            _ => wait,
        }
    }

    fn failed(&mut self, failure: &Failure, chance: f64) -> Duration {
        let wait = self.backoff.next(chance);
        match failure {
            // Nobody answered: what we know is as good as before.
            Failure::Unreachable(_) => wait,
            Failure::Garbage(_) => {
                self.refuse();
                wait
            }
            Failure::Refused(refusal) => {
                match refusal.code {
                    _ if refusal.is_too_new => self.relist_newest(),
                    // Busy: more questions would make it worse.
                    429 | 503 => {}
                    _ => self.refuse(),
                }
                let after = refusal.retry_after.unwrap_or_default();
                wait.max(after.min(LONGEST_RETRY_AFTER))
            }
        }
    }

    fn refuse(&mut self) {
        self.refusals += 1;
        if self.refusals >= MAX_REFUSALS {
            self.refusals = 0;
            self.relist_newest();
        }
    }

    fn relist_newest(&mut self) {
        self.is_listed = false;
        self.wants_newest = true;
    }

    /// Versions that are numbers can be compared; all others are taken as they come.
    fn is_older(&self, version: &str) -> bool {
        let number = |it: &str| it.parse::<u128>().ok();
        let ours = self.version.as_deref().and_then(number);
        number(version)
            .zip(ours)
            .is_some_and(|(it, ours)| it < ours)
    }
}

/// Whether a list has nothing in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    /// It has something.
    No,
    /// Nothing, and there was nothing.
    AsBefore,
    /// Nothing, where there was something.
    InPlaceOfObjects,
}

#[cfg(test)]
mod tests;
