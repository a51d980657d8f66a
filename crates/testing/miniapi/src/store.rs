//! The objects, their versions and the events that led to them.

mod collection;
mod event;
mod incoming;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::watch;

pub(crate) use collection::{Collection, Forgotten};
pub(crate) use event::{Change, Event};

use crate::error::Error;
use crate::object::{Key, Object};
use crate::resource::{RESOURCES, Resource};
use incoming::Incoming;

type Collections = BTreeMap<(&'static str, &'static str), Collection>;

/// Everything the server knows, behind one lock that is never held across an await.
#[derive(Debug)]
pub(crate) struct Store {
    state: Mutex<State>,
    /// Wakes the watches after every change.
    changed: watch::Sender<()>,
}

/// One state of the store.
#[derive(Debug)]
pub(crate) struct State {
    /// Version of the last change, of whatever collection: etcd counts them together.
    pub(crate) revision: u64,
    /// Objects created so far; makes uids.
    created: u64,
    /// Events kept per collection.
    history: usize,
    collections: Collections,
}

/// What the store held at one moment, for [`MiniApi::restore`](crate::MiniApi::restore).
#[derive(Clone, Debug)]
pub struct Snapshot {
    revision: u64,
    objects: Vec<(&'static Resource, BTreeMap<Key, Arc<Object>>)>,
}

impl Store {
    /// An empty store that keeps `history` events per collection.
    pub(crate) fn new(history: usize) -> Self {
        let collections = RESOURCES.iter().map(|it| (it.id(), Collection::default()));
        Self {
            state: Mutex::new(State {
                revision: 1,
                created: 0,
                history,
                collections: collections.collect(),
            }),
            changed: watch::Sender::new(()),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the store")
    }

    /// Tells of every change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Creates or replaces objects as one step: no watch sees a part of them.
    pub(crate) fn put_all(&self, objects: Vec<Value>) -> Result<u64, Error> {
        let objects = objects.into_iter().map(Incoming::read);
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        let mut state = self.lock();
        for object in objects {
            state.put(object);
        }
        Ok(self.publish(state))
    }

    /// Creates one object.
    pub(crate) fn create(&self, object: Value) -> Result<Arc<Object>, WriteError> {
        let object = Incoming::read(object).map_err(WriteError::Object)?;
        let mut state = self.lock();
        let collection = state.collection(object.resource);
        if collection.get(&object.key).is_some() {
            return Err(WriteError::Exists);
        }
        let written = state.put(object);
        self.publish(state);
        Ok(written)
    }

    /// Deletes one object; `None` when there is none.
    pub(crate) fn delete(&self, resource: &'static Resource, key: &Key) -> Option<u64> {
        let mut state = self.lock();
        let found = state.delete(resource, key);
        let revision = self.publish(state);
        found.then_some(revision)
    }

    /// Makes the store hold exactly `objects`, with the events that lead there.
    pub(crate) fn replace_everything(&self, objects: Vec<Value>) -> Result<u64, Error> {
        let objects = objects.into_iter().map(Incoming::read);
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        let mut state = self.lock();
        for resource in &RESOURCES {
            let keep = objects
                .iter()
                .filter(|it| it.resource.id() == resource.id());
            let keep: std::collections::BTreeSet<_> = keep.map(|it| &it.key).collect();
            let gone = state.collection(resource).objects.keys();
            let gone: Vec<_> = gone.filter(|it| !keep.contains(it)).cloned().collect();
            for key in gone {
                state.delete(resource, &key);
            }
        }
        for object in objects {
            state.put(object);
        }
        Ok(self.publish(state))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let objects = RESOURCES.iter();
        let objects = objects.map(|it| (it, state.collection(it).objects.clone()));
        Snapshot {
            revision: state.revision,
            objects: objects.collect(),
        }
    }

    /// Goes back to `snapshot`, its version included. No event tells of it, and no watch can start
    /// before it: so it is after etcd was restored from a backup.
    pub(crate) fn restore(&self, snapshot: &Snapshot) {
        let mut state = self.lock();
        state.revision = snapshot.revision;
        for (resource, objects) in &snapshot.objects {
            let restored = Collection::restored(objects.clone(), snapshot.revision);
            state.collections.insert(resource.id(), restored);
        }
        self.publish(state);
    }

    /// Forgets all events: every older version is Gone, as after a compaction.
    pub(crate) fn compact(&self) {
        let mut state = self.lock();
        let revision = state.revision;
        for collection in state.collections.values_mut() {
            collection.forget(revision);
        }
    }

    fn publish(&self, state: MutexGuard<'_, State>) -> u64 {
        let revision = state.revision;
        drop(state);
        self.changed.send_replace(());
        revision
    }
}

/// Why a client's write failed.
#[derive(Debug)]
pub(crate) enum WriteError {
    Object(Error),
    /// There is an object of this name.
    Exists,
}

impl State {
    pub(crate) fn collection(&self, resource: &Resource) -> &Collection {
        &self.collections[&resource.id()]
    }

    fn collection_mut(&mut self, resource: &Resource) -> &mut Collection {
        self.collections
            .get_mut(&resource.id())
            .expect("every resource has its collection")
    }

    fn put(&mut self, object: Incoming) -> Arc<Object> {
        let resource = object.resource;
        let old = self.collection(resource).get(&object.key).cloned();
        let (revision, number) = (self.revision + 1, self.created + 1);
        let new = match &old {
            Some(old) => match object.succeed(old, revision) {
                None => return old.clone(),
                Some(new) => new,
            },
            None => {
                self.created = number;
                object.create(number, revision)
            }
        };
        let new = Arc::new(new);
        let change = match old {
            None => Change::Added,
            Some(_) => Change::Modified,
        };
        self.record(resource, Event::new(revision, change, new.clone(), old));
        new
    }

    fn delete(&mut self, resource: &Resource, key: &Key) -> bool {
        let Some(old) = self.collection(resource).get(key).cloned() else {
            return false;
        };
        let revision = self.revision + 1;
        let last = Arc::new(old.at(revision));
        let event = Event::new(revision, Change::Deleted, last, Some(old));
        self.record(resource, event);
        true
    }

    fn record(&mut self, resource: &Resource, event: Event) {
        self.revision = event.revision;
        let history = self.history;
        self.collection_mut(resource).record(event, history);
    }
}
