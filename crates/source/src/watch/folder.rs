//! The thread that watches a folder of manifests.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::eventfd::EventFd;
use nix::sys::inotify::{AddWatchFlags, InotifyEvent};
use sluice_model::Event;
use sluice_reconcile::Backoff;

use super::path::{Noticed, PathWatch, notice};
use super::settle::{Batch, Notice, Settle};
use super::{MISSING_RETRY, wait};
use crate::catalog::Catalog;
use crate::folder::{Fetched, Folder, is_manifest};
use crate::report::Reported;
use sluice_yaml::escaped;

/// After the last change: an editor's rename-over, or `mv` of an object between two files, is then
/// one change.
const QUIET: Duration = Duration::from_millis(50);

/// After a missing folder has come back: time to fill it.
const RETURN_QUIET: Duration = Duration::from_secs(1);

type Sink = Box<dyn FnMut(Vec<Event>) + Send>;

/// What the thread of [`super::watch`] owns.
pub(super) struct FolderWatch {
    path: PathBuf,
    /// `None` while the folder is missing.
    places: Option<PathWatch>,
    settle: Settle,
    folder: Folder,
    catalog: Catalog,
    sink: Sink,
    /// When to read again what could not be read, and to watch what could not be watched.
    retry: Backoff,
    /// Why there is no new watch: the one before goes on, but may have missed something.
    unwatched: Option<io::Error>,
    /// The problem with the folder itself, if there is one.
    problems: Reported<String, String>,
    is_synced: bool,
}

impl FolderWatch {
    pub(super) fn new(path: PathBuf, places: PathWatch, sink: Sink) -> Self {
        Self {
            folder: Folder::new(path.clone()),
            path,
            places: Some(places),
            settle: Settle::new(QUIET),
            catalog: Catalog::default(),
            sink,
            retry: Backoff::default(),
            unwatched: None,
            problems: Reported::default(),
            is_synced: false,
        }
    }

    pub(super) fn run(mut self, stop: &EventFd) {
        self.settle.note(Notice::Everything, Instant::now());
        while wait(stop, self.places.as_ref(), self.due()) {
            if self.note()
                && let Some(batch) = self.settle.take(Instant::now())
            {
                self.scan(batch);
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        let is_complete = self.places.as_ref().is_some_and(|it| it.is_complete);
        let retry = (!is_complete).then(|| Instant::now() + MISSING_RETRY);
        let settled = self.settle.due();
        let waiting = [settled, retry, self.retry.due()];
        waiting.into_iter().flatten().min()
    }

    /// Takes in what the kernel reports. False when the path leads to another folder now, or to
    /// none.
    fn note(&mut self) -> bool {
        let reported = self.places.as_ref().and_then(|it| it.drain().ok());
        let is_same = self.places.as_ref().is_some_and(|it| it.is_of(&self.path));
        let mut is_sure = is_same && reported.is_some() && !self.retry();
        for it in reported.iter().flatten() {
            match it {
                Noticed::Way(_) => is_sure = false,
                Noticed::Entry(event) => {
                    if let Some(notice) = self.notice(event) {
                        self.settle.note(notice, Instant::now());
                    }
                }
            }
        }
        if is_sure {
            return true;
        }
        match PathWatch::of_folder(&self.path) {
            Ok(places) => {
                let is_same = is_same && places.is_of(&self.path);
                if !is_same {
                    self.settle = Settle::new(QUIET);
                    self.settle.wait_for(RETURN_QUIET);
                }
                self.places = Some(places);
                self.unwatched = None;
                self.settle.note(Notice::Everything, Instant::now());
                is_same
            }
            Err(error) if is_same => {
                self.unwatched = Some(error);
                self.settle.note(Notice::Everything, Instant::now());
                true
            }
            Err(error) => {
                self.missing(&error);
                false
            }
        }
    }

    /// Tries again what failed, if it is time. Whether a new watch is to be tried.
    fn retry(&mut self) -> bool {
        let now = Instant::now();
        if self.retry.due().is_none_or(|it| now < it) {
            return false;
        }
        self.retry.begin();
        for name in self.folder.unreadable() {
            self.settle.note(Notice::Touched(name.to_string()), now);
        }
        self.unwatched.is_some()
    }

    /// After a scan: what it could not read is tried again later.
    fn plan_retry(&mut self) {
        if self.folder.unreadable().is_empty() && self.unwatched.is_none() {
            self.retry.succeed();
        } else if self.retry.due().is_none() {
            self.retry.fail(Instant::now());
        }
    }

    fn notice(&self, event: &InotifyEvent) -> Option<Notice> {
        let name = event.name.as_ref()?.to_str()?;
        let path = self.path.join(name);
        if name.starts_with('.') {
            // `..data` of a ConfigMap.
            let swapped = AddWatchFlags::IN_MOVE | AddWatchFlags::IN_CREATE;
            let is_swapped = event.mask.intersects(swapped) && path.is_symlink();
            return is_swapped.then_some(Notice::Everything);
        }
        is_manifest(name).then(|| notice(event, name, &path))
    }

    fn missing(&mut self, error: &impl fmt::Display) {
        self.places = None;
        self.unwatched = None;
        self.settle = Settle::new(QUIET);
        let problem = format!("cannot be read: {error}: its last good state stays in force");
        self.report(Some(problem), Vec::new());
    }

    /// Reads what changed and reports what follows.
    fn scan(&mut self, batch: Batch) {
        let names = match batch {
            Batch::Names(names) => names.into_iter().map(Arc::from).collect(),
            Batch::Everything => match self.folder.list() {
                Ok(names) => names,
                Err(error) => return self.missing(&error),
            },
        };
        // A first list without a file would be worse than one with a half-written file.
        let is_ready = |it: &Arc<str>| !self.is_synced || !self.settle.is_pending(it);
        let names: Vec<Arc<str>> = names.into_iter().filter(is_ready).collect();
        let fetched = self.folder.fetch(&names);
        // A file that began to change before it was read is pending by now, and is read again once
        // it has settled. If the folder vanished meanwhile, its files are not gone, it is.
        if !self.note() {
            return;
        }
        let is_ready = |it: &Fetched| !self.is_synced || !self.settle.is_pending(&it.name);
        let ready: Vec<Fetched> = fetched.into_iter().filter(is_ready).collect();
        let changes = ready.into_iter().map(|it| self.folder.accept(it)).collect();
        let events = self.catalog.apply(changes);
        self.plan_retry();
        let problem = self.unwatched.as_ref();
        let problem = problem.map(|it| format!("cannot be watched: {it}: changes are seen late"));
        self.report(problem, events);
    }

    /// Calls the sink with what is new, if anything is.
    fn report(&mut self, problem: Option<String>, mut events: Vec<Event>) {
        let origin = escaped(&self.path.to_string_lossy());
        let problem = problem.map(|it| format!("{origin}: {it}"));
        events.extend(
            self.problems
                .replace(&origin, problem.into_iter().collect()),
        );
        if !self.is_synced && !self.problems.contains(&origin) {
            events.push(Event::Synced);
            self.is_synced = true;
        }
        if !events.is_empty() {
            (self.sink)(events);
        }
    }
}
