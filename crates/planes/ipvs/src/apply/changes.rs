//! Changes in their order.

use crate::object::Key;

/// Changes, and the object that each is for.
pub(super) struct Changes<C> {
    pub(super) keys: Vec<Key>,
    pub(super) changes: Vec<C>,
}

impl<C> Default for Changes<C> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            changes: Vec::new(),
        }
    }
}

impl<C> Changes<C> {
    pub(super) fn push(&mut self, key: Key, change: C) {
        self.keys.push(key);
        self.changes.push(change);
    }

    pub(super) fn append(&mut self, later: Self) {
        self.keys.extend(later.keys);
        self.changes.extend(later.changes);
    }
}
