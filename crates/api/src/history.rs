//! The objects, their versions and the events that led to them.

mod collection;
mod event;
mod incoming;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::watch;

pub use collection::{Collection, Forgotten};
pub use event::Event;
pub(crate) use event::EventType;

use crate::object::{Key, Object};
use crate::resource::Resource;
use incoming::Incoming;
pub use incoming::Misplaced;
pub(crate) use incoming::{now, seconds, uid};
pub use state::State;

/// Everything the server knows, behind one lock that is never held across an await. It gives out
/// versions and keeps what was; what a write means is decided by [`Store`](crate::Store).
#[derive(Debug)]
pub struct History {
    resources: Vec<&'static Resource>,
    state: Mutex<State>,
    /// Wakes the watches after every change.
    changed: watch::Sender<()>,
}

/// What the store held at one moment, for [`History::restore`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    revision: u64,
    objects: Vec<(&'static Resource, BTreeMap<Key, Arc<Object>>)>,
}

impl History {
    /// Empty collections of `resources` that keep `events` events each.
    pub fn new(resources: Vec<&'static Resource>, events: usize) -> Self {
        let collections = resources.iter().map(|it| (it.id(), Collection::default()));
        Self {
            state: Mutex::new(State {
                revision: 1,
                created: 0,
                events,
                collections: collections.collect(),
            }),
            resources,
            changed: watch::Sender::new(()),
        }
    }

    /// The state, locked: whoever holds it stops everybody.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the store")
    }

    /// The collections.
    pub fn resources(&self) -> &[&'static Resource] {
        &self.resources
    }

    /// The collection that objects of `kind` belong to.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&'static Resource> {
        let mut named = self.kinds(kind);
        named.find(|it| it.api_version() == api_version)
    }

    /// The collections of objects of `kind`: both sorts of events have one name.
    pub fn kinds(&self, kind: &str) -> impl Iterator<Item = &'static Resource> {
        let resources = self.resources.iter().copied();
        resources.filter(move |it| it.kind == kind)
    }

    /// The collection of a path.
    pub fn of_path(&self, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        let mut resources = self.resources.iter().copied();
        resources.find(|it| (it.group, it.version, it.plural) == (group, version, plural))
    }

    fn read(&self, object: Value) -> Result<Incoming, Misplaced> {
        Incoming::read(object, |api_version, kind| self.of_kind(api_version, kind))
    }

    /// Tells of every change from now on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Creates or replaces objects as one step: no watch sees a part of them. They are stored as
    /// given, but for uid, creation time and generation where they lack them.
    ///
    /// # Errors
    ///
    /// The first object that has no place; then none is stored.
    pub fn put_all(&self, objects: Vec<Value>) -> Result<u64, Misplaced> {
        let objects = objects.into_iter().map(|it| self.read(it));
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        let mut state = self.lock();
        for object in objects {
            state.put(object);
        }
        Ok(self.publish(state))
    }

    /// Creates one object, stored as given.
    ///
    /// # Errors
    ///
    /// It has no place, or there is one already.
    pub fn create(&self, object: Value) -> Result<Arc<Object>, WriteError> {
        let object = self.read(object).map_err(WriteError::Misplaced)?;
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
    pub fn delete(&self, resource: &'static Resource, key: &Key) -> Option<u64> {
        let mut state = self.lock();
        let found = state.delete(resource, key);
        let revision = self.publish(state);
        found.then_some(revision)
    }

    /// Makes the store hold exactly `objects`, with the events that lead there.
    ///
    /// # Errors
    ///
    /// The first object that has no place; then nothing is changed.
    pub fn replace_everything(&self, objects: Vec<Value>) -> Result<u64, Misplaced> {
        let objects = objects.into_iter().map(|it| self.read(it));
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        let mut state = self.lock();
        for &resource in &self.resources {
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

    /// What there is now.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let objects = self.resources.iter();
        let objects = objects.map(|&it| (it, state.collection(it).objects.clone()));
        Snapshot {
            revision: state.revision,
            objects: objects.collect(),
        }
    }

    /// Goes back to `snapshot`, its version included. No event tells of it, and no watch can start
    /// before it: so it is after etcd was restored from a backup.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut state = self.lock();
        state.revision = snapshot.revision;
        for (resource, objects) in &snapshot.objects {
            let restored = Collection::restored(objects.clone(), snapshot.revision);
            state.collections.insert(resource.id(), restored);
        }
        self.publish(state);
    }

    /// Forgets all events: every older version is Gone, as after a compaction.
    pub fn compact(&self) {
        let mut state = self.lock();
        let revision = state.revision;
        for collection in state.collections.values_mut() {
            collection.forget(revision);
        }
    }

    /// Records one change that a [`Store`](crate::Store) decided. Call [`wake`](Self::wake) after
    /// the last one.
    pub(crate) fn record(&self, resource: &Resource, event: Event) {
        self.lock().record(resource, event);
    }

    /// The events after `revision`, of all kinds, in order.
    pub(crate) fn since(&self, revision: u64) -> Result<Vec<Arc<Event>>, Forgotten> {
        let state = self.lock();
        let mut events = Vec::new();
        for collection in state.collections.values() {
            events.extend(collection.since(revision)?.cloned());
        }
        events.sort_unstable_by_key(|it| it.revision);
        Ok(events)
    }

    /// Makes this the history of `objects` and of nothing before: each keeps its version, the next
    /// change comes after `revision`.
    pub(crate) fn refill(
        &self,
        objects: Vec<Value>,
        revision: u64,
    ) -> Result<Vec<Arc<Object>>, Misplaced> {
        let version = |it: &Value| it["metadata"]["resourceVersion"].as_str()?.parse().ok();
        let objects = objects.into_iter().map(|it| {
            let version = version(&it).unwrap_or(revision);
            Ok(Arc::new(self.read(it)?.stand(version)))
        });
        let objects = objects.collect::<Result<Vec<_>, Misplaced>>()?;
        let latest = |it: &Arc<Object>| it.revision;
        let revision = objects.iter().map(latest).fold(revision, u64::max);
        let mut state = self.lock();
        state.revision = state.revision.max(revision);
        state.created = state.created.max(objects.len() as u64);
        let revision = state.revision;
        for resource in &self.resources {
            let own = objects
                .iter()
                .filter(|it| it.resource.id() == resource.id());
            let own = own.map(|it| (it.key.clone(), it.clone()));
            let restored = Collection::restored(own.collect(), revision);
            state.collections.insert(resource.id(), restored);
        }
        Ok(objects)
    }

    /// The number of the next object that is created; makes its uid.
    pub(crate) fn next_number(&self) -> u64 {
        let mut state = self.lock();
        state.created += 1;
        state.created
    }

    /// Wakes who waits for changes.
    pub(crate) fn wake(&self) {
        self.changed.send_replace(());
    }

    fn publish(&self, state: MutexGuard<'_, State>) -> u64 {
        let revision = state.revision;
        drop(state);
        self.wake();
        revision
    }
}

/// Why a client's write failed.
#[derive(Debug)]
pub enum WriteError {
    /// The store has no place for it.
    Misplaced(Misplaced),
    /// There is an object of this name.
    Exists,
}
