//! Writes to the history: objects are stored as given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use sluice_api::now;
use sluice_api::{Collection, Event, History, Incoming, Key, Misplaced, Object, Resource, State};

type Objects = BTreeMap<Key, Arc<Object>>;

/// The content of the store at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    revision: u64,
    objects: Vec<(Arc<Resource>, Objects)>,
}

/// Creates or replaces objects as one change: no watch sees a part of them. With `Rest::Deleted` the store then has no
/// other objects. Returns the version afterwards.
pub(crate) fn put_all(
    history: &History,
    objects: impl IntoIterator<Item = Value>,
    rest: Rest,
) -> Result<u64, Misplaced> {
    let objects = objects.into_iter().map(|it| history.read(it));
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    let mut state = history.lock();
    if rest == Rest::Deleted {
        let id = |it: &Resource, key: &Key| (it.full_name(), key.clone());
        let kept: BTreeSet<_> = objects.iter().map(|it| id(&it.resource, &it.key)).collect();
        for resource in history.registry().iter() {
            let all: Vec<_> = state.collection(resource).objects.keys().cloned().collect();
            for key in all.iter().filter(|it| !kept.contains(&id(resource, it))) {
                delete(&mut state, resource, key);
            }
        }
    }
    for object in objects {
        put(&mut state, object);
    }
    let revision = state.revision;
    drop(state);
    history.wake();
    Ok(revision)
}

/// What happens to the objects that are not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Kept,
    Deleted,
}

/// Creates or replaces one object. An equal one makes no event.
pub(crate) fn put(state: &mut State, mut object: Incoming) {
    let old = state.collection(&object.resource).get(&object.key).cloned();
    let revision = state.revision + 1;
    match &old {
        None => {
            or_set(&mut object.body, "uid", state.next_uid().into());
            or_set(&mut object.body, "creationTimestamp", now().into());
            or_set(&mut object.body, "generation", 1.into());
        }
        Some(old) if !succeed(&mut object.body, old) => return,
        Some(_) => {}
    }
    let Incoming {
        resource,
        key,
        body,
    } = object;
    state.record(Event::put(revision, resource, key, body, old));
}

/// Gives the metadata of the stored object to its next version. Returns whether they differ.
fn succeed(new: &mut Map<String, Value>, old: &Object) -> bool {
    let mut old = old.body();
    let metadata = old.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.map(|it| it.remove("resourceVersion"));
    for field in ["uid", "creationTimestamp"] {
        or_set(new, field, old["metadata"][field].clone());
    }
    new["metadata"]["generation"] = old["metadata"]["generation"].clone();
    if *new == old {
        return false;
    }
    if !contents(new).eq(contents(&old)) {
        let generation = old["metadata"]["generation"].as_u64().unwrap_or_default();
        new["metadata"]["generation"] = (generation + 1).into();
    }
    true
}

/// The fields whose change is a new generation.
fn contents(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let is_content = |name: &str| !["metadata", "status"].contains(&name);
    object.iter().filter(move |(name, _)| is_content(name))
}

/// Sets a field of the metadata that is missing.
fn or_set(body: &mut Map<String, Value>, field: &str, value: Value) {
    let slot = &mut body["metadata"][field];
    if slot.is_null() {
        *slot = value;
    }
}

/// Deletes an object. Returns the version of the deletion; `None` when it does not exist.
pub(crate) fn delete(state: &mut State, resource: &Resource, key: &Key) -> Option<u64> {
    let old = state.collection(resource).get(key).cloned()?;
    state.record(Event::deletion(state.revision + 1, old));
    Some(state.revision)
}

pub(crate) fn snapshot(history: &History) -> Snapshot {
    let state = history.lock();
    let registry = history.registry();
    let objects = registry.iter();
    let objects = objects.map(|it| (it.clone(), state.collection(it).objects.clone()));
    Snapshot {
        revision: state.revision,
        objects: objects.collect(),
    }
}

/// Goes back to `snapshot`, its version included, without events.
pub(crate) fn restore(history: &History, snapshot: &Snapshot) {
    let mut state = history.lock();
    state.revision = snapshot.revision;
    for (resource, objects) in &snapshot.objects {
        let restored = Collection::restored(objects.clone(), snapshot.revision);
        *state.collection_mut(resource) = restored;
    }
    drop(state);
    history.wake();
}

/// Drops all events.
pub(crate) fn compact(history: &History) {
    let mut state = history.lock();
    let revision = state.revision;
    for resource in history.registry().iter() {
        state.collection_mut(resource).forget(revision);
    }
}
