//! The content of a history, behind its lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Collection, Event};
use crate::resource::Resource;

/// Most JSON in the events of all collections, in bytes: 16,000 changes of a Pod of 2 kB. In memory an event takes up to
/// eight times its JSON, as its object is kept as a value and as a line, too.
const MAX_BYTES: usize = 32 << 20;

/// An empty collection for a kind that is no longer served: its watches end.
static GONE: Collection = Collection::gone();

/// The collections of a [`History`](super::History), and what numbers their changes.
#[derive(Debug)]
pub struct State {
    /// The version of the last change of any collection: etcd counts all in one sequence.
    pub revision: u64,
    /// The number of objects created so far, from which uids are made.
    pub(super) created: u64,
    /// Most events that a collection keeps.
    pub(super) events: usize,
    /// By [`Resource::collection`].
    pub(crate) collections: BTreeMap<String, Collection>,
}

impl State {
    /// The objects of a kind. A kind that is no longer served has none, and no history.
    pub fn collection(&self, resource: &Resource) -> &Collection {
        self.collections
            .get(&resource.collection())
            .unwrap_or(&GONE)
    }

    pub fn collection_mut(&mut self, resource: &Resource) -> &mut Collection {
        self.collections
            .get_mut(&resource.collection())
            .expect("only objects of served kinds are written")
    }

    /// The uid of an object that the next change creates.
    pub fn next_uid(&mut self) -> String {
        self.created += 1;
        let revision = self.revision + 1;
        format!("{:08x}-5111-4ce0-8000-{revision:012x}", self.created)
    }

    /// Records a change. [`History::wake`](super::History::wake) must follow the last one.
    pub fn record(&mut self, event: Event) -> Arc<Event> {
        self.revision = event.revision;
        let (event, events) = (Arc::new(event), self.events);
        let collection = self.collection_mut(event.resource());
        collection.record(event.clone(), events);
        while self
            .collections
            .values()
            .map(Collection::bytes)
            .sum::<usize>()
            > MAX_BYTES
        {
            // The kind with the largest events loses its own history, not that of the others.
            let largest = self.collections.values_mut().max_by_key(|it| it.bytes());
            largest.into_iter().for_each(Collection::drop_first);
        }
        event
    }
}
