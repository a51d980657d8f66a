//! The objects, their versions, and the events that led to them.

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

/// Every object of the server and its recent events, behind one lock that is never held across an
/// await. Assigns versions; [`Store`](crate::Store) decides what a write means.
#[derive(Debug)]
pub struct History {
    resources: Vec<&'static Resource>,
    state: Mutex<State>,
    /// Wakes watches after every change.
    changed: watch::Sender<()>,
}

/// The content of the store at one moment, for [`History::restore`].
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

    /// Locks the state: every other reader and writer waits.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the store")
    }

    /// All collections.
    pub fn resources(&self) -> &[&'static Resource] {
        &self.resources
    }

    /// The collection of objects with this `apiVersion` and kind.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&'static Resource> {
        let mut named = self.kinds(kind);
        named.find(|it| it.api_version() == api_version)
    }

    /// The collections of a kind. Events are in two: of the core group and of `events.k8s.io`.
    pub fn kinds(&self, kind: &str) -> impl Iterator<Item = &'static Resource> {
        let resources = self.resources.iter().copied();
        resources.filter(move |it| it.kind == kind)
    }

    pub fn of_path(&self, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        let mut resources = self.resources.iter().copied();
        resources.find(|it| (it.group, it.version, it.plural) == (group, version, plural))
    }

    fn read(&self, object: Value) -> Result<Incoming, Misplaced> {
        Incoming::read(object, |api_version, kind| self.of_kind(api_version, kind))
    }

    /// A receiver that is woken after every change from now on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Creates or replaces objects as one change: no watch sees a part of them. Objects are stored
    /// as given; uid, creation time and generation are set where they are missing.
    ///
    /// # Errors
    ///
    /// The first object that cannot be stored; then none is.
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
    /// The object cannot be stored, or it exists.
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

    /// Deletes one object and returns the version of the deletion; `None` when it does not exist.
    pub fn delete(&self, resource: &'static Resource, key: &Key) -> Option<u64> {
        let mut state = self.lock();
        let found = state.delete(resource, key);
        let revision = self.publish(state);
        found.then_some(revision)
    }

    /// Replaces the content of the store by `objects`, with the events of each difference.
    ///
    /// # Errors
    ///
    /// The first object that cannot be stored; then nothing is changed.
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

    /// The present content.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let objects = self.resources.iter();
        let objects = objects.map(|&it| (it, state.collection(it).objects.clone()));
        Snapshot {
            revision: state.revision,
            objects: objects.collect(),
        }
    }

    /// Goes back to `snapshot`, its version included, without events. No watch can start before it,
    /// as after a restore of etcd from a backup.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut state = self.lock();
        state.revision = snapshot.revision;
        for (resource, objects) in &snapshot.objects {
            let restored = Collection::restored(objects.clone(), snapshot.revision);
            state.collections.insert(resource.id(), restored);
        }
        self.publish(state);
    }

    /// Drops all events: a watch or list of an older version gets 410 Gone, as after a compaction.
    pub fn compact(&self) {
        let mut state = self.lock();
        let revision = state.revision;
        for collection in state.collections.values_mut() {
            collection.forget(revision);
        }
    }

    /// Records a change that a [`Store`](crate::Store) decided. [`wake`](Self::wake) must follow
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

    /// Replaces the content by `objects` with their versions, without history. The next change has
    /// the version after `revision`.
    pub(crate) fn refill(
        &self,
        objects: Vec<Value>,
        revision: u64,
    ) -> Result<Vec<Arc<Object>>, Misplaced> {
        let version = |it: &Value| it["metadata"]["resourceVersion"].as_str()?.parse().ok();
        let objects = objects.into_iter().map(|it| {
            let version = version(&it).unwrap_or(revision);
            Ok(Arc::new(self.read(it)?.unchanged(version)))
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

    /// The next number from which a uid is made.
    pub(crate) fn next_number(&self) -> u64 {
        let mut state = self.lock();
        state.created += 1;
        state.created
    }

    /// Wakes watches.
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

/// Why [`History::create`] failed.
#[derive(Debug)]
pub enum WriteError {
    Misplaced(Misplaced),
    /// An object with this name exists.
    Exists,
}
