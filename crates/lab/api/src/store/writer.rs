//! The single writer: every change goes to the journal, then to the history.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::dependents::Dependents;
use super::expiry::Expiry;
use super::{Admission, Change, Journal, custom};
use crate::history::{Event, History};
use crate::object::{Key, Object};
use crate::resource::Resource;
use crate::status::Status;

/// The state of the writer, locked for one write at a time.
pub(super) struct Writer {
    pub(super) history: Arc<History>,
    pub(super) admission: Box<dyn Admission>,
    journal: Option<Box<dyn Journal>>,
    pub(super) dependents: Dependents,
    pub(super) expiry: Expiry,
    /// Follow-up work of changes. A chore that the journal refuses is retried after the next write.
    pub(super) chores: VecDeque<Chore>,
    /// The system namespaces of a new store: written to the journal with the first other change.
    pub(super) unwritten: Vec<Change>,
}

/// Largest object in bytes as JSON: etcd's limit of a request, 1.5 MiB.
const LARGEST: usize = 3 * 1024 * 1024 / 2;

/// Follow-up work of a change.
#[derive(Clone, Debug)]
pub(super) enum Chore {
    /// An owner of this object was removed.
    Collect(Arc<Resource>, Key),
    /// The namespace of this object is being deleted.
    Delete(Arc<Resource>, Key),
    /// This object waits for other objects to be removed.
    Settle(Arc<Resource>, Key),
}

impl Writer {
    pub(super) fn new(
        history: Arc<History>,
        admission: Box<dyn Admission>,
        journal: Option<Box<dyn Journal>>,
    ) -> Self {
        Self {
            history,
            admission,
            journal,
            dependents: Dependents::default(),
            expiry: Expiry::default(),
            chores: VecDeque::new(),
            unwritten: Vec::new(),
        }
    }

    /// Does the follow-up work, and deletes expired Events.
    pub(super) fn work(&mut self) {
        while let Some(chore) = self.chores.front().cloned() {
            let done = match &chore {
                Chore::Collect(resource, key) => self.collect(resource, key),
                Chore::Delete(resource, key) => self.delete_in_namespace(resource, key),
                Chore::Settle(resource, key) => self.settle(resource, key),
            };
            if done.is_err() {
                return;
            }
            self.chores.pop_front();
        }
        while let Some((resource, key)) = self.expiry.due(Instant::now()) {
            let Some(event) = self.get(&resource, &key) else {
                return;
            };
            if self.remove(&resource, &event).is_err() {
                return;
            }
        }
    }

    pub(super) fn get(&self, resource: &Resource, key: &Key) -> Option<Arc<Object>> {
        self.history.lock().collection(resource).get(key).cloned()
    }

    /// The object, or 404.
    pub(super) fn find(&self, resource: &Resource, key: &Key) -> Result<Arc<Object>, Status> {
        let missing = || Status::not_found(resource, &key.name);
        self.get(resource, key).ok_or_else(missing)
    }

    /// Updates the indexes after a change.
    pub(super) fn follow(&mut self, event: &Event, change: &Change) {
        let resource = event.resource();
        self.dependents.follow(resource, event.key(), change);
        self.expiry.follow(resource, event, Instant::now());
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && old["metadata"]["ownerReferences"] != new["metadata"]["ownerReferences"]
        {
            self.settle_owners(old, &event.key().namespace);
        }
    }

    /// Stores the next version of `old`, which admission has completed.
    pub(super) fn commit(
        &mut self,
        resource: &Arc<Resource>,
        key: Key,
        object: Value,
        old: Option<Arc<Object>>,
    ) -> Result<Arc<Object>, Status> {
        let Value::Object(mut body) = object else {
            return Err(Status::bad_request("the body is no object"));
        };
        body.remove("kind");
        body.remove("apiVersion");
        let new = Object::freeze(resource.clone(), key, self.next_revision(), body);
        if new.bare.len() > LARGEST {
            return Err(Status::too_large_to_store());
        }
        let new = Arc::new(new);
        self.record(Event::of(new.clone(), old))?;
        Ok(new)
    }

    pub(super) fn remove(
        &mut self,
        resource: &Arc<Resource>,
        old: &Arc<Object>,
    ) -> Result<(), Status> {
        self.record(Event::deletion(self.next_revision(), old.clone()))?;
        if !resource.custom {
            self.admission.deleted(&old.value());
        }
        self.gone(resource, old);
        Ok(())
    }

    pub(super) fn next_revision(&self) -> u64 {
        self.history.lock().revision + 1
    }

    fn record(&mut self, event: Event) -> Result<(), Status> {
        let change = Change::of(&event);
        if let Some(journal) = &mut self.journal {
            let failed = |it: io::Error| {
                let why = match it.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        "the disk of the API server is full: "
                    }
                    _ => "",
                };
                Status::internal(format!("the change could not be kept: {why}{it}"))
            };
            while let Some(earlier) = self.unwritten.first() {
                journal.write(earlier).map_err(failed)?;
                self.unwritten.remove(0);
            }
            journal.write(&change).map_err(failed)?;
        }
        self.follow(&event, &change);
        let event = self.history.lock().record(event);
        custom::follow(&self.history, &event);
        Ok(())
    }
}
