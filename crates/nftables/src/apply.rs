//! Turns a delta into one transaction.
//!
//! Order inside the transaction: tables, sets and empty chains; elements that go; rules; elements
//! that come; chains and sets that go. Rules come before elements, since binding a map walks what
//! is in it; whatever is referred to exists when it is referred to. The kernel shows packets the
//! old rules or the new ones, nothing between.

use std::fmt::Write as _;

use sluice_core::delta::Delta;
use sluice_netlink::nftables::{
    Batch, Chain as NetlinkChain, ChainKind, Create, DataRef, ElementRef, Hook as NetlinkHook,
    HookPoint as NetlinkPoint, Policy, Rule as NetlinkRule, Scope, Verdict,
};

use crate::bytes::{KeyBytes, encode_endpoint, encode_key};
use crate::definition;
use crate::encode;
use crate::name::{ChainName, TABLE};
use crate::object::{Chain, Hook, HookKind, HookPoint, Key, Object, Rules, TABLE_COMMENT};
use crate::set::{ElementValue, KeyKind};
use crate::text::comment;

/// A transaction and the keys that its tags stand for.
pub(crate) struct Transaction<'a> {
    pub(crate) batch: Batch,
    pub(crate) keys: Vec<&'a Key>,
}

/// Encodes a delta.
pub(crate) fn transaction(delta: &Delta<Key, Object>) -> Transaction<'_> {
    let added = delta.add.iter().map(|(key, object)| (key, object));
    let replaced = delta.replace.iter().map(|(key, object)| (key, object));
    let mut writer = Writer {
        batch: Batch::new(),
        key: KeyBytes::default(),
        value: Vec::new(),
        chain: String::new(),
    };
    let keys: Vec<&Key> = added
        .clone()
        .chain(replaced.clone())
        .map(|(key, _)| key)
        .chain(&delta.delete)
        .collect();
    let writes = || (0..).zip(added.clone().chain(replaced.clone()));
    let first_replaced = to_tag(delta.add.len());
    let first_deleted = first_replaced + to_tag(delta.replace.len());
    let deletes = || (first_deleted..).zip(&delta.delete);

    for (tag, (key, _)) in writes() {
        writer.table(tag, key, tag >= first_replaced);
    }
    for (tag, (key, object)) in writes() {
        writer.declare(tag, key, object, tag >= first_replaced);
    }
    for (tag, (key, _)) in (first_replaced..).zip(replaced.clone()) {
        writer.delete_element(tag, key);
    }
    for (tag, key) in deletes() {
        writer.delete_element(tag, key);
    }
    let chains = (first_replaced..).zip(replaced.clone().map(|(key, _)| key));
    for (tag, key) in chains.chain(deletes()) {
        if let Key::Chain(family, name) = key {
            let chain = name.to_string();
            writer.batch.flush_chain(tag, scope(*family), &chain);
        }
    }
    for (tag, (key, object)) in writes() {
        writer.rules(tag, key, object);
    }
    for (tag, (key, object)) in writes() {
        writer.add_element(tag, key, object);
    }
    for (tag, key) in deletes() {
        writer.remove_chain(tag, key);
    }
    for (tag, key) in deletes() {
        writer.remove_set(tag, key);
    }
    Transaction {
        batch: writer.batch,
        keys,
    }
}

fn to_tag(count: usize) -> u32 {
    u32::try_from(count).expect("a delta has fewer than 2^32 objects: they fit in memory")
}

pub(crate) fn scope(family: sluice_core::model::IpFamily) -> Scope<'static> {
    Scope {
        family: encode::family(family),
        table: TABLE,
    }
}

struct Writer {
    batch: Batch,
    /// Reused, so that a million elements do not allocate a million times.
    key: KeyBytes,
    value: Vec<u8>,
    chain: String,
}

impl Writer {
    /// Creates a table. One that is replaced goes with everything in it.
    fn table(&mut self, tag: u32, key: &Key, replaced: bool) {
        let Key::Table(family) = key else {
            return;
        };
        let scope = scope(*family);
        if replaced {
            self.batch.delete_table(tag, scope);
        }
        let comment = Some(TABLE_COMMENT);
        self.batch.add_table(tag, scope, comment, Create::IfMissing);
    }

    /// Creates what others refer to.
    fn declare(&mut self, tag: u32, key: &Key, object: &Object, replaced: bool) {
        let batch = &mut self.batch;
        let scope = scope(key.family());
        match (key, object) {
            (Key::Set(family, name), _) if !replaced => {
                let set = definition::standing(*family, *name);
                batch.add_set(tag, scope, &set, Create::IfMissing);
            }
            (Key::NamedSet(family, name), Object::Sticky(it)) if !replaced => {
                let set = definition::sticky(*family, name, it);
                batch.add_set(tag, scope, &set, Create::IfMissing);
            }
            (Key::Chain(_, name), Object::Chain(it)) => {
                batch.add_chain(tag, scope, &chain(name, it), Create::IfMissing);
            }
            _ => {}
        }
    }

    fn rules(&mut self, tag: u32, key: &Key, object: &Object) {
        let (Key::Chain(family, name), Object::Chain(chain)) = (key, object) else {
            return;
        };
        let name = name.to_string();
        let Rules::Ours(_, rules) = &chain.rules else {
            return;
        };
        for rule in rules.iter() {
            let rule = NetlinkRule {
                chain: name.clone(),
                exprs: encode::rule(*family, rule),
                comment: None,
            };
            self.batch.add_rule(tag, scope(*family), &rule);
        }
    }

    fn add_element(&mut self, tag: u32, key: &Key, object: &Object) {
        let (Key::Element(family, set, key), Object::Element(element)) = (key, object) else {
            return;
        };
        encode_key(key, &mut self.key);
        let data = match &element.value {
            ElementValue::Member | ElementValue::Foreign => None,
            ElementValue::Drop => Some(DataRef::Verdict(Verdict::Drop)),
            ElementValue::Goto(name) => {
                self.chain.clear();
                write!(self.chain, "{name}").expect("writing to a string cannot fail");
                Some(DataRef::Verdict(Verdict::Goto(self.chain.as_str())))
            }
            ElementValue::Endpoint(addr) => {
                encode_endpoint(*addr, &mut self.value);
                Some(DataRef::Value(&self.value))
            }
        };
        let text = element.comment.as_deref().map(comment);
        let added = ElementRef {
            key: &self.key.start,
            key_end: self.key.end.as_deref(),
            data,
            comment: text.as_deref(),
            ..ElementRef::default()
        };
        put(added, set.key(), |it| {
            self.batch
                .add_element(tag, scope(*family), set.as_str(), it, Create::IfMissing);
        });
    }

    fn delete_element(&mut self, tag: u32, key: &Key) {
        let Key::Element(family, set, key) = key else {
            return;
        };
        encode_key(key, &mut self.key);
        let deleted = ElementRef {
            key: &self.key.start,
            key_end: self.key.end.as_deref(),
            ..ElementRef::default()
        };
        put(deleted, set.key(), |it| {
            self.batch
                .delete_element(tag, scope(*family), set.as_str(), it);
        });
    }

    fn remove_chain(&mut self, tag: u32, key: &Key) {
        if let Key::Chain(family, name) = key {
            self.batch
                .delete_chain(tag, scope(*family), &name.to_string());
        }
    }

    fn remove_set(&mut self, tag: u32, key: &Key) {
        match key {
            Key::Set(family, name) => {
                self.batch.delete_set(tag, scope(*family), name.as_str());
            }
            Key::NamedSet(family, name) => {
                self.batch.delete_set(tag, scope(*family), name);
            }
            _ => {}
        }
    }
}

/// A range of single addresses is two elements: its first address, and the first one after it
/// with a flag (`nft_set_rbtree.c`). Every other key is one element.
fn put(element: ElementRef<'_>, kind: KeyKind, mut write: impl FnMut(&ElementRef<'_>)) {
    if kind != KeyKind::Range {
        return write(&element);
    }
    let end = element.key_end.filter(|it| !it.is_empty());
    write(&ElementRef {
        key_end: None,
        ..element
    });
    if let Some(end) = end {
        write(&ElementRef {
            key: end,
            interval_end: true,
            ..ElementRef::default()
        });
    }
}

pub(crate) fn chain(name: &ChainName, chain: &Chain) -> NetlinkChain {
    let text = comment(&chain.comment);
    NetlinkChain {
        name: name.to_string(),
        hook: chain.hook.map(hook),
        comment: (!text.is_empty()).then(|| text.into_owned()),
    }
}

fn hook(hook: Hook) -> NetlinkHook {
    NetlinkHook {
        kind: match hook.kind {
            HookKind::Filter => ChainKind::Filter,
            HookKind::Nat => ChainKind::Nat,
        },
        point: match hook.point {
            HookPoint::Prerouting => NetlinkPoint::Prerouting,
            HookPoint::Input => NetlinkPoint::Input,
            HookPoint::Forward => NetlinkPoint::Forward,
            HookPoint::Output => NetlinkPoint::Output,
            HookPoint::Postrouting => NetlinkPoint::Postrouting,
        },
        priority: hook.priority,
        policy: Policy::Accept,
    }
}
