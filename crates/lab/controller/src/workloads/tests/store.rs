//! The objects of one kind, as an API server stores them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;

/// Namespace and name.
pub(super) type Key = (String, String);

pub(super) fn key(metadata: &ObjectMeta) -> Key {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    (text(&metadata.namespace), text(&metadata.name))
}

/// The API server refuses a write.
#[derive(Debug, PartialEq)]
pub(super) struct Refused;

pub(super) struct Store<T> {
    objects: BTreeMap<Key, Arc<T>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
        }
    }
}

impl<T> Store<T>
where
    T: Metadata<Ty = ObjectMeta> + Clone + PartialEq + Serialize + DeserializeOwned,
{
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(super) fn create(&mut self, mut object: T, number: u64, now: Time) -> Result<(), Refused> {
        let key = key(object.metadata());
        if self.objects.contains_key(&key) {
            return Err(Refused);
        }
        let metadata = object.metadata_mut();
        metadata.uid = Some(format!("uid-{number:06}"));
        metadata.resource_version = Some(number.to_string());
        metadata.creation_timestamp = Some(now);
        metadata.generation = Some(1);
        self.objects.insert(key, Arc::new(stored(&object)));
        Ok(())
    }

    /// Replaces an object if it has the resourceVersion that was read.
    pub(super) fn update(&mut self, mut object: T, number: u64) -> Result<(), Refused> {
        let key = key(object.metadata());
        let old = self.objects.get(&key).ok_or(Refused)?;
        if old.metadata().resource_version != object.metadata().resource_version {
            return Err(Refused);
        }
        assert!(**old != object, "a write changes something: {key:?}");
        object.metadata_mut().resource_version = Some(number.to_string());
        self.objects.insert(key, Arc::new(stored(&object)));
        Ok(())
    }

    /// Changes an object of any version.
    pub(super) fn edit(&mut self, key: &Key, number: u64, edit: impl FnOnce(&mut T)) {
        let object = Arc::make_mut(self.objects.get_mut(key).expect("it exists"));
        edit(object);
        object.metadata_mut().resource_version = Some(number.to_string());
        *object = stored(object);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.objects.remove(key);
    }
}

/// An object as an API server returns it: times have seconds only.
fn stored<T: Serialize + DeserializeOwned>(object: &T) -> T {
    let text = serde_json::to_string(object).expect("objects of the API become JSON");
    serde_json::from_str(&text).expect("and come back")
}
