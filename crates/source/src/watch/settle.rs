//! When a change is complete. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A writer that does nothing for so long has written all it had.
const WRITER_QUIET: Duration = Duration::from_secs(1);

/// The longest a change waits for other changes and other files' writers.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// A change of a watched path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Somebody created or wrote to a file, and has not closed it yet.
    Writing(String),
    /// A file has other rights or times: often the last thing a writer does before it closes.
    Touched(String),
    /// A file is complete, renamed or gone.
    Settled(String),
    /// Anything may have changed.
    Everything,
}

/// What is to be read now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Batch {
    /// These files.
    Names(Vec<String>),
    /// Every file, but not those that are pending again.
    Everything,
}

/// Changes that have not been acted on.
#[derive(Debug)]
pub(super) struct Settle {
    /// After the last change, before it is acted on.
    quiet: Duration,
    /// The same for the next batch only.
    next_quiet: Duration,
    /// Files that are being written, and when that was last seen.
    writing: BTreeMap<String, Instant>,
    names: BTreeSet<String>,
    everything: bool,
    /// First and last change among those that are complete.
    since: Option<(Instant, Instant)>,
}

impl Settle {
    pub(super) fn new(quiet: Duration) -> Self {
        Self {
            quiet,
            next_quiet: quiet,
            writing: BTreeMap::new(),
            names: BTreeSet::new(),
            everything: false,
            since: None,
        }
    }

    /// Waits longer after the last change, for the next batch only.
    pub(super) fn wait_for(&mut self, quiet: Duration) {
        self.next_quiet = quiet;
    }

    /// Takes in what happened.
    pub(super) fn note(&mut self, notice: Notice, now: Instant) {
        match notice {
            Notice::Writing(name) => {
                self.names.remove(&name);
                self.writing.insert(name, now);
                return;
            }
            Notice::Touched(name) if self.writing.contains_key(&name) => {
                self.writing.insert(name, now);
                return;
            }
            Notice::Settled(name) | Notice::Touched(name) => {
                self.writing.remove(&name);
                self.names.insert(name);
            }
            Notice::Everything => self.everything = true,
        }
        let first = self.since.map_or(now, |(first, _)| first);
        self.since = Some((first, now));
    }

    /// Whether a file is being written, or has changed since the last batch.
    pub(super) fn is_pending(&self, name: &str) -> bool {
        self.writing.contains_key(name) || self.names.contains(name)
    }

    /// When to call [`Settle::take`] if nothing happens before.
    pub(super) fn due(&self) -> Option<Instant> {
        let writers = self.writing.values().map(|it| *it + WRITER_QUIET);
        let Some((first, last)) = self.since else {
            return writers.min();
        };
        let quiet = last + self.next_quiet;
        let all_closed = writers.max().map_or(quiet, |it| it.max(quiet));
        Some(all_closed.min(first + MAX_WAIT))
    }

    /// The change that is complete now, if there is one.
    pub(super) fn take(&mut self, now: Instant) -> Option<Batch> {
        if self.due().is_none_or(|it| now < it) {
            return None;
        }
        let silent = |_: &String, it: &mut Instant| *it + WRITER_QUIET <= now;
        let silent = self.writing.extract_if(.., silent);
        self.names.extend(silent.map(|(name, _)| name));
        self.since = None;
        self.next_quiet = self.quiet;
        let names = std::mem::take(&mut self.names);
        if std::mem::take(&mut self.everything) {
            return Some(Batch::Everything);
        }
        Some(Batch::Names(names.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests;
