//! The loop of the watch's thread.

use std::fmt;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use sluice_model::Event;

use super::gate::Gate;
use super::notice::Notice;
use super::settle::{Batch, Settle};
use crate::catalog::Catalog;
use crate::folder::{Fetched, Folder};

/// How often a missing folder is looked for: the only time there is polling.
const MISSING_RETRY: Duration = Duration::from_secs(1);

type Sink = Box<dyn FnMut(Vec<Event>) + Send>;

/// Everything the thread owns.
pub(super) struct Run {
    dir: PathBuf,
    /// `None` while the folder is missing.
    gate: Option<Gate>,
    stop: Arc<EventFd>,
    settle: Settle,
    folder: Folder,
    catalog: Catalog,
    sink: Sink,
    /// What is wrong with the folder itself, as it was told.
    trouble: Option<String>,
    synced: bool,
    /// How often another folder took the place of the first.
    reopened: u64,
}

impl Run {
    pub(super) fn new(dir: PathBuf, gate: Gate, stop: Arc<EventFd>, sink: Sink) -> Self {
        Self {
            folder: Folder::new(dir.clone()),
            dir,
            gate: Some(gate),
            stop,
            settle: Settle::default(),
            catalog: Catalog::default(),
            sink,
            trouble: None,
            synced: false,
            reopened: 0,
        }
    }

    pub(super) fn run(mut self) {
        self.settle.note(Notice::Everything, Instant::now());
        while self.wait() {
            self.hear();
            if self.gate.is_none() {
                self.reopen();
            } else if let Some(batch) = self.settle.take(Instant::now()) {
                self.scan(batch);
            }
        }
    }

    /// Waits for the kernel, for a change to settle, or for the end (false).
    fn wait(&self) -> bool {
        let due = match self.gate {
            None => Some(MISSING_RETRY),
            Some(_) => self
                .settle
                .due()
                .map(|it| it.saturating_duration_since(Instant::now())),
        };
        // One millisecond more, because poll cuts: it must not wake just before the time.
        let timeout = due.map_or(PollTimeout::NONE, |it| {
            PollTimeout::try_from(it + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
        if let Some(gate) = &self.gate {
            fds.push(PollFd::new(gate.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => !fds[0].any().unwrap_or(true),
            Err(error) => {
                tracing::error!(%error, dir = %self.dir.display(), "manifests are not watched any more");
                false
            }
        }
    }

    /// Takes in what the kernel says.
    fn hear(&mut self) {
        let Some(gate) = &self.gate else {
            return;
        };
        let now = Instant::now();
        let notices = gate.drain();
        let is_suspect = match &notices {
            Ok(notices) => notices.contains(&Notice::Folder),
            Err(_) => true,
        };
        for notice in notices.into_iter().flatten() {
            self.settle.note(notice, now);
        }
        if is_suspect {
            self.check_gate();
        }
    }

    /// Whether the folder that is watched is still the one that the path leads to. If not, looks
    /// for the new one.
    fn check_gate(&mut self) -> bool {
        if self.gate.as_ref().is_some_and(Gate::is_current) {
            return true;
        }
        if self.gate.take().is_some() {
            self.settle.clear();
            self.reopen();
        }
        false
    }

    /// Looks for the folder that is gone, or for the one that took its place.
    fn reopen(&mut self) {
        let opened = Gate::open(&self.dir).and_then(|gate| {
            std::fs::read_dir(&self.dir)?;
            Ok(gate)
        });
        match opened {
            Ok(gate) => {
                self.gate = Some(gate);
                self.reopened += 1;
                self.settle.returned(Instant::now());
            }
            Err(error) => self.missing(&error),
        }
    }

    fn missing(&mut self, error: &impl fmt::Display) {
        let text = format!("cannot be read: {error}: its last good state stays in force");
        self.tell(Some(text), Vec::new());
    }

    /// Reads what changed and says what follows.
    fn scan(&mut self, batch: Batch) {
        let names = match batch {
            Batch::Names(names) => names.into_iter().map(Arc::from).collect(),
            Batch::Everything => match self.folder.list() {
                Ok(names) => names,
                Err(error) => {
                    self.gate = None;
                    self.missing(&error);
                    return;
                }
            },
        };
        // A first list without a file would be worse than one with a half-written file.
        let is_ready = |it: &Arc<str>| !self.synced || !self.settle.is_pending(it);
        let names: Vec<Arc<str>> = names.into_iter().filter(is_ready).collect();
        let fetched = self.folder.fetch(&names);
        // Whatever began to change before it was read has been heard of by now, and is read again
        // once it has settled. The same for the folder: if it vanished meanwhile, its files are
        // not gone, it is.
        let before = self.reopened;
        self.hear();
        if !self.check_gate() || self.reopened != before {
            return;
        }
        let is_ready = |it: &Fetched| !self.synced || !self.settle.is_pending(&it.name);
        let ready: Vec<Fetched> = fetched.into_iter().filter(is_ready).collect();
        let changes = ready.into_iter().map(|it| self.folder.accept(it)).collect();
        let events = self.catalog.apply(changes);
        self.tell(None, events);
    }

    /// Calls the sink with what is new, if anything is.
    fn tell(&mut self, trouble: Option<String>, mut events: Vec<Event>) {
        if trouble != self.trouble {
            let origin = self.dir.to_string_lossy();
            let problems = trouble.iter().map(|it| format!("{origin}: {it}")).collect();
            let origin = origin.as_ref().into();
            events.push(Event::Problems { origin, problems });
            self.trouble = trouble;
        }
        if !self.synced && self.trouble.is_none() {
            events.push(Event::Synced);
            self.synced = true;
        }
        if !events.is_empty() {
            (self.sink)(events);
        }
    }
}
