//! Generated names.

use std::hash::{BuildHasher, RandomState};

use super::writer::Writer;
use crate::object::Key;
use crate::resource::Resource;

/// The characters of generated names: no vowels, so that no words arise
/// (`apimachinery/pkg/util/rand`).
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Longest prefix of a generated name (`apiserver/pkg/storage/names`).
const LONGEST_PREFIX: usize = 58;

impl Writer {
    /// A name with `prefix` that no object has.
    pub(super) fn generate(&self, resource: &Resource, near: &Key, prefix: &str) -> String {
        let end = (0..=prefix.len().min(LONGEST_PREFIX))
            .rev()
            .find(|it| prefix.is_char_boundary(*it));
        let prefix = &prefix[..end.unwrap_or_default()];
        loop {
            let mut random = RandomState::new().hash_one(prefix);
            let mut key = Key::new(&*near.namespace, prefix);
            for _ in 0..5 {
                let letter = LETTERS[(random % LETTERS.len() as u64) as usize];
                key.name.push(char::from(letter));
                random /= LETTERS.len() as u64;
            }
            if self.get(resource, &key).is_none() {
                return key.name;
            }
        }
    }
}
