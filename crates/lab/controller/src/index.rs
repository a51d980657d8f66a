//! An index of objects by the pairs of their labels or selectors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_model::NamespacedName;

/// Namespace, label, value.
type Pair = (Arc<str>, String, String);

/// Names of objects by pair, in each namespace.
#[derive(Debug, Default)]
pub(crate) struct Index {
    names: BTreeMap<Pair, BTreeSet<NamespacedName>>,
}

impl Index {
    /// Adds an object with these pairs.
    pub(crate) fn add<'a>(
        &mut self,
        object: &NamespacedName,
        pairs: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) {
        for (key, value) in pairs {
            let pair = pair(&object.namespace, key, value);
            self.names.entry(pair).or_default().insert(object.clone());
        }
    }

    /// Removes an object with these pairs.
    pub(crate) fn remove<'a>(
        &mut self,
        object: &NamespacedName,
        pairs: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) {
        for (key, value) in pairs {
            let pair = pair(&object.namespace, key, value);
            if let Some(names) = self.names.get_mut(&pair) {
                names.remove(object);
                if names.is_empty() {
                    self.names.remove(&pair);
                }
            }
        }
    }

    /// The objects in a namespace with this pair.
    pub(crate) fn get(
        &self,
        namespace: &Arc<str>,
        key: &str,
        value: &str,
    ) -> impl Iterator<Item = &NamespacedName> {
        let names = self.names.get(&pair(namespace, key, value));
        names.into_iter().flatten()
    }
}

fn pair(namespace: &Arc<str>, key: &str, value: &str) -> Pair {
    (namespace.clone(), key.to_owned(), value.to_owned())
}
