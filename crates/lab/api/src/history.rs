//! The objects, their versions, and the events that led to them.

mod collection;
mod event;
mod incoming;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use serde_json::Value;
use tokio::sync::watch;

pub use collection::{Collection, Forgotten};
pub use event::Event;
pub(crate) use event::EventType;

use crate::object::Object;
use crate::resource::{Registry, Resource};
pub(crate) use incoming::seconds;
pub use incoming::{Incoming, Misplaced, now};
pub use state::State;

/// Every object of the server and its recent events, behind one lock that is never held across an
/// await. Assigns versions; [`Store`](crate::Store) decides what a write means.
#[derive(Debug)]
pub struct History {
    registry: RwLock<Arc<Registry>>,
    state: Mutex<State>,
    /// Wakes watches after every change.
    changed: watch::Sender<()>,
}

impl History {
    /// Empty collections of the kinds of `registry` that keep `events` events each.
    pub fn new(registry: Registry, events: usize) -> Self {
        let empty = |it: &Arc<Resource>| (it.collection(), Collection::default());
        let collections = registry.iter().map(empty);
        Self {
            state: Mutex::new(State {
                revision: 1,
                created: 0,
                events,
                collections: collections.collect(),
            }),
            registry: RwLock::new(registry.into()),
            changed: watch::Sender::new(()),
        }
    }

    /// Locks the state: every other reader and writer waits.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the store")
    }

    /// The kinds that the API serves now.
    pub fn registry(&self) -> Arc<Registry> {
        let registry = self.registry.read();
        registry.expect("nobody panics with the registry").clone()
    }

    /// Serves the kinds of `registry` from now on. New collections are empty; the objects of kinds that it lacks are
    /// forgotten, and their watches end.
    pub fn serve(&self, registry: Registry) {
        let mut state = self.lock();
        let revision = state.revision;
        let names: BTreeSet<_> = registry.all().map(|it| it.collection()).collect();
        state.collections.retain(|it, _| names.contains(it));
        for name in names {
            let empty = || Collection::restored(BTreeMap::new(), revision);
            state.collections.entry(name).or_insert_with(empty);
        }
        for resource in registry.all().filter(|it| it.custom) {
            let stored = registry.stored_as(resource).unwrap_or(resource);
            state.collection_mut(stored).convert(stored);
        }
        let served = self.registry.write();
        *served.expect("nobody panics with the registry") = registry.into();
        drop(state);
        self.wake();
    }

    /// The collection of objects with this `apiVersion` and kind.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        self.registry().of_kind(api_version, kind).cloned()
    }

    /// The collection and the key of an object. The namespace `default` is the default.
    ///
    /// # Errors
    ///
    /// The kind is not served, or the metadata is wrong.
    pub fn read(&self, mut object: Value) -> Result<Incoming, Misplaced> {
        let registry = self.registry();
        let given = |api_version: &str, kind: &str| {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            // A version that was stored once may no longer be served.
            let any = || registry.all().find(|it| it.is(group, kind));
            registry.of_kind(api_version, kind).or_else(any)
        };
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let conversion = given(text("apiVersion"), text("kind")).and_then(|it| it.conversion);
        if let Some(conversion) = conversion {
            (conversion.store)(&mut object);
        }
        Incoming::read(object, |api_version, kind| {
            registry.stored_as(given(api_version, kind)?).cloned()
        })
    }

    /// A receiver that is woken after every change from now on.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
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
            let it = self.read(it)?;
            Ok(Arc::new(Object::freeze(
                it.resource,
                it.key,
                version,
                it.body,
            )))
        });
        let objects = objects.collect::<Result<Vec<_>, Misplaced>>()?;
        let latest = |it: &Arc<Object>| it.revision;
        let revision = objects.iter().map(latest).fold(revision, u64::max);
        let mut state = self.lock();
        state.revision = state.revision.max(revision);
        state.created = state.created.max(objects.len() as u64);
        let revision = state.revision;
        for (name, collection) in &mut state.collections {
            let own = objects
                .iter()
                .filter(|it| it.resource.collection() == *name);
            let own = own.map(|it| (it.key.clone(), it.clone()));
            *collection = Collection::restored(own.collect(), revision);
        }
        Ok(objects)
    }

    /// Tells watches that something was written.
    pub fn wake(&self) {
        self.changed.send_replace(());
    }
}
