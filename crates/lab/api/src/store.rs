//! The store: what kube-apiserver does with a write.

mod author;
mod custom;
mod delete;
mod dependents;
mod expiry;
mod hooks;
mod names;
pub(crate) mod namespaces;
mod options;
mod pods;
mod restore;
mod write;
mod writer;

use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::watch;

pub use author::Author;
pub(crate) use delete::ends_at_once;
pub use hooks::{Admission, AdmitAll, Change, Journal};
pub use options::{DeleteOptions, Effect, Propagation, Settings};

use crate::history::{Forgotten, History, Misplaced};
use crate::object::{Key, Object};
use crate::resource::{KINDS, Resource};
use crate::status::Status;
use writer::Writer;

/// All objects of a cluster, shared by the server and the controllers in this process. Every method
/// may be called from any thread and blocks for a short time only.
///
/// Writes happen one after the other: each is admitted, written to the journal, then visible.
pub struct Store {
    history: Arc<History>,
    writer: Mutex<Writer>,
}

impl Store {
    /// A store with the namespaces that every cluster has.
    pub fn new(settings: Settings) -> Arc<Self> {
        let history = Arc::new(History::new(KINDS.clone(), settings.history));
        let mut writer = Writer::new(history.clone(), settings.admission, settings.journal);
        writer.make_system_namespaces();
        Arc::new(Self {
            history,
            writer: Mutex::new(writer),
        })
    }

    /// Writes in the name of a field manager.
    pub fn by(&self, manager: &'static str) -> Author<'_> {
        Author {
            store: self,
            manager,
        }
    }

    /// Creates an object. `generateName` is supported; the namespace `default` is the default.
    /// Returns the stored object.
    ///
    /// # Errors
    ///
    /// 400 and 422: the object is invalid. 404: the namespace does not exist. 403: the namespace is
    /// being deleted. 409: the object exists. Others: admission, journal.
    pub fn create(&self, object: Value) -> Result<Arc<Value>, Status> {
        self.create_with(object, Effect::Stored)
    }

    /// As [`create`](Self::create), with a dry run as an option.
    ///
    /// # Errors
    ///
    /// See [`create`](Self::create).
    pub fn create_with(&self, object: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        self.write(|it| it.create(object, effect))
    }

    /// Replaces an object. `metadata.resourceVersion` and `metadata.uid`, if given, must be those
    /// of the stored object. A status that is a subresource does not change. An equal object makes
    /// no new version. An object that is being deleted goes with its last finalizer.
    ///
    /// # Errors
    ///
    /// 404: the object does not exist. 409: it has another version. See also
    /// [`create`](Self::create).
    pub fn update(&self, object: Value) -> Result<Arc<Value>, Status> {
        self.update_with(object, Effect::Stored)
    }

    /// As [`update`](Self::update), with a dry run as an option.
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

    /// As [`update_status`](Self::update_status), with a dry run as an option.
    ///
    /// # Errors
    ///
    /// See [`update`](Self::update).
    pub fn update_status_with(&self, object: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        self.write(|it| it.update_status(object, effect))
    }

    /// Assigns a Pod to the node that it names, and replaces its status, too (`BindingREST` in
    /// `pkg/registry/core/pod/storage`).
    ///
    /// # Errors
    ///
    /// 409: the Pod has a node, must not have one yet, or is being deleted. See also [`update`](Self::update).
    pub fn bind(&self, pod: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        self.write(|it| it.bind(pod, effect))
    }

    /// Replaces the ephemeral containers of a Pod, and nothing else. Those that it has stay as they are
    /// (`EphemeralContainersREST` in `pkg/registry/core/pod/storage`).
    ///
    /// # Errors
    ///
    /// See [`update`](Self::update).
    pub fn add_containers(&self, pod: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        self.write(|it| it.add_containers(pod, effect))
    }

    /// Replaces the resources of a Pod's containers, and nothing else (`pods/resize`).
    ///
    /// # Errors
    ///
    /// 422: the change is none of CPU and memory, or would give the Pod another class. See also [`update`](Self::update).
    pub fn resize(&self, pod: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        self.write(|it| it.resize(pod, effect))
    }

    /// Replaces the finalizers of a Namespace, in `spec` too. One that is being deleted goes with the last of them,
    /// whatever it has in it.
    ///
    /// # Errors
    ///
    /// See [`update`](Self::update).
    pub fn finalize(&self, namespace: Value, effect: Effect) -> Result<Arc<Value>, Status> {
        self.write(|it| it.finalize(namespace, effect))
    }

    /// Deletes an object; the namespace of a cluster-wide one is `""`. A Pod on a node keeps
    /// existing, with `deletionTimestamp`, until it is deleted with grace period 0; an object with
    /// finalizers until they are removed; a Namespace until it is empty. Dependents are deleted
    /// after their owner, in the background. Returns the object as it is now, or as it was.
    ///
    /// # Errors
    ///
    /// 404: the object does not exist. 409: it has another version. 403: the namespace cannot be
    /// deleted.
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
        let key = Key::new(namespace, name);
        let registry = self.history.registry();
        let named: Vec<_> = registry.kinds(kind).collect();
        let holding = |it: &&&Arc<Resource>| self.object(it, &key).is_some();
        let Some(resource) = named.iter().find(holding).or(named.first()) else {
            return Err(unknown_kind("", kind));
        };
        self.delete_of(resource, &key, &options)
    }

    /// As [`delete`](Self::delete), for the collection `resource`.
    ///
    /// # Errors
    ///
    /// See [`delete`](Self::delete).
    pub fn delete_of(
        &self,
        resource: &Arc<Resource>,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Arc<Value>, Status> {
        self.write(|it| it.delete(resource, key, options))
    }

    /// One object of a kind such as `Pod`.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = Key::new(namespace, name);
        let registry = self.history.registry();
        let mut kinds = registry.kinds(kind);
        let found = kinds.find_map(|it| self.object(it, &key))?;
        Some(found.value())
    }

    /// All objects of a kind, sorted by namespace and name.
    pub fn list(&self, kind: &str) -> Vec<Arc<Value>> {
        let objects: Vec<Arc<Object>> = {
            let state = self.history.lock();
            let registry = self.history.registry();
            let collections = registry.kinds(kind).map(|it| state.collection(it));
            collections
                .flat_map(|it| it.objects.values().cloned())
                .collect()
        };
        objects.iter().map(|it| it.value()).collect()
    }

    /// A receiver that is woken after every change.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.history.changes()
    }

    /// The version of the last change.
    pub fn revision(&self) -> u64 {
        self.history.lock().revision
    }

    /// The changes after `revision`, of all built-in kinds, in order.
    ///
    /// # Errors
    ///
    /// The history begins after `revision`: list again.
    pub fn changes_since(&self, revision: u64) -> Result<Vec<Change>, Forgotten> {
        let events = self.history.since(revision)?;
        let built_in = events.iter().filter(|it| !it.resource().custom);
        Ok(built_in.map(|it| Change::of(it)).collect())
    }

    /// Fills a new store with the objects of an earlier run. uids, versions and creation times
    /// stay; nothing is written to the journal. `revision` is the version of the last change of
    /// that run.
    ///
    /// # Errors
    ///
    /// The first object that cannot be stored; then nothing is changed.
    pub fn restore(&self, objects: Vec<Value>, revision: u64) -> Result<(), Misplaced> {
        let result = self.lock().restore(objects, revision);
        self.history.wake();
        result
    }

    /// The history behind the store, for lists and watches.
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    pub(crate) fn object(&self, resource: &Arc<Resource>, key: &Key) -> Option<Arc<Object>> {
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

/// 400: the kind is not served.
pub(crate) fn unknown_kind(api_version: &str, kind: &str) -> Status {
    Status::bad_request(format!(
        "no kind {kind:?} is registered for version {api_version:?}"
    ))
}
