//! Number of objects that a sync wrote.

use std::fmt;

use crate::Delta;

/// Number of objects that a sync wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The kernel was read first: a resync.
    pub full: bool,
    /// Objects added.
    pub added: usize,
    /// Objects replaced.
    pub replaced: usize,
    /// Objects deleted.
    pub deleted: usize,
    /// Of these, the objects that another program had changed; 0 unless [`full`](Self::full). Without a belief about
    /// the kernel every difference counts. An object that we had to change as well counts as ours.
    pub foreign: usize,
}

impl Report {
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.added + self.replaced + self.deleted == 0
    }

    pub(crate) fn of<K: Ord + Clone, O: Clone + Eq>(full: bool, delta: &Delta<K, O>) -> Self {
        Self {
            full,
            added: delta.add.len(),
            replaced: delta.replace.len(),
            deleted: delta.delete.len(),
            foreign: 0,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "added {}, replaced {}, deleted {}",
            self.added, self.replaced, self.deleted
        )
    }
}
