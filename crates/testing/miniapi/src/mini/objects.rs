//! Reading and changing the store.

use std::sync::Arc;

use serde_json::Value;
use sluice_api::{Key, Misplaced, Object};

use crate::body::Cut;
use crate::error::Error;
use crate::mini::MiniApi;
use crate::store::{self, Rest, Snapshot};
use crate::watches::Order;

impl MiniApi {
    /// Creates or replaces an object; kind, `apiVersion` and metadata say where. The server sets
    /// uid, creation time and the first generation unless given, and always the version. An object that does
    /// not change gets no new version and no event. Returns the store's version afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::Object`]: no collection for it, or no name.
    pub fn put(&self, object: Value) -> Result<u64, Error> {
        self.put_all(vec![object])
    }

    /// [`put`](Self::put) for many, as one step: watches see the events together.
    ///
    /// # Errors
    ///
    /// [`Error::Object`] of the first bad one; then none is stored.
    pub fn put_all(&self, objects: impl IntoIterator<Item = Value>) -> Result<u64, Error> {
        Ok(store::put_all(&self.shared.history, objects, Rest::Kept)?)
    }

    /// Makes the store hold these objects and no others, with the events that lead there.
    ///
    /// # Errors
    ///
    /// [`Error::Object`] of the first bad one; then nothing is changed.
    pub fn replace_everything(
        &self,
        objects: impl IntoIterator<Item = Value>,
    ) -> Result<u64, Error> {
        Ok(store::put_all(
            &self.shared.history,
            objects,
            Rest::Deleted,
        )?)
    }

    /// Deletes an object; cluster-wide ones have namespace `""`. Returns the deletion's version.
    ///
    /// # Errors
    ///
    /// [`Error::Object`]: no such kind or object.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<u64, Error> {
        let key = Key::new(namespace, name);
        let history = &self.shared.history;
        let mut state = history.lock();
        let deleted = history
            .registry()
            .kinds(kind)
            .find_map(|it| store::delete(&mut state, it, &key));
        drop(state);
        history.wake();
        deleted.ok_or_else(|| {
            Error::Object(Misplaced {
                object: format!("{kind:?} {namespace:?} {name:?}"),
                why: "there is none to delete".to_owned(),
            })
        })
    }

    /// An object as the server has it; cluster-wide ones have namespace `""`.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = Key::new(namespace, name);
        let history = &self.shared.history;
        let state = history.lock();
        let registry = history.registry();
        let found = registry
            .kinds(kind)
            .find_map(|it| state.collection(it).get(&key))?;
        Some(Value::clone(&found.value()))
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let history = &self.shared.history;
        let state = history.lock();
        let registry = history.registry();
        let objects = registry
            .kinds(kind)
            .flat_map(|it| state.collection(it).objects.values());
        let objects: Vec<Arc<Object>> = objects.cloned().collect();
        drop(state);
        objects.iter().map(|it| Value::clone(&it.value())).collect()
    }

    /// The events that clients wrote, of both API groups.
    pub fn events(&self) -> Vec<Value> {
        self.list("Event")
    }

    /// Version of the last change.
    pub fn resource_version(&self) -> u64 {
        self.shared.history.lock().revision
    }

    /// What the store holds now.
    pub fn snapshot(&self) -> Snapshot {
        store::snapshot(&self.shared.history)
    }

    /// Goes back to a snapshot, as an API server whose etcd was restored from a backup: versions
    /// go back too, no event tells of it, the history is gone and every watch is closed. A watch
    /// from a version that does not exist any more stays silent until versions are past it.
    pub fn restore(&self, snapshot: &Snapshot) {
        store::restore(&self.shared.history, snapshot);
        self.order_watches("", &Order::End(Cut::Close));
    }

    /// Forgets the history, as a compaction of etcd: older versions and continue tokens are 410.
    pub fn compact(&self) {
        store::compact(&self.shared.history);
    }
}
