//! Watches one file, however it changes: written in place, renamed over, removed, or behind a link that is swapped,
//! as in the volume of a ConfigMap.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::eventfd::EventFd;
use sluice_reconcile::Backoff;

use crate::manifest::MAX_BYTES;
use crate::regular::read_regular;

use super::path::{Noticed, PathWatch, notice};
use super::settle::{Notice, Settle, Verdict};
use super::{MISSING_RETRY, wait};

/// Quiet time after the last change: an editor or a kubelet is then done.
const QUIET: Duration = Duration::from_millis(200);

/// The one name of all entries on the way: they lead to the same file.
const ANY: String = String::new();

/// State of the thread of [`super::watch_file`].
pub(super) struct FileWatch<F> {
    path: PathBuf,
    /// `None` while the kernel has no watch for us: then the file is read every second.
    places: Option<PathWatch>,
    settle: Settle,
    /// The last result that `changed` got; `None` before the first look.
    told: Option<Result<Vec<u8>, io::ErrorKind>>,
    /// When to read a file again that could not be read.
    retry: Backoff,
    changed: F,
}

impl<F: FnMut(io::Result<Vec<u8>>)> FileWatch<F> {
    pub(super) fn new(path: PathBuf, changed: F) -> io::Result<Self> {
        Ok(Self {
            places: Some(PathWatch::of_file(&path)?),
            path,
            settle: Settle::new(QUIET),
            told: None,
            retry: Backoff::default(),
            changed,
        })
    }

    pub(super) fn run(mut self, stop: &EventFd) {
        // The file may have changed since the program read it and before it was watched.
        self.settle.note(Notice::Touched(ANY), Instant::now());
        while wait(stop, None, self.places.as_ref(), self.due()) {
            self.note();
            let now = Instant::now();
            let is_retry = self.retry.due().is_some_and(|it| it <= now);
            if self.settle.take(now).is_some() || is_retry {
                self.look();
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        let missing = || (!self.is_complete()).then(|| Instant::now() + MISSING_RETRY);
        let settled = self.settle.due().or_else(missing);
        settled.into_iter().chain(self.retry.due()).min()
    }

    fn is_complete(&self) -> bool {
        self.places.as_ref().is_some_and(|it| it.is_complete)
    }

    /// Takes in what the kernel reports.
    fn note(&mut self) {
        let now = Instant::now();
        let reported = self.places.as_ref().map(PathWatch::drain);
        // The lost events may be changes.
        let is_lost = !matches!(reported, Some(Ok(_)));
        let reported = reported.and_then(Result::ok).unwrap_or_default();
        for it in &reported {
            let (Noticed::Way(event) | Noticed::Entry(event, _)) = it;
            let change = event.name.as_ref().map(|_| notice(event, &ANY, &self.path));
            self.settle
                .note(change.unwrap_or(Notice::Touched(ANY)), now);
        }
        let is_retry = (is_lost || !self.is_complete()) && self.settle.due().is_none();
        if is_retry {
            self.settle.note(Notice::Touched(ANY), now);
        }
        if is_retry || !reported.is_empty() {
            // Links may lead elsewhere now: the new places are watched before they are read.
            match PathWatch::of_file(&self.path) {
                Ok(places) => self.places = Some(places),
                Err(error) => self.unwatched(&error),
            }
        }
    }

    fn unwatched(&mut self, error: &io::Error) {
        if self.places.take().is_some() {
            let path = self.path.display();
            tracing::warn!(%path, %error, "the file cannot be watched: reading it every second");
        }
    }

    fn look(&mut self) {
        self.retry.begin();
        let read = read_regular(&self.path, MAX_BYTES);
        self.note();
        // A path that is not complete is noted as changed by every look.
        if self.is_complete() && self.settle.judge(&ANY) == Verdict::Again {
            return;
        }
        match &read {
            Ok(_) => self.retry.succeed(),
            Err(_) => self.retry.fail(Instant::now()),
        }
        let seen = read.as_ref().map(Vec::clone).map_err(io::Error::kind);
        if self.told.as_ref() != Some(&seen) {
            self.told = Some(seen);
            (self.changed)(read);
        }
    }
}
