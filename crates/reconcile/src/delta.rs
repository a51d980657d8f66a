//! The difference between what the kernel holds and what it should hold.

use std::collections::BTreeMap;

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

impl<K: Ord, O: Eq> Delta<K, O> {
    /// What to write so that `observed` becomes `desired`.
    ///
    /// Law: applying the result to `observed` gives `desired`; it is empty exactly when they
    /// agree. A key must not occur twice in `desired`.
    #[must_use]
    pub fn between(mut observed: BTreeMap<K, O>, desired: Vec<(K, O)>) -> Self {
        let mut delta = Self {
            add: desired,
            ..Self::default()
        };
        delta.exist(&mut observed);
        delta.delete = observed.into_keys().collect();
        delta
    }

    /// Of what is added, these objects exist: adding one of them is a replacement, or no write at
    /// all when it is as it should be. Takes those out of `found`.
    pub(crate) fn exist(&mut self, found: &mut BTreeMap<K, O>) {
        if found.is_empty() {
            return;
        }
        for (key, object) in std::mem::take(&mut self.add) {
            match found.remove(&key) {
                None => self.add.push((key, object)),
                Some(old) if old != object => self.replace.push((key, object)),
                Some(_) => {}
            }
        }
    }

    /// With the writes of another delta, of other objects.
    pub fn extend(&mut self, other: Self) {
        self.add.extend(other.add);
        self.replace.extend(other.replace);
        self.delete.extend(other.delete);
    }

    /// The time that the writes take, in that of a small object.
    pub fn weight(&self, weight: impl Fn(&O) -> usize) -> usize {
        let added: usize = self.add.iter().map(|(_, it)| weight(it)).sum();
        let replaced: usize = self.replace.iter().map(|(_, it)| 1 + weight(it)).sum();
        added + replaced + self.delete.len()
    }

    /// The keys of all objects to write.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        let written = self.add.iter().chain(&self.replace).map(|(key, _)| key);
        written.chain(&self.delete)
    }

    /// How many objects are to be written.
    pub fn len(&self) -> usize {
        self.add.len() + self.replace.len() + self.delete.len()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.replace.is_empty() && self.delete.is_empty()
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
            let delta = Delta::between(observed.clone(), desired.clone().into_iter().collect());
            prop_assert_eq!(delta.is_empty(), observed == desired);
            prop_assert_eq!(patch(&observed, &delta), desired);
        }

        /// Objects that are found only when they are asked for by key.
        #[test]
        fn delta_law_of_what_is_found_later(
            observed in prop::collection::btree_map(0u8..20, 0u8..3, 0..20),
            hidden in prop::collection::btree_map(0u8..20, 0u8..3, 0..20),
            desired in prop::collection::btree_map(0u8..20, 0u8..3, 0..20),
        ) {
            let wanted = desired.clone().into_iter().collect();
            let mut delta = Delta::between(observed.clone(), wanted);
            let mut found = hidden;
            found.retain(|key, _| delta.add.iter().any(|(added, _)| added == key));
            let mut all = observed;
            all.extend(found.clone());
            delta.exist(&mut found);
            prop_assert_eq!(delta.is_empty(), all == desired);
            prop_assert_eq!(patch(&all, &delta), desired);
        }
    }
}
