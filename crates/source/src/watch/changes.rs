//! Watches a folder for readers that read all of it again after any change.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::eventfd::EventFd;
use sluice_reconcile::Backoff;

use super::path::{Noticed, PathWatch, notice};
use super::settle::{Notice, Settle};
use super::{MISSING_RETRY, Reading, wait};
use crate::folder::{Folder, is_manifest};

/// Quiet time after the last change: most writers of several files are then done.
const QUIET: Duration = Duration::from_millis(40);

/// State of the thread of [`super::watch_changes`].
pub(super) struct ChangeWatch<F> {
    path: PathBuf,
    /// `None` while the folder is missing or the kernel has no watch for us.
    places: Option<PathWatch>,
    settle: Settle,
    /// When to call `changed` again after it failed.
    retry: Backoff,
    changed: F,
}

impl<F: FnMut() -> Reading> ChangeWatch<F> {
    pub(super) fn new(path: PathBuf, changed: F) -> io::Result<Self> {
        Ok(Self {
            places: Some(places(&path)?),
            path,
            settle: Settle::new(QUIET),
            retry: Backoff::default(),
            changed,
        })
    }

    pub(super) fn run(mut self, stop: &EventFd) {
        self.settle.note(Notice::Everything, Instant::now());
        while wait(stop, None, self.places.as_ref(), self.due()) {
            self.note();
            let now = Instant::now();
            let is_retry = self.retry.due().is_some_and(|it| it <= now);
            if self.settle.take(now).is_some() || is_retry {
                self.retry.begin();
                match (self.changed)() {
                    Reading::Done => self.retry.succeed(),
                    Reading::Failed => self.retry.fail(Instant::now()),
                }
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        let is_complete = self.places.as_ref().is_some_and(|it| it.is_complete);
        let missing = (!is_complete).then(|| Instant::now() + MISSING_RETRY);
        let waiting = [self.settle.due(), missing, self.retry.due()];
        waiting.into_iter().flatten().min()
    }

    /// Takes in what the kernel reports. Folders that come or go are watched anew, before they are read.
    fn note(&mut self) {
        let now = Instant::now();
        let reported = self.places.as_ref().and_then(|it| it.drain().ok());
        let mut is_sure =
            reported.is_some() && self.places.as_ref().is_some_and(|it| it.is_of(&self.path));
        for it in reported.iter().flatten() {
            match it {
                Noticed::Entry(event, name)
                    if is_manifest(name.rsplit('/').next().unwrap_or(name)) =>
                {
                    self.settle
                        .note(notice(event, name, &self.path.join(name)), now);
                }
                Noticed::Entry(..) | Noticed::Way(_) => is_sure = false,
            }
        }
        if !is_sure {
            self.places = places(&self.path).ok();
            self.settle.note(Notice::Everything, now);
        }
    }
}

/// Watches of a folder and its subfolders.
fn places(path: &Path) -> io::Result<PathWatch> {
    let mut places = PathWatch::of_folder(path)?;
    let mut failed = None;
    Folder::new(path.to_owned()).list(|folder| {
        if !folder.is_empty()
            && let Err(error) = places.watch_subfolder(path, folder)
        {
            failed = Some(error);
        }
    })?;
    failed.map_or(Ok(places), Err)
}
