//! When a change is complete. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::notice::Notice;

/// After the last change, before it is acted on: an editor's rename-over, or `mv` of an object
/// between two files, is then one change.
const QUIET: Duration = Duration::from_millis(50);

/// A writer that does nothing for so long has written all it had.
const WRITER_QUIET: Duration = Duration::from_secs(1);

/// The longest a change waits for other changes and other files' writers.
const MAX_HOLD: Duration = Duration::from_secs(2);

/// After a vanished folder has come back: time to fill it.
const RETURN_QUIET: Duration = Duration::from_secs(1);

/// Changes that have not been acted on.
#[derive(Debug, Default)]
pub(super) struct Settle {
    /// Files that are being written, and when that was last seen.
    writing: BTreeMap<String, Instant>,
    names: BTreeSet<String>,
    everything: bool,
    /// First and last change among those that are complete.
    since: Option<(Instant, Instant)>,
    quiet: Duration,
}

/// What is to be looked at now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Batch {
    /// These files.
    Names(Vec<String>),
    /// Every file, but not those that are pending again.
    Everything,
}

impl Settle {
    /// Takes in what happened. [`Notice::Folder`] is not for here.
    pub(super) fn note(&mut self, notice: Notice, now: Instant) {
        match notice {
            Notice::Writing(name) => {
                self.names.remove(&name);
                self.writing.insert(name, now);
            }
            Notice::Touched(name) if self.writing.contains_key(&name) => {
                self.writing.insert(name, now);
            }
            Notice::Settled(name) | Notice::Touched(name) => {
                self.writing.remove(&name);
                self.names.insert(name);
                self.complete(now);
            }
            Notice::Everything => {
                self.everything = true;
                self.complete(now);
            }
            Notice::Folder => {}
        }
    }

    /// The folder has come back, or is another one: look at everything once it is filled.
    pub(super) fn returned(&mut self, now: Instant) {
        self.quiet = RETURN_QUIET;
        self.note(Notice::Everything, now);
    }

    /// Forgets everything: the folder is gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a file is being written, or has changed since the last batch.
    pub(super) fn is_pending(&self, name: &str) -> bool {
        self.writing.contains_key(name) || self.names.contains(name)
    }

    fn complete(&mut self, now: Instant) {
        let first = self.since.map_or(now, |(first, _)| first);
        self.since = Some((first, now));
    }

    /// When to call [`Settle::take`] if nothing happens before.
    pub(super) fn due(&self) -> Option<Instant> {
        let writers = self.writing.values().map(|it| *it + WRITER_QUIET);
        let Some((first, last)) = self.since else {
            return writers.min();
        };
        let quiet = last + self.quiet.max(QUIET);
        let all_closed = writers.max().map_or(quiet, |it| it.max(quiet));
        Some(all_closed.min(first + MAX_HOLD))
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
        self.quiet = QUIET;
        let names = std::mem::take(&mut self.names);
        if std::mem::take(&mut self.everything) {
            return Some(Batch::Everything);
        }
        Some(Batch::Names(names.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests;
