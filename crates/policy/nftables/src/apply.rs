//! Objects as changes of a transaction, in the order of [`sluice_nft::owned`].

use sluice_nft::owned::{Difference, Existing, Write};
use sluice_nft::{
    Batch, Chain as KernelChain, Create, DataRef, ElementRef, KernelRule, KeyBytes, Verdict,
};
use sluice_reconcile::Delta;

use crate::name::scope;
use crate::object::{Entry, Key, Object};
use crate::observe::TABLE_COMMENT;

/// The transaction that carries out a delta.
pub(crate) fn transaction(delta: &Delta<Key, Object>) -> Batch {
    difference(delta).whole(&mut Writer::default())
}

/// The object that a tag of the transaction stands for.
pub(crate) fn key(delta: &Delta<Key, Object>, tag: u32) -> Option<&Key> {
    difference(delta).key(tag)
}

fn difference(delta: &Delta<Key, Object>) -> Difference<'_, Key, Object> {
    Difference {
        add: &delta.add,
        replace: &delta.replace,
        delete: &delta.delete,
    }
}

#[derive(Default)]
struct Writer {
    key: KeyBytes,
}

impl Writer {
    fn encode(&mut self, entry: &Entry) {
        self.key.set(&entry.fields());
        if let Entry::Foreign(bytes) = entry {
            self.key.start.extend(bytes);
        }
    }
}

impl Write for Writer {
    type Key = Key;
    type Object = Object;

    fn table(&mut self, batch: &mut Batch, tag: u32, key: &Key, existing: Existing) {
        let Key::Table(family) = key else {
            return;
        };
        let scope = scope(*family);
        if existing == Existing::Present {
            batch.delete_table(tag, scope);
        }
        batch.add_table(tag, scope, Some(TABLE_COMMENT), Create::IfMissing);
    }

    fn declare(
        &mut self,
        batch: &mut Batch,
        tag: u32,
        (key, object): (&Key, &Object),
        existing: Existing,
    ) {
        let scope = scope(key.family());
        match (key, object) {
            (Key::Chain(_, name), Object::Chain(chain)) => {
                let chain = KernelChain {
                    name: name.to_string(),
                    hook: chain.hook,
                    comment: None,
                };
                batch.add_chain(tag, scope, &chain, Create::IfMissing);
            }
            (Key::Set(..), Object::Set(set)) if existing == Existing::Absent => {
                batch.add_set(tag, scope, set, Create::IfMissing);
            }
            _ => {}
        }
    }

    fn flush_chain(&mut self, batch: &mut Batch, tag: u32, key: &Key) {
        if let Key::Chain(family, name) = key {
            batch.flush_chain(tag, scope(*family), name.as_str());
        }
    }

    fn rules(&mut self, batch: &mut Batch, tag: u32, (key, object): (&Key, &Object)) {
        let (Key::Chain(family, name), Object::Chain(chain)) = (key, object) else {
            return;
        };
        for exprs in &chain.exprs {
            let rule = KernelRule {
                chain: name.to_string(),
                exprs: exprs.clone(),
                comment: None,
            };
            batch.add_rule(tag, scope(*family), &rule);
        }
    }

    fn add_element(&mut self, batch: &mut Batch, tag: u32, (key, object): (&Key, &Object)) {
        let (Key::Element(family, set, entry), Object::Element(element)) = (key, object) else {
            return;
        };
        self.encode(entry);
        let goto = element.goto.as_ref().map(|it| Verdict::Goto(it.as_str()));
        let added = ElementRef {
            data: goto.map(DataRef::Verdict),
            comment: element.comment.as_deref(),
            ..ElementRef::default()
        };
        let (scope, set) = (scope(*family), set.to_string());
        self.key.write(added, |it| {
            batch.add_element(tag, scope, &set, it, Create::IfMissing);
        });
    }

    fn delete_element(&mut self, batch: &mut Batch, tag: u32, key: &Key) {
        let Key::Element(family, set, entry) = key else {
            return;
        };
        self.encode(entry);
        let (scope, set) = (scope(*family), set.to_string());
        self.key.write(ElementRef::default(), |it| {
            batch.delete_element(tag, scope, &set, it);
        });
    }

    fn remove_chain(&mut self, batch: &mut Batch, tag: u32, key: &Key) {
        if let Key::Chain(family, name) = key {
            batch.delete_chain(tag, scope(*family), name.as_str());
        }
    }

    fn remove_set(&mut self, batch: &mut Batch, tag: u32, key: &Key) {
        if let Key::Set(family, name) = key {
            batch.delete_set(tag, scope(*family), &name.to_string());
        }
    }
}
