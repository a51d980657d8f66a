//! The thread that watches a folder of manifests.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::eventfd::EventFd;
use nix::sys::inotify::{AddWatchFlags, InotifyEvent};
use sluice_reconcile::Backoff;

use super::held::Held;
use super::path::{Noticed, PathWatch, notice};
use super::settle::{Batch, MAX_WAIT, Notice, Settle, Verdict};
use super::{MISSING_RETRY, wait};
use crate::catalog::Catalog;
use crate::folder::{Folder, is_absent, is_manifest, is_subfolder};
use crate::hub::{Core, Hub, Joined, Request, Told};
use crate::object::Event;
use crate::report::Reported;
use sluice_yaml::escaped;

/// Quiet time after a missing folder has come back: time to fill it.
const RETURN_QUIET: Duration = Duration::from_secs(1);

/// Quiet time after the swap of a ConfigMap: the kubelet changes the names of its items then
/// (`pkg/volume/util/atomic_writer.go`).
const SWAP_QUIET: Duration = Duration::from_millis(40);

/// Work of a file that was not read yet, in objects.
const UNKNOWN: usize = 128;

/// Objects of the files that are read at once, if more have changed: about 20 ms.
const PART: usize = 512;

/// State of the thread of [`super::watch`].
pub(super) struct FolderWatch {
    path: PathBuf,
    /// `None` while the folder is missing.
    places: Option<PathWatch>,
    settle: Settle,
    folder: Folder,
    hub: Hub,
    core: Core,
    catalog: Catalog,
    /// Events that delete objects, and the events that came with them.
    held: Held,
    /// Events before the first list is complete.
    first: Vec<Event>,
    /// The files that the first list waits for, and until when: they were being written while it
    /// was read.
    awaited: (BTreeSet<String>, Instant),
    /// When to read again the entries that could not be read, and to watch the folders that could not be watched.
    retry: Backoff,
    /// Why there is no new watch: the earlier watch goes on, but may have missed changes.
    unwatched: Option<io::Error>,
    /// The problem with the folder itself, if there is one.
    problems: Reported<String, String>,
    is_synced: bool,
}

impl FolderWatch {
    pub(super) fn new(path: PathBuf, places: PathWatch, hub: Hub) -> Self {
        Self {
            folder: Folder::new(path.clone()),
            path,
            hub,
            core: Core::default(),
            places: Some(places),
            settle: Settle::new(Duration::ZERO),
            catalog: Catalog::default(),
            held: Held::default(),
            first: Vec::new(),
            awaited: (BTreeSet::new(), Instant::now()),
            retry: Backoff::default(),
            unwatched: None,
            problems: Reported::default(),
            is_synced: false,
        }
    }

    pub(super) fn run(mut self, stop: &EventFd) {
        self.settle.note(Notice::Everything, Instant::now());
        self.join();
        while wait(stop, self.hub.wake(), self.places.as_ref(), self.due()) {
            self.join();
            if self.note()
                && let Some(batch) = self.take()
            {
                self.scan(&batch);
            }
            if self.is_listed() {
                let events = self.held.take(self.is_more_to_come(), Instant::now());
                self.send(events, false);
            }
        }
    }

    /// Takes in the consumers that have come or gone.
    fn join(&mut self) {
        for request in self.hub.requests() {
            match request {
                Request::Join(join) => {
                    let joined = join(&mut self.core);
                    self.read_kinds(&joined.new);
                    if self.is_synced {
                        self.welcome(&joined);
                    }
                }
                Request::Leave(consumer) => {
                    let left = self.core.leave(consumer);
                    self.read_kinds(&left);
                }
            }
        }
    }

    /// Files may have objects of these topics, which are new, or over: then they are forgotten.
    fn read_kinds(&mut self, changed: &[usize]) {
        if !changed.is_empty() {
            self.catalog.read_kinds(&self.core.wanted());
            self.folder.doubt_all();
            self.settle.note(Notice::Everything, Instant::now());
        }
    }

    /// Sends a new consumer the known objects and problems. With new topics the next scan is its first complete list.
    fn welcome(&mut self, joined: &Joined) {
        let objects = self.catalog.objects();
        let objects = objects.into_iter().map(Event::Set);
        let problems = self.catalog.origins().chain(self.problems.origins());
        let told = self
            .core
            .split_for(&joined.topics, objects.chain(problems).collect());
        let complete = joined.new.is_empty().then_some(Told::Complete);
        let told: Vec<Told> = told.into_iter().chain(complete).collect();
        self.core.tell_one(joined.consumer, &told);
    }

    /// False while the folder is missing, or is to be listed: its objects are not gone then.
    fn is_listed(&self) -> bool {
        self.places.is_some() && !self.settle.is_everything()
    }

    /// Whether there are files to read, or a new one is being written: they may have the deleted objects.
    fn is_more_to_come(&self) -> bool {
        let mut writing = self.settle.writing();
        self.settle.has_more() || writing.any(|it| !self.folder.is_known(it))
    }

    /// The files to read now: a part of many, so that a small change does not wait for all of them.
    fn take(&mut self) -> Option<Batch> {
        let work = |name: &str| self.catalog.objects_of(name).unwrap_or(UNKNOWN);
        self.settle.take_part(Instant::now(), PART, work)
    }

    fn due(&self) -> Option<Instant> {
        let is_complete = self.places.as_ref().is_some_and(|it| it.is_complete);
        let retry = (!is_complete).then(|| Instant::now() + MISSING_RETRY);
        let held = (self.held.due(self.is_more_to_come())).filter(|_| self.is_listed());
        let waiting = [self.settle.due(), held, retry, self.retry.due()];
        waiting.into_iter().flatten().min()
    }

    /// Takes in the kernel's events. False when the path leads to another folder now, or to none.
    fn note(&mut self) -> bool {
        let reported = self.places.as_ref().and_then(|it| it.drain().ok());
        let is_same = self.places.as_ref().is_some_and(|it| it.is_of(&self.path));
        let mut is_sure = is_same && reported.is_some() && !self.retry();
        for it in reported.iter().flatten() {
            match it {
                Noticed::Way(_) => is_sure = false,
                Noticed::Entry(event, name) => {
                    if let Some(notice) = self.notice(event, name) {
                        if is_hidden(name) {
                            self.settle.wait_for(SWAP_QUIET);
                        }
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
                    self.restart();
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

    /// Retries the failed reads, if it is time. Returns whether to try a new watch.
    fn retry(&mut self) -> bool {
        let now = Instant::now();
        if self.retry.due().is_none_or(|it| now < it) {
            return false;
        }
        self.retry.begin();
        for name in self.folder.unreadable() {
            let notice = if self.path.join(&**name).is_dir() {
                Notice::Everything
            } else {
                Notice::Touched(name.to_string())
            };
            self.settle.note(notice, now);
        }
        self.unwatched.is_some()
    }

    /// Plans the next try of the reads that failed in this scan.
    fn plan_retry(&mut self) {
        if self.folder.unreadable().is_empty() && self.unwatched.is_none() {
            self.retry.succeed();
        } else if self.retry.due().is_none() {
            self.retry.fail(Instant::now());
        }
    }

    /// The meaning of an event about an entry with this path below the folder.
    fn notice(&self, event: &InotifyEvent, name: &str) -> Option<Notice> {
        let has = |flags| event.mask.intersects(flags);
        let (path, entry) = (self.path.join(name), name.rsplit('/').next()?);
        let is_new = has(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO);
        if is_hidden(name) {
            // `..data` of a ConfigMap.
            let is_swapped = has(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVE);
            return (is_swapped && path.is_symlink()).then_some(Notice::Everything);
        }
        let is_folder = has(AddWatchFlags::IN_ISDIR)
            || is_new && path.is_dir()
            || self.places.as_ref()?.has_subfolder(name);
        if is_folder && is_subfolder(entry) {
            return Some(Notice::Everything);
        }
        is_manifest(entry).then(|| notice(event, name, &path))
    }

    /// Forgets all changes that were noticed: the folder is another one, or none.
    fn restart(&mut self) {
        self.settle = Settle::new(Duration::ZERO);
        self.awaited.0.clear();
    }

    fn missing(&mut self, error: &impl fmt::Display) {
        self.places = None;
        self.unwatched = None;
        self.restart();
        let problem = format!("cannot be read: {error}: its last good state stays in force");
        self.report(Some(problem), Vec::new());
    }

    /// Lists every file. Each folder is watched before it is listed.
    fn list(&mut self) -> io::Result<Vec<Arc<str>>> {
        let (places, root, unwatched) = (&mut self.places, &self.path, &mut self.unwatched);
        if let Some(places) = places {
            places.forget_subfolders();
        }
        self.folder.list(|folder| {
            if let Some(places) = places.as_mut().filter(|_| !folder.is_empty())
                && let Err(error) = places.watch_subfolder(root, folder)
            {
                *unwatched = Some(error);
            }
        })
    }

    /// Reads the changed files and reports the result.
    fn scan(&mut self, batch: &Batch) {
        let mut names: Vec<Arc<str>> = if batch.everything {
            let listed = self.list();
            self.settle.drop_gone(|it| is_absent(&self.path.join(it)));
            match listed {
                Ok(names) => names,
                Err(error) => return self.missing(&error),
            }
        } else {
            batch.names.iter().map(|it| (&**it).into()).collect()
        };
        for name in batch.names.iter().chain(&batch.unfinished) {
            self.folder.doubt(name);
        }
        // A first list without a file would be worse than one with a half-written file.
        let is_first = !self.is_synced;
        names.retain(|it| is_first || !self.settle.is_pending(it));
        names.retain(|it| !batch.unfinished.contains(&**it));
        names.extend(batch.unfinished.iter().map(|it| Arc::from(&**it)));
        let mut fetched = self.folder.fetch(&names, &self.core.wanted());
        // If the folder vanished meanwhile, its files are not gone, it is.
        if !self.note() {
            return;
        }
        fetched.retain_mut(|it| {
            if batch.unfinished.contains(&*it.name) {
                it.set_unfinished();
                return true;
            }
            match self.settle.judge(&it.name) {
                Verdict::Again => return is_first,
                Verdict::Torn => it.set_unfinished(),
                Verdict::Whole => {}
            }
            true
        });
        if is_first {
            self.renew_awaited(batch);
        }
        let accepted = fetched.into_iter().map(|it| self.folder.accept(it));
        let events = self.catalog.apply(accepted.collect());
        self.plan_retry();
        let problem = self.unwatched.as_ref();
        let problem = problem.map(|it| format!("cannot be watched: {it}: changes are seen late"));
        self.report(problem, events);
    }

    /// Sets the files that the first complete list waits for, after a scan.
    fn renew_awaited(&mut self, read: &Batch) {
        let (names, until) = &mut self.awaited;
        if read.everything {
            *names = self.settle.pending().cloned().collect();
            *until = Instant::now() + MAX_WAIT;
        }
        let is_read = |it: &String| read.names.contains(it) && !self.settle.is_pending(it);
        names.retain(|it| !is_read(it) && !read.unfinished.contains(it));
        if *until <= Instant::now() {
            names.clear();
        }
    }

    /// Sends the new events to all consumers, if there are any.
    fn report(&mut self, problem: Option<String>, mut events: Vec<Event>) {
        let origin = escaped(&self.path.to_string_lossy());
        let problem = problem.map(|it| format!("{origin}: {it}"));
        events.extend(
            self.problems
                .replace(&origin, problem.into_iter().collect()),
        );
        if self.is_synced {
            let events = self.held.pass(events, Instant::now());
            let is_complete = self.is_listed();
            return self.send(events, is_complete);
        }
        self.first.append(&mut events);
        if self.awaited.0.is_empty() {
            let events = std::mem::take(&mut self.first);
            self.is_synced = self.places.is_some();
            self.send(events, self.is_synced);
        }
    }

    /// Tells all consumers. `is_complete`: they now have every object.
    fn send(&mut self, events: Vec<Event>, is_complete: bool) {
        let mut told = self.core.split(events);
        told.extend(is_complete.then_some(Told::Complete));
        self.core.tell(&told);
    }
}

/// Whether the last part of a path begins with a dot.
fn is_hidden(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|it| it.starts_with('.'))
}
