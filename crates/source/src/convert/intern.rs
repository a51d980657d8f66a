//! Shared strings.

use std::collections::HashSet;
use std::sync::Arc;

/// Gives one `Arc<str>` per distinct text: node names, zones and namespaces repeat in every
/// endpoint, and 100,000 endpoints should not hold 100,000 copies.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    known: HashSet<Arc<str>>,
    /// Size at which unused texts are thrown away.
    limit: usize,
}

impl Interner {
    /// The shared copy of `text`.
    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        if self.known.len() >= self.limit {
            self.sweep();
        }
        let new: Arc<str> = text.into();
        self.known.insert(new.clone());
        new
    }

    /// Drops unused texts; the next sweep is due when the number of texts has doubled.
    fn sweep(&mut self) {
        self.known.retain(|it| Arc::strong_count(it) > 1);
        self.limit = (self.known.len() * 2).max(1024);
    }
}
