//! The content of a history, behind its lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::incoming::Incoming;
use super::{Collection, Event, EventType};
use crate::object::{Key, Object};
use crate::resource::Resource;

/// The collections of a [`History`](super::History), and what numbers their changes.
#[derive(Debug)]
pub struct State {
    /// The version of the last change of any collection: etcd counts all in one sequence.
    pub revision: u64,
    /// The number of objects created so far, from which uids are made.
    pub(super) created: u64,
    /// Most events that a collection keeps.
    pub(super) events: usize,
    pub(super) collections: BTreeMap<(&'static str, &'static str), Collection>,
}

impl State {
    pub fn collection(&self, resource: &Resource) -> &Collection {
        &self.collections[&resource.id()]
    }

    fn collection_mut(&mut self, resource: &Resource) -> &mut Collection {
        self.collections
            .get_mut(&resource.id())
            .expect("every resource has its collection")
    }

    pub(super) fn put(&mut self, object: Incoming) -> Arc<Object> {
        let resource = object.resource;
        let old = self.collection(resource).get(&object.key).cloned();
        let (revision, number) = (self.revision + 1, self.created + 1);
        let new = match &old {
            Some(old) => match object.next_version(old, revision) {
                None => return old.clone(),
                Some(new) => new,
            },
            None => {
                self.created = number;
                object.first_version(number, revision)
            }
        };
        let new = Arc::new(new);
        let change = match old {
            None => EventType::Added,
            Some(_) => EventType::Modified,
        };
        self.record(resource, Event::new(revision, change, new.clone(), old));
        new
    }

    pub(super) fn delete(&mut self, resource: &Resource, key: &Key) -> bool {
        let Some(old) = self.collection(resource).get(key).cloned() else {
            return false;
        };
        let revision = self.revision + 1;
        let last = Arc::new(old.at(revision));
        let event = Event::new(revision, EventType::Deleted, last, Some(old));
        self.record(resource, event);
        true
    }

    pub(super) fn record(&mut self, resource: &Resource, event: Event) {
        self.revision = event.revision;
        let events = self.events;
        self.collection_mut(resource).record(event, events);
    }
}
