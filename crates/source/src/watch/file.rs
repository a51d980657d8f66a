//! One file, whichever way it changes: written in place, renamed over, removed, or behind a link
//! that is swapped, as in the volume of a ConfigMap.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::eventfd::EventFd;

use super::path::{Noticed, PathWatch, notice};
use super::settle::{Notice, Settle};
use super::{MISSING_RETRY, wait};

/// After the last change: an editor's or a kubelet's work is then done.
const QUIET: Duration = Duration::from_millis(200);

/// What the thread of [`super::watch_file`] owns.
pub(super) struct FileWatch<F> {
    path: PathBuf,
    places: PathWatch,
    settle: Settle,
    /// As last seen, `None` before the first look; inside, `None` when it could not be read.
    bytes: Option<Option<Vec<u8>>>,
    changed: F,
}

impl<F: FnMut()> FileWatch<F> {
    pub(super) fn new(path: PathBuf, changed: F) -> io::Result<Self> {
        Ok(Self {
            places: PathWatch::of_file(&path)?,
            path,
            settle: Settle::new(QUIET),
            bytes: None,
            changed,
        })
    }

    pub(super) fn run(mut self, stop: &EventFd) {
        // The file may have changed since the program read it and before it was watched.
        self.settle.note(Notice::Everything, Instant::now());
        loop {
            let retry = || (!self.places.is_complete).then(|| Instant::now() + MISSING_RETRY);
            let due = self.settle.due().or_else(retry);
            if !wait(stop, Some(&self.places), due) {
                return;
            }
            if let Err(error) = self.note() {
                let path = self.path.display();
                tracing::error!(%path, %error, "the file is not watched any more");
                return;
            }
            if self.settle.take(Instant::now()).is_some() {
                self.look();
            }
        }
    }

    /// Takes in what the kernel reports.
    fn note(&mut self) -> io::Result<()> {
        let (now, reported) = (Instant::now(), self.places.drain()?);
        for it in &reported {
            let (Noticed::Way(event) | Noticed::Entry(event)) = it;
            // One name for all entries on the way: they lead to the same file.
            let change = event.name.as_ref().map(|_| notice(event, "", &self.path));
            self.settle.note(change.unwrap_or(Notice::Everything), now);
        }
        let is_retry = !self.places.is_complete && self.settle.due().is_none();
        if is_retry {
            self.settle.note(Notice::Everything, now);
        }
        if is_retry || !reported.is_empty() {
            // Links may lead elsewhere now: the new places are watched before they are read.
            self.places = PathWatch::of_file(&self.path)?;
        }
        Ok(())
    }

    fn look(&mut self) {
        let bytes = Some(fs::read(&self.path).ok());
        if bytes != self.bytes {
            self.bytes = bytes;
            (self.changed)();
        }
    }
}
