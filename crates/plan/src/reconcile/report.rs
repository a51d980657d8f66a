//! What a sync did, and what the kernel refused.

use std::fmt;

use crate::PortKey;
use crate::delta::Delta;

/// What a sync did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The kernel was read first.
    pub full: bool,
    /// Objects added.
    pub added: usize,
    /// Objects replaced.
    pub replaced: usize,
    /// Objects deleted.
    pub deleted: usize,
    /// Service ports that the kernel refused in this sync, with its explanation.
    pub refused: Vec<(PortKey, String)>,
}

impl Report {
    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.added + self.replaced + self.deleted == 0
    }

    /// This was written.
    pub(super) fn count<K: Ord + Clone, O: Clone + Eq>(&mut self, delta: &Delta<K, O>) {
        self.added = delta.add.len();
        self.replaced = delta.replace.len();
        self.deleted = delta.delete.len();
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

/// What became of a service port that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The first object that was refused, and the kernel's explanation.
    pub reason: String,
    /// What the kernel holds of it.
    pub holds: Holds,
}

/// What the kernel holds of a service port that it refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// What it held before, if anything.
    Older,
    /// All of it but what was refused.
    Rest,
}
