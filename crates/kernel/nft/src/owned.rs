//! A table that one program owns, as objects with keys: the order in which a difference is written.
//!
//! ```text
//! tables ▸ sets, empty chains ▸ elements that go ▸ rules that go ▸ rules ▸ elements that come ▸ sets that go ▸ chains that go
//! ```
//!
//! Rules come before elements, since binding a map walks what is in it; whatever is referred to exists when it is
//! referred to. Sets go before chains, since a verdict map may hold one of the chains. The kernel shows packets the old
//! rules or the new ones, nothing between.

use sluice_netlink::request::uninterrupted;
use sluice_reconcile::BackendError;

use crate::batch::Batch;
use crate::kernel::Kernel;
use crate::object::Table;
use crate::scope::Scope;
use crate::text::family_word;

/// Our table, if it exists. Ours is only a table with this comment.
///
/// # Errors
///
/// The kernel could not be asked, or a table of this name is not ours.
pub fn table(
    kernel: &mut impl Kernel,
    scope: Scope<'_>,
    comment: &str,
) -> Result<Option<Table>, BackendError> {
    let Scope { family, table } = scope;
    let shown = format!("table {} {table}", family_word(family));
    let tables = uninterrupted(|| kernel.tables(family));
    let tables = tables.map_err(|error| BackendError::new(format!("list {shown}"), error))?;
    let found = tables.into_iter().find(|it| it.name == table);
    let is_ours = |it: &Table| it.comment.as_deref() == Some(comment);
    if found.as_ref().is_none_or(is_ours) {
        return Ok(found);
    }
    Err(BackendError {
        operation: format!("use {shown}"),
        reason: format!(
            "a table of this name exists that Sluice did not make (its comment is not {comment:?}): rename it, or \
             remove it with `nft delete {shown}`"
        ),
        source: None,
    })
}

/// Whether an object is in the kernel already, with another content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The kernel has no object of this key.
    Absent,
    /// The kernel has one that differs.
    Present,
}

/// Writes the objects of one owner. Each function writes its part of an object to the batch, with the tag, and writes
/// nothing for an object without that part.
pub trait Write {
    /// The identity of an object.
    type Key;
    /// The content of an object.
    type Object;

    /// Creates a table. A table that is present is deleted first, with everything in it.
    fn table(&mut self, batch: &mut Batch, tag: u32, key: &Self::Key, existing: Existing);

    /// Creates what others refer to: a set, or a chain without rules. A set that only its declaration fills gets its
    /// elements here, too.
    fn declare(
        &mut self,
        batch: &mut Batch,
        tag: u32,
        object: (&Self::Key, &Self::Object),
        existing: Existing,
    );

    fn delete_element(&mut self, batch: &mut Batch, tag: u32, key: &Self::Key);

    /// Deletes the rules of a chain.
    fn flush_chain(&mut self, batch: &mut Batch, tag: u32, key: &Self::Key);

    /// Adds the rules of a chain.
    fn rules(&mut self, batch: &mut Batch, tag: u32, object: (&Self::Key, &Self::Object));

    fn add_element(&mut self, batch: &mut Batch, tag: u32, object: (&Self::Key, &Self::Object));

    /// Deletes a set.
    fn remove_set(&mut self, batch: &mut Batch, tag: u32, key: &Self::Key);

    /// Deletes a chain.
    fn remove_chain(&mut self, batch: &mut Batch, tag: u32, key: &Self::Key);
}

/// A difference to write. The objects of the three lists, counted through in this order, have the tags 0, 1, 2, ...
#[derive(Debug)]
pub struct Difference<'a, K, O> {
    /// Objects that are not there yet.
    pub add: &'a [(K, O)],
    /// Objects that are there but differ.
    pub replace: &'a [(K, O)],
    /// Objects that should not be there.
    pub delete: &'a [K],
}

impl<'a, K, O> Difference<'a, K, O> {
    /// The object that a tag stands for.
    #[must_use]
    pub fn key(&self, tag: u32) -> Option<&'a K> {
        let written = self.add.iter().chain(self.replace).map(|(key, _)| key);
        written.chain(self.delete).nth(tag as usize)
    }

    /// The whole difference.
    pub fn whole(&self, writer: &mut impl Write<Key = K, Object = O>) -> Batch {
        let mut batch = self.shape(writer);
        for (tag, object, _) in self.written() {
            writer.add_element(&mut batch, tag, object);
        }
        for (tag, key) in self.deleted() {
            writer.remove_set(&mut batch, tag, key);
        }
        for (tag, key) in self.deleted() {
            writer.remove_chain(&mut batch, tag, key);
        }
        batch
    }

    /// The part before the elements that come. For an owner that adds the elements of a new table in transactions of
    /// their own.
    pub fn shape(&self, writer: &mut impl Write<Key = K, Object = O>) -> Batch {
        let mut batch = Batch::new();
        for (tag, (key, _), existing) in self.written() {
            writer.table(&mut batch, tag, key, existing);
        }
        for (tag, object, existing) in self.written() {
            writer.declare(&mut batch, tag, object, existing);
        }
        let replaced = (count(self.add)..).zip(self.replace.iter().map(|(key, _)| key));
        let gone = replaced.chain(self.deleted());
        for (tag, key) in gone.clone() {
            writer.delete_element(&mut batch, tag, key);
        }
        for (tag, key) in gone {
            writer.flush_chain(&mut batch, tag, key);
        }
        for (tag, object, _) in self.written() {
            writer.rules(&mut batch, tag, object);
        }
        batch
    }

    /// The objects that are added and replaced, with their tags.
    fn written(&self) -> impl Iterator<Item = (u32, (&'a K, &'a O), Existing)> + use<'a, K, O> {
        let added = self.add.iter().map(|it| (it, Existing::Absent));
        let replaced = self.replace.iter().map(|it| (it, Existing::Present));
        let all = (0..).zip(added.chain(replaced));
        all.map(|(tag, ((key, object), existing))| (tag, (key, object), existing))
    }

    fn deleted(&self) -> impl Iterator<Item = (u32, &'a K)> + Clone + use<'a, K, O> {
        (count(self.add) + count(self.replace)..).zip(self.delete)
    }
}

fn count<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).expect("fewer than 2^32 objects fit in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes down what it is asked to write.
    #[derive(Default)]
    struct Recorder(Vec<String>);

    impl Recorder {
        fn note(&mut self, part: &str, tag: u32, key: &str) {
            self.0.push(format!("{part} {tag} {key}"));
        }
    }

    impl Write for Recorder {
        type Key = &'static str;
        type Object = ();

        fn table(&mut self, _: &mut Batch, tag: u32, key: &Self::Key, existing: Existing) {
            self.note(&format!("table {existing:?}"), tag, key);
        }

        fn declare(
            &mut self,
            _: &mut Batch,
            tag: u32,
            (key, ()): (&Self::Key, &()),
            existing: Existing,
        ) {
            self.note(&format!("declare {existing:?}"), tag, key);
        }

        fn delete_element(&mut self, _: &mut Batch, tag: u32, key: &Self::Key) {
            self.note("delete element", tag, key);
        }

        fn flush_chain(&mut self, _: &mut Batch, tag: u32, key: &Self::Key) {
            self.note("flush chain", tag, key);
        }

        fn rules(&mut self, _: &mut Batch, tag: u32, (key, ()): (&Self::Key, &())) {
            self.note("rules", tag, key);
        }

        fn add_element(&mut self, _: &mut Batch, tag: u32, (key, ()): (&Self::Key, &())) {
            self.note("add element", tag, key);
        }

        fn remove_set(&mut self, _: &mut Batch, tag: u32, key: &Self::Key) {
            self.note("remove set", tag, key);
        }

        fn remove_chain(&mut self, _: &mut Batch, tag: u32, key: &Self::Key) {
            self.note("remove chain", tag, key);
        }
    }

    #[test]
    fn each_part_of_all_objects_comes_before_the_next_part() {
        let difference = Difference {
            add: &[("new", ())],
            replace: &[("changed", ())],
            delete: &["old"],
        };
        let mut recorder = Recorder::default();
        let _ = difference.whole(&mut recorder);
        assert_eq!(
            recorder.0,
            [
                "table Absent 0 new",
                "table Present 1 changed",
                "declare Absent 0 new",
                "declare Present 1 changed",
                "delete element 1 changed",
                "delete element 2 old",
                "flush chain 1 changed",
                "flush chain 2 old",
                "rules 0 new",
                "rules 1 changed",
                "add element 0 new",
                "add element 1 changed",
                "remove set 2 old",
                "remove chain 2 old",
            ]
        );
        let keys = [0, 1, 2, 3].map(|tag| difference.key(tag).copied());
        assert_eq!(keys, [Some("new"), Some("changed"), Some("old"), None]);
    }
}
