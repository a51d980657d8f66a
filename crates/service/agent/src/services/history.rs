//! The last syncs, for status and questions.

use std::collections::VecDeque;

use crate::status::SyncStatus;

/// Syncs that are remembered: about 15 KB.
const REMEMBERED: usize = 100;

/// The last [`REMEMBERED`] syncs, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<SyncStatus>);

impl History {
    pub(super) fn push(&mut self, sync: SyncStatus) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(sync);
    }

    /// `None` before the first sync.
    pub(super) fn last(&self) -> Option<&SyncStatus> {
        self.0.back()
    }

    pub(super) fn all(&self) -> Vec<SyncStatus> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sync_makes_room() {
        let mut history = History::default();
        assert_eq!(history.last(), None);
        for added in 0..REMEMBERED + 2 {
            history.push(SyncStatus {
                added,
                ..SyncStatus::default()
            });
        }
        let all = history.all();
        assert_eq!(all.len(), REMEMBERED);
        assert_eq!((all[0].added, history.last()), (2, all.last()));
    }
}
