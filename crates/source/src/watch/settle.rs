//! Which changes are complete. Pure: time is an argument.
//!
//! A file is complete when its writer has closed it, or when it was renamed or linked into place. A
//! file that is being written waits for its writer, for a bounded time; no other file waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A writer that writes nothing for this long is not waited for any more.
const WRITER_QUIET: Duration = Duration::from_secs(1);

/// The longest wait for a writer, and for other changes where there is a quiet time.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(2);

/// Of so many files the smallest are first: whoever fills the folder is trusted.
const SORTED: usize = 1024;

/// A file of so little work is small. Every second part of many files has only small ones, if there are any: so these wait
/// for one part at most.
const SMALL: usize = 16;

/// A change of a watched path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// A file was created or written, and its writer has not closed it yet.
    Writing(String),
    /// A file has other rights or times: often the last thing a writer does before it closes.
    Touched(String),
    /// The writer of a file has closed it, or the file is gone.
    Settled(String),
    /// A complete file was renamed or linked into place.
    Replaced(String),
    /// Anything may have changed.
    Everything,
}

/// The files to read now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    /// Read every file, except those that are pending again.
    pub(super) everything: bool,
    /// These files, which are complete.
    pub(super) names: BTreeSet<String>,
    /// These files, whose writers have not closed them: more may follow.
    pub(super) unfinished: BTreeSet<String>,
}

/// How the content counts that was read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts: the file did not change meanwhile.
    Whole,
    /// It does not count: the file changed meanwhile, and is read again.
    Again,
    /// It counts, though the file changed meanwhile for the second time.
    Torn,
}

/// Changes that have not been acted on.
#[derive(Debug)]
pub(super) struct Settle {
    /// Quiet time between the last complete change and the read.
    quiet: Duration,
    /// The quiet time of the next batch only.
    next_quiet: Duration,
    /// Files that are being written, with the times of the first and the last event.
    writing: BTreeMap<String, (Instant, Instant)>,
    /// Files that were written and closed, or are gone.
    names: BTreeSet<String>,
    /// Files that were replaced: a reader gets the old or the new content, never a mixture.
    replaced: BTreeSet<String>,
    everything: bool,
    /// Times of the first and the last complete change.
    since: Option<(Instant, Instant)>,
    /// Files that changed while they were read last.
    torn: BTreeSet<String>,
    /// The last part of many files had one that is not small.
    was_large: bool,
}

impl Settle {
    pub(super) fn new(quiet: Duration) -> Self {
        Self {
            quiet,
            next_quiet: quiet,
            writing: BTreeMap::new(),
            names: BTreeSet::new(),
            replaced: BTreeSet::new(),
            everything: false,
            since: None,
            torn: BTreeSet::new(),
            was_large: false,
        }
    }

    /// Waits longer after the last change, for the next batch only.
    pub(super) fn wait_for(&mut self, quiet: Duration) {
        self.next_quiet = quiet;
    }

    /// Takes in a change.
    pub(super) fn note(&mut self, notice: Notice, now: Instant) {
        match notice {
            Notice::Writing(name) => {
                self.names.remove(&name);
                self.replaced.remove(&name);
                self.writing.entry(name).or_insert((now, now)).1 = now;
                return;
            }
            Notice::Touched(name) if self.writing.contains_key(&name) => {
                self.writing.entry(name).or_insert((now, now)).1 = now;
                return;
            }
            Notice::Settled(name) | Notice::Touched(name) => {
                self.writing.remove(&name);
                self.replaced.remove(&name);
                self.names.insert(name);
            }
            Notice::Replaced(name) => {
                self.writing.remove(&name);
                self.names.remove(&name);
                self.replaced.insert(name);
            }
            Notice::Everything => self.everything = true,
        }
        let first = self.since.map_or(now, |(first, _)| first);
        self.since = Some((first, now));
    }

    /// Says how what was read of a file counts, after the changes that came meanwhile were taken in. A writer in place
    /// empties the file first, so what is read during a change may be neither old nor new. It is read again once, so
    /// that a file that changes without pause counts all the same.
    pub(super) fn judge(&mut self, name: &str) -> Verdict {
        if !self.is_pending(name) {
            self.torn.remove(name);
            Verdict::Whole
        } else if self.torn.remove(name) {
            Verdict::Torn
        } else {
            self.torn.insert(name.to_owned());
            Verdict::Again
        }
    }

    /// Drops the changes of files that are gone: nobody writes them any more. The watch of a renamed folder reports
    /// what happens in it under the old name until the folder is listed again.
    pub(super) fn drop_gone(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.writing.retain(|it, _| !is_gone(it));
        self.names.retain(|it| !is_gone(it));
    }

    /// Whether a file is being written, or has been since the last batch: what was read of it
    /// meanwhile may be a mixture of old and new.
    pub(super) fn is_pending(&self, name: &str) -> bool {
        self.writing.contains_key(name) || self.names.contains(name)
    }

    /// Whether every file is to be read.
    pub(super) fn is_everything(&self) -> bool {
        self.everything
    }

    /// The files for which [`Settle::is_pending`] holds.
    pub(super) fn pending(&self) -> impl Iterator<Item = &String> {
        self.writing.keys().chain(&self.names)
    }

    /// The files that are being written.
    pub(super) fn writing(&self) -> impl Iterator<Item = &String> {
        self.writing.keys()
    }

    /// When to call [`Settle::take`] if nothing happens before.
    pub(super) fn due(&self) -> Option<Instant> {
        let writers = self.writing.values().map(writer_due);
        writers.chain(self.complete_due()).min()
    }

    fn complete_due(&self) -> Option<Instant> {
        let due =
            |(first, last): (Instant, Instant)| (last + self.next_quiet).min(first + MAX_WAIT);
        self.since.map(due)
    }

    /// Whether there are files to read besides those of the last batch.
    pub(super) fn has_more(&self) -> bool {
        self.since.is_some()
    }

    /// The files to read now, if there are any; not many more than are `limit` work. Of them the smallest are first, by the work
    /// that a file is.
    pub(super) fn take_part(
        &mut self,
        now: Instant,
        limit: usize,
        work: impl Fn(&str) -> usize,
    ) -> Option<Batch> {
        if self.everything || self.complete_due().is_none_or(|it| now < it) {
            return self.take(now);
        }
        let names = self.names.iter().chain(&self.replaced).take(SORTED);
        let mut names: Vec<(usize, &String)> = names.map(|it| (work(it), it)).collect();
        names.sort_unstable();
        let is_small = |(work, _): &(usize, &String)| *work <= SMALL;
        let only_small = self.was_large && names.first().is_some_and(is_small);
        let mut left = limit;
        let fits = |it: &(usize, &String)| {
            let fits = left > 0 && (!only_small || is_small(it));
            left = left.saturating_sub(it.0);
            fits
        };
        let part: Vec<_> = names.into_iter().take_while(fits).collect();
        self.was_large = !part.iter().all(is_small);
        let part: BTreeSet<String> = part.into_iter().map(|it| it.1.clone()).collect();
        let is_later = |it: &String| !part.contains(it);
        let names = self.names.extract_if(.., is_later).collect();
        let replaced = self.replaced.extract_if(.., is_later).collect();
        let since = self.since;
        let batch = self.take(now);
        (self.names, self.replaced) = (names, replaced);
        if !self.names.is_empty() || !self.replaced.is_empty() {
            self.since = since;
        }
        batch
    }

    /// The files to read now, if there are any.
    pub(super) fn take(&mut self, now: Instant) -> Option<Batch> {
        if self.due().is_none_or(|it| now < it) {
            return None;
        }
        let silent = self.writing.extract_if(.., |_, it| writer_due(it) <= now);
        let mut batch = Batch {
            unfinished: silent.map(|(name, _)| name).collect(),
            ..Batch::default()
        };
        if self.complete_due().is_some_and(|it| it <= now) {
            self.since = None;
            self.next_quiet = self.quiet;
            batch.everything = std::mem::take(&mut self.everything);
            batch.names = std::mem::take(&mut self.names);
            batch.names.append(&mut self.replaced);
        }
        Some(batch)
    }
}

fn writer_due((first, last): &(Instant, Instant)) -> Instant {
    (*last + WRITER_QUIET).min(*first + MAX_WAIT)
}

#[cfg(test)]
mod tests;
