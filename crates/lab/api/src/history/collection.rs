//! The objects of one kind, and their recent events.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::history::Event;
use crate::object::{Key, Object};
use crate::resource::Resource;

/// The objects of one kind.
#[derive(Debug, Default)]
pub struct Collection {
    /// The present objects.
    pub objects: BTreeMap<Key, Arc<Object>>,
    events: VecDeque<Arc<Event>>,
    /// The JSON of the events' objects in bytes.
    bytes: usize,
    /// The oldest version that can be listed or watched from.
    oldest: u64,
}

/// The version is older than the history: 410 Gone.
#[derive(Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The oldest version that can be listed or watched from.
    pub oldest: u64,
}

impl Collection {
    /// A collection without events.
    pub fn restored(objects: BTreeMap<Key, Arc<Object>>, revision: u64) -> Self {
        Self {
            objects,
            oldest: revision,
            ..Self::default()
        }
    }

    /// A collection that cannot be listed or watched from any version.
    pub(super) const fn gone() -> Self {
        Self {
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            bytes: 0,
            oldest: u64::MAX,
        }
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// Applies `event` and keeps it, beside at most `history` older ones.
    pub(super) fn record(&mut self, event: Arc<Event>, history: usize) {
        match event.current() {
            Some(object) => self.objects.insert(event.key().clone(), object.clone()),
            None => self.objects.remove(event.key()),
        };
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > history {
            self.drop_first();
        }
    }

    /// Makes the objects those of another version of the kind, without new versions: fields that its schema lacks go,
    /// defaults come (what kube-apiserver does when it reads from etcd).
    pub(super) fn convert(&mut self, resource: &Arc<Resource>) {
        for object in self.objects.values_mut() {
            if Arc::ptr_eq(&object.resource, resource) {
                continue;
            }
            let mut value = object.body().into();
            // The schema of a definition refuses no type.
            let _ = resource.schema.decode(&mut value);
            resource.schema.complete(&mut value);
            if let Value::Object(body) = value {
                let (key, revision) = (object.key.clone(), object.revision);
                *object = Object::freeze(resource.clone(), key, revision, body).into();
            }
        }
    }

    /// Size of the events' objects as JSON in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops the oldest event.
    pub(super) fn drop_first(&mut self) {
        if let Some(dropped) = self.events.pop_front() {
            self.bytes -= dropped.bytes();
            self.oldest = dropped.revision;
        }
    }

    /// Drops the events up to `revision`.
    pub fn forget(&mut self, revision: u64) {
        self.events.clear();
        self.bytes = 0;
        self.oldest = revision;
    }

    /// The events after `revision`; none when `revision` is in the future.
    ///
    /// # Errors
    ///
    /// [`Forgotten`].
    pub fn since(&self, revision: u64) -> Result<impl Iterator<Item = &Arc<Event>>, Forgotten> {
        self.reaches(revision)?;
        let first = self.events.partition_point(|it| it.revision <= revision);
        Ok(self.events.range(first..))
    }

    /// The objects as they were at `revision`.
    ///
    /// # Errors
    ///
    /// [`Forgotten`].
    pub fn at(&self, revision: u64) -> Result<Cow<'_, BTreeMap<Key, Arc<Object>>>, Forgotten> {
        let mut later = self.since(revision)?.collect::<Vec<_>>();
        if later.is_empty() {
            return Ok(Cow::Borrowed(&self.objects));
        }
        let mut objects = self.objects.clone();
        while let Some(event) = later.pop() {
            match &event.previous {
                Some(previous) => objects.insert(event.key().clone(), previous.clone()),
                None => objects.remove(event.key()),
            };
        }
        Ok(Cow::Owned(objects))
    }

    fn reaches(&self, revision: u64) -> Result<(), Forgotten> {
        let oldest = self.oldest;
        if revision < oldest {
            Err(Forgotten { oldest })
        } else {
            Ok(())
        }
    }
}
