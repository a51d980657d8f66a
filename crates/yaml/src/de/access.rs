//! Elements of a list and entries of a mapping, without those to skip.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess};

use super::{Error, Reader};
use crate::{Key, Node};

pub(super) struct Items<'a, 'de> {
    pub(super) rest: std::slice::Iter<'de, Node<'de>>,
    pub(super) skip: &'a [usize],
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T>(&mut self, seed: T) -> Result<Option<T::Value>, Error>
    where
        T: DeserializeSeed<'de>,
    {
        let skip = self.skip;
        let Some(node) = self.rest.find(|it| !skip.contains(&it.id())) else {
            return Ok(None);
        };
        let read = seed.deserialize(Reader { node, skip });
        read.map(Some).map_err(|it| it.at(node))
    }
}

pub(super) struct Entries<'a, 'de> {
    pub(super) rest: std::slice::Iter<'de, (Key<'de>, Node<'de>)>,
    pub(super) skip: &'a [usize],
    pub(super) value: Option<&'de Node<'de>>,
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K>(&mut self, seed: K) -> Result<Option<K::Value>, Error>
    where
        K: DeserializeSeed<'de>,
    {
        let skip = self.skip;
        // A repeated key is a problem of its own; the first one counts for the other problems.
        let read = self
            .rest
            .find(|(key, node)| !key.repeated && !skip.contains(&node.id()));
        let Some((key, node)) = read else {
            return Ok(None);
        };
        self.value = Some(node);
        seed.deserialize(BorrowedStrDeserializer::new(&key.text))
            .map(Some)
    }

    fn next_value_seed<V>(&mut self, seed: V) -> Result<V::Value, Error>
    where
        V: DeserializeSeed<'de>,
    {
        let node = self.value.take().expect("serde asks for the key first");
        let read = seed.deserialize(Reader {
            node,
            skip: self.skip,
        });
        read.map_err(|it| it.at(node))
    }
}
