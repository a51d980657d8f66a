//! The difference between what the kernel holds and what it should hold.

use std::collections::{BTreeMap, BTreeSet};

/// Writes that turn one set of keyed objects into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta<K, O> {
    /// Objects that are not there yet.
    pub add: Vec<(K, O)>,
    /// Objects that are there but differ.
    pub replace: Vec<(K, O)>,
    /// Objects that should not be there.
    pub delete: Vec<K>,
}

impl<K, O> Default for Delta<K, O> {
    fn default() -> Self {
        Self {
            add: Vec::new(),
            replace: Vec::new(),
            delete: Vec::new(),
        }
    }
}

impl<K: Ord + Clone, O: Clone + Eq> Delta<K, O> {
    /// What to write so that `observed` becomes `desired`.
    ///
    /// Law: applying the result to `observed` gives `desired`; it is empty exactly when they
    /// agree. A key must not occur twice in `desired`.
    #[must_use]
    pub fn between(observed: &BTreeMap<K, O>, desired: Vec<(K, O)>) -> Self {
        let mut delta = Self::default();
        if observed.is_empty() {
            delta.add = desired;
            return delta;
        }
        let kept: BTreeSet<&K> = desired.iter().map(|(key, _)| key).collect();
        let stale = observed.keys().filter(|key| !kept.contains(key));
        delta.delete = stale.cloned().collect();
        for (key, object) in desired {
            match observed.get(&key) {
                None => delta.add.push((key, object)),
                Some(old) if *old != object => delta.replace.push((key, object)),
                Some(_) => {}
            }
        }
        delta
    }

    /// Nothing to write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many objects are written.
    pub fn len(&self) -> usize {
        self.add.len() + self.replace.len() + self.delete.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn patch(observed: &BTreeMap<u8, u8>, delta: &Delta<u8, u8>) -> BTreeMap<u8, u8> {
        let mut patched = observed.clone();
        for key in &delta.delete {
            assert!(patched.remove(key).is_some(), "deletes only what is there");
        }
        for (key, object) in &delta.replace {
            assert!(
                patched.insert(*key, *object).is_some(),
                "replaces only what is there"
            );
        }
        for (key, object) in &delta.add {
            assert!(
                patched.insert(*key, *object).is_none(),
                "adds only what is missing"
            );
        }
        patched
    }

    proptest! {
        #[test]
        fn delta_law(
            observed in prop::collection::btree_map(0u8..20, 0u8..3, 0..20),
            desired in prop::collection::btree_map(0u8..20, 0u8..3, 0..20),
        ) {
            let delta = Delta::between(&observed, desired.clone().into_iter().collect());
            prop_assert_eq!(delta.is_empty(), observed == desired);
            prop_assert_eq!(patch(&observed, &delta), desired);
        }
    }
}
