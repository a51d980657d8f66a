//! Encoded answers of the cluster's zone, by the bytes of the query.
//!
//! ```text
//! query without its id ─▶ up to 16 responses, used in turn ─▶ response with the query's id
//! ```
//!
//! An answer depends on the objects, the configuration and the question's bytes, so it holds for one
//! [`Version`]: the cache is emptied when any of them changes.

use std::collections::HashMap;

use crate::engine::{Reusable, Version};
use crate::metrics::Sample;

/// After so many uses the responses of a query are computed anew, with another random start: each
/// address of a Service with more than 16 endpoints comes first in some of them.
const USES: u32 = 1024;

struct Entry {
    responses: Vec<Box<[u8]>>,
    /// The turn of the first response; the others follow.
    start: usize,
    /// Responses that are wanted.
    variants: usize,
    uses: u32,
    sample: Sample,
}

/// The cache of one thread.
pub(crate) struct WireCache {
    entries: HashMap<Box<[u8]>, Entry>,
    version: Version,
    /// Bytes of keys and responses, and the limit.
    bytes: usize,
    most_bytes: usize,
}

/// The result of a look-up.
#[derive(Debug)]
pub(crate) enum Cached<'a> {
    /// This response; its id is that of an earlier query.
    Response(&'a [u8], &'a Sample),
    /// Nothing; a computed response is the one of this turn.
    Turn(usize),
}

impl WireCache {
    /// An empty cache for so many bytes.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self {
            entries: HashMap::new(),
            version: Version::default(),
            bytes: 0,
            most_bytes,
        }
    }

    /// Forgets answers of another version.
    pub(crate) fn renew(&mut self, version: Version) {
        if self.version != version {
            self.version = version;
            self.clear();
        }
    }

    /// The response to a query, given without its id.
    pub(crate) fn get(&mut self, query: &[u8]) -> Cached<'_> {
        let Some(entry) = self.entries.get_mut(query) else {
            return Cached::Turn(start());
        };
        let computed = entry.responses.len();
        if computed < entry.variants {
            return Cached::Turn(entry.start.wrapping_add(computed));
        }
        entry.uses += 1;
        if entry.uses == USES && entry.variants > 1 {
            entry.uses = 0;
            entry.start = start();
            self.bytes -= entry.responses.drain(..).map(|it| it.len()).sum::<usize>();
            return Cached::Turn(entry.start);
        }
        let turn = entry.uses as usize % computed;
        Cached::Response(&entry.responses[turn], &entry.sample)
    }

    /// Keeps a response that was computed for this turn, unless it comes from another version.
    pub(crate) fn insert(
        &mut self,
        query: &[u8],
        turn: usize,
        response: &[u8],
        reusable: &Reusable,
        sample: &Sample,
    ) {
        if reusable.version != self.version {
            return;
        }
        if self.bytes + query.len() + response.len() > self.most_bytes {
            self.clear();
        }
        let entry = match self.entries.get_mut(query) {
            Some(entry) => entry,
            None => {
                self.bytes += query.len();
                self.entries.entry(query.into()).or_insert(Entry {
                    responses: Vec::new(),
                    variants: reusable.variants,
                    start: turn,
                    uses: 0,
                    sample: sample.clone(),
                })
            }
        };
        if entry.responses.len() < entry.variants {
            self.bytes += response.len();
            entry.responses.push(response.into());
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

/// A random first turn.
fn start() -> usize {
    rand::random::<u32>() as usize
}

#[cfg(test)]
mod tests;
