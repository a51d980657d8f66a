//! What a write means: the store as kube-apiserver keeps it.

mod delete;
mod dependents;
mod expiry;
mod hooks;
mod names;
mod namespaces;
mod options;
mod restore;
mod write;
mod writer;

use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::watch;

pub use hooks::{Admission, AdmitAll, Change, Journal};
pub use options::{DeleteOptions, Effect, Propagation, Settings};

use crate::history::{Forgotten, History, Misplaced};
use crate::object::{Key, Object};
use crate::resource::{KINDS, Resource};
use crate::status::Status;
use writer::Writer;

/// All objects of a cluster. Shared by the server and the controllers in this process; every
/// method may be called from any thread and blocks for a short time only.
///
/// Writes come one after the other: each is admitted, written to the journal, then visible.
pub struct Store {
    history: Arc<History>,
    writer: Mutex<Writer>,
}

impl Store {
    /// A store with the namespaces `default` and `kube-system`.
    pub fn new(settings: Settings) -> Arc<Self> {
        let history = Arc::new(History::new(KINDS.iter().collect(), settings.history));
        let mut writer = Writer::new(history.clone(), settings.admission, settings.journal);
        writer.make_system_namespaces();
        Arc::new(Self {
            history,
            writer: Mutex::new(writer),
        })
    }

    /// Creates an object; kind, `apiVersion` and metadata say where. `generateName` is honoured, an
    /// object without namespace goes to `default`. Returns it as stored.
    ///
    /// # Errors
    ///
    /// 400 and 422: the object is wrong. 404: the namespace does not exist. 403: the namespace is
    /// being deleted. 409: there is one. Others: admission, journal.
    pub fn create(&self, object: Value) -> Result<Arc<Value>, Status> {
        self.create_with(object, Effect::Stored)
    }

    /// [`create`](Self::create), or what would come of it.
    ///
    /// # Errors
    ///
    /// See [`create`](Self::create).
    pub fn create_with(&self, object: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        self.write(|it| it.create(object, effect))
    }

    /// Replaces an object. `metadata.resourceVersion` and `metadata.uid`, if given, must be those of
    /// the stored one. Where status is a subresource, it stays as it is. What changes nothing is no
    /// write. An object that is being deleted goes when this takes its last finalizer away.
    ///
    /// # Errors
    ///
    /// 404: there is none. 409: it is another version. See also [`create`](Self::create).
    pub fn update(&self, object: Value) -> Result<Arc<Value>, Status> {
        self.update_with(object, Effect::Stored)
    }

    /// [`update`](Self::update), or what would come of it.
    ///
    /// # Errors
    ///
    /// See [`update`](Self::update).
    pub fn update_with(&self, object: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        self.write(|it| it.update(object, effect))
    }

    /// Replaces the status of an object, and nothing else.
    ///
    /// # Errors
    ///
    /// See [`update`](Self::update).
    pub fn update_status(&self, object: Value) -> Result<Arc<Value>, Status> {
        self.update_status_with(object, Effect::Stored)
    }

    /// [`update_status`](Self::update_status), or what would come of it.
    ///
    /// # Errors
    ///
    /// See [`update`](Self::update).
    pub fn update_status_with(&self, object: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        self.write(|it| it.update_status(object, effect))
    }

    /// Deletes an object; cluster-wide ones have namespace `""`. A Pod on a node stays, with
    /// `deletionTimestamp`, until it is deleted with grace 0; an object with finalizers until they
    /// are gone; a namespace until it is empty. Dependents go after their owner, in the background.
    /// Returns the object as it is now, or as it was.
    ///
    /// # Errors
    ///
    /// 404: there is none. 409: it is another version. 403: a namespace that must stay.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers write the options in place"
    )]
    pub fn delete(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<Arc<Value>, Status> {
        let key = Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let named: Vec<_> = self.history.kinds(kind).collect();
        let holding = |it: &&&'static Resource| self.object(it, &key).is_some();
        let Some(resource) = named.iter().find(holding).or(named.first()) else {
            return Err(unknown_kind("", kind));
        };
        self.delete_of(resource, &key, &options)
    }

    /// [`delete`](Self::delete) in a collection.
    ///
    /// # Errors
    ///
    /// See [`delete`](Self::delete).
    pub fn delete_of(
        &self,
        resource: &'static Resource,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Arc<Value>, Status> {
        self.write(|it| it.delete(resource, key, options))
    }

    /// One object, by the name of its kind: `Pod`.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let mut kinds = self.history.kinds(kind);
        let found = kinds.find_map(|it| self.object(it, &key))?;
        Some(found.value())
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(&self, kind: &str) -> Vec<Arc<Value>> {
        let objects: Vec<Arc<Object>> = {
            let state = self.history.lock();
            let collections = self.history.kinds(kind).map(|it| state.collection(it));
            collections
                .flat_map(|it| it.objects.values().cloned())
                .collect()
        };
        objects.iter().map(|it| it.value()).collect()
    }

    /// Wakes after every change.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.history.changes()
    }

    /// Version of the last change.
    pub fn revision(&self) -> u64 {
        self.history.lock().revision
    }

    /// The changes after `revision`, of all kinds, in order.
    ///
    /// # Errors
    ///
    /// The history does not reach back that far: list again.
    pub fn changes_since(&self, revision: u64) -> Result<Vec<Change>, Forgotten> {
        let events = self.history.since(revision)?;
        Ok(events.iter().map(|it| Change::of(it)).collect())
    }

    /// Fills the store with the objects of an earlier run, as they were: uids, versions and creation
    /// times are kept, and nothing is written to the journal. `revision` is the version of the last
    /// change of that run. For a new store, before anybody uses it.
    ///
    /// # Errors
    ///
    /// The first object that has no place; then nothing is changed.
    pub fn restore(&self, objects: Vec<Value>, revision: u64) -> Result<(), Misplaced> {
        let result = self.lock().restore(objects, revision);
        self.history.wake();
        result
    }

    /// The versions below, for lists and watches.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    pub(crate) fn object(&self, resource: &'static Resource, key: &Key) -> Option<Arc<Object>> {
        self.history.lock().collection(resource).get(key).cloned()
    }

    fn write<T>(&self, write: impl FnOnce(&mut Writer) -> Result<T, Status>) -> Result<T, Status> {
        let mut writer = self.lock();
        let before = self.revision();
        let result = write(&mut writer);
        writer.work();
        let changed = self.revision() != before;
        drop(writer);
        if changed {
            self.history.wake();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer
            .lock()
            .expect("admission and journal do not panic")
    }
}

/// 400 for a kind that is not served.
pub(crate) fn unknown_kind(api_version: &str, kind: &str) -> Status {
    Status::bad_request(format!(
        "no kind {kind:?} is registered for version {api_version:?}"
    ))
}
