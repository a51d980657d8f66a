//! Turns a delta into transactions: nearly always one.
//!
//! Order inside a transaction: tables, sets and empty chains; elements that go; rules; elements
//! that come; sets and chains that go. Rules come before elements, since binding a map walks what
//! is in it; whatever is referred to exists when it is referred to. The kernel shows packets the
//! old rules or the new ones, nothing between.
//!
//! Where nothing of ours is in the kernel yet, nothing can be torn apart: the elements follow in
//! parts, endpoints before the frontends that lead to them. One transaction of a million elements
//! takes a buffer as large here and again in the kernel, and touching new memory costs more than
//! anything else.

use std::fmt::Write as _;

use ipnet::IpNet;
use sluice_nft::text::comment;
use sluice_nft::{
    Batch, Chain as NetlinkChain, Create, DataRef, ElementRef, KernelRule, KeyBytes, Scope, Verdict,
};
use sluice_reconcile::Delta;

use crate::bytes::{encode_endpoint, encode_key};
use crate::definition;
use crate::name::{ChainName, netlink, scope};
use crate::object::{Chain, Key, Object, TABLE_COMMENT};
use crate::set::{ElementKey, ElementValue, SetName, ValueKind};

/// Elements in one part of a fresh ruleset.
const PART: usize = 16_384;

/// The transactions that carry out a delta, to be committed in this order. [`key`] finds the object of a tag.
pub(crate) fn transactions(delta: &Delta<Key, Object>) -> Box<dyn Iterator<Item = Batch> + '_> {
    if !is_fresh(delta) {
        return Box::new(std::iter::once(whole(delta)));
    }
    let elements = elements_in_order(delta);
    let parts = elements.len().div_ceil(PART);
    let parts = (0..parts).map(move |part| {
        let from = part * PART;
        let to = elements.len().min(from + PART);
        let mut writer = Writer::new();
        for &index in &elements[from..to] {
            let (key, object) = &delta.add[index];
            writer.add_element(to_tag(index), key, object);
        }
        writer.batch
    });
    Box::new(std::iter::once(shape(delta).batch).chain(parts))
}

/// The object that a tag stands for.
pub(crate) fn key(delta: &Delta<Key, Object>, tag: u32) -> Option<&Key> {
    let added = delta.add.iter().map(|(key, _)| key);
    let replaced = delta.replace.iter().map(|(key, _)| key);
    let mut all = added.chain(replaced).chain(&delta.delete);
    all.nth(tag as usize)
}

/// Whether the delta makes every table that it writes to.
fn is_fresh(delta: &Delta<Key, Object>) -> bool {
    let tables: Vec<_> = delta
        .add
        .iter()
        .filter(|(key, _)| matches!(key, Key::Table(_)))
        .map(|(key, _)| key.family())
        .collect();
    let mut added = delta.add.iter().map(|(key, _)| key.family());
    delta.replace.is_empty()
        && delta.delete.is_empty()
        && !tables.is_empty()
        && added.all(|it| tables.contains(&it))
}

/// Indices of the elements that are added. Elements that others lead to come first, and elements that refuse or drop
/// come last.
fn elements_in_order(delta: &Delta<Key, Object>) -> Vec<usize> {
    let rank = |index: &usize| match &delta.add[*index].0 {
        Key::Element(family, set, _) => {
            let rank = match set {
                set if set.value() == ValueKind::Endpoint => 0,
                // A frontend must never be reachable without its restrictions.
                SetName::RestrictedFrontends | SetName::Hairpin | SetName::NodePortIps => 1,
                SetName::NearFrontends | SetName::NearNodePorts => 1,
                SetName::NoEndpoints | SetName::NoEndpointNodePorts => 3,
                SetName::ClusterIps | SetName::ServiceCidrs => 4,
                _ => 2,
            };
            (rank, Some((*family, *set)))
        }
        _ => (0, None),
    };
    let is_element = |index: &usize| matches!(delta.add[*index].0, Key::Element(..));
    let mut elements: Vec<usize> = (0..delta.add.len()).filter(is_element).collect();
    elements.sort_by_key(rank);
    elements
}

/// The part of the transaction before the elements that are added.
fn shape(delta: &Delta<Key, Object>) -> Writer {
    let mut writer = Writer::new();
    for (tag, (key, _)) in adds(delta) {
        writer.table(tag, key, Existing::Absent);
    }
    for (tag, (key, _)) in replaces(delta) {
        writer.table(tag, key, Existing::Present);
    }
    for (tag, (key, object)) in adds(delta) {
        writer.declare(tag, key, object, Existing::Absent);
    }
    for (tag, (key, object)) in replaces(delta) {
        writer.declare(tag, key, object, Existing::Present);
    }
    let replaced = replaces(delta).map(|(tag, (key, _))| (tag, key));
    let gone = replaced.chain(deletes(delta));
    for (tag, key) in gone.clone() {
        writer.delete_element(tag, key);
    }
    for (tag, key) in gone {
        writer.flush_chain(tag, key);
    }
    for (tag, (key, object)) in adds(delta).chain(replaces(delta)) {
        writer.rules(tag, key, object);
    }
    writer
}

fn whole(delta: &Delta<Key, Object>) -> Batch {
    let mut writer = shape(delta);
    for (tag, (key, object)) in adds(delta).chain(replaces(delta)) {
        writer.add_element(tag, key, object);
    }
    // A verdict map of another program may hold one of the chains.
    for (tag, key) in deletes(delta) {
        writer.remove_set(tag, key);
    }
    for (tag, key) in deletes(delta) {
        writer.remove_chain(tag, key);
    }
    writer.batch
}

fn adds(delta: &Delta<Key, Object>) -> impl Iterator<Item = (u32, &(Key, Object))> + Clone {
    (0..).zip(&delta.add)
}

fn replaces(delta: &Delta<Key, Object>) -> impl Iterator<Item = (u32, &(Key, Object))> + Clone {
    (to_tag(delta.add.len())..).zip(&delta.replace)
}

fn deletes(delta: &Delta<Key, Object>) -> impl Iterator<Item = (u32, &Key)> + Clone {
    (to_tag(delta.add.len() + delta.replace.len())..).zip(&delta.delete)
}

/// Whether an object is in the kernel already, with another content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existing {
    Absent,
    Present,
}

fn to_tag(count: usize) -> u32 {
    u32::try_from(count).expect("a delta has fewer than 2^32 objects: they fit in memory")
}

struct Writer {
    batch: Batch,
    /// Reused, so that a million elements do not allocate a million times.
    key: KeyBytes,
    value: Vec<u8>,
    chain: String,
}

impl Writer {
    fn new() -> Self {
        Self {
            batch: Batch::new(),
            key: KeyBytes::default(),
            value: Vec::new(),
            chain: String::new(),
        }
    }

    /// Creates a table. A table that is replaced is deleted first, with everything in it.
    fn table(&mut self, tag: u32, key: &Key, existing: Existing) {
        let Key::Table(family) = key else {
            return;
        };
        let scope = scope(*family);
        if existing == Existing::Present {
            self.batch.delete_table(tag, scope);
        }
        let comment = Some(TABLE_COMMENT);
        self.batch.add_table(tag, scope, comment, Create::IfMissing);
    }

    /// Creates the objects that others refer to: sets and empty chains.
    fn declare(&mut self, tag: u32, key: &Key, object: &Object, existing: Existing) {
        let scope = scope(key.family());
        if let (Key::Chain(_, name), Object::Chain(it)) = (key, object) {
            let chain = chain(name, it);
            self.batch.add_chain(tag, scope, &chain, Create::IfMissing);
        }
        let Some((set, _)) = definition::of(key, object) else {
            return;
        };
        let ranges = match object {
            Object::Sources(ranges) => Some(ranges),
            _ => None,
        };
        if existing == Existing::Absent || ranges.is_some() {
            self.batch.add_set(tag, scope, &set, Create::IfMissing);
        }
        if let Some(ranges) = ranges {
            if existing == Existing::Present {
                self.batch.flush_set(tag, scope, &set.name);
            }
            self.members(tag, scope, &set.name, ranges);
        }
    }

    fn members(&mut self, tag: u32, scope: Scope<'_>, set: &str, ranges: &[IpNet]) {
        for range in ranges {
            encode_key(&ElementKey::Range(*range), &mut self.key);
            let batch = &mut self.batch;
            self.key.write(ElementRef::default(), |it| {
                batch.add_element(tag, scope, set, it, Create::IfMissing);
            });
        }
    }

    fn flush_chain(&mut self, tag: u32, key: &Key) {
        if let Key::Chain(family, name) = key {
            let chain = name.to_string();
            self.batch.flush_chain(tag, scope(*family), &chain);
        }
    }

    fn rules(&mut self, tag: u32, key: &Key, object: &Object) {
        let (Key::Chain(family, name), Object::Chain(chain)) = (key, object) else {
            return;
        };
        let name = name.to_string();
        for rule in chain.rules.as_rules().iter() {
            let rule = KernelRule {
                chain: name.clone(),
                exprs: rule.exprs(netlink(*family)),
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
            data,
            comment: text.as_deref(),
            ..ElementRef::default()
        };
        let (batch, scope) = (&mut self.batch, scope(*family));
        self.key.write(added, |it| {
            batch.add_element(tag, scope, set.as_str(), it, Create::IfMissing);
        });
    }

    fn delete_element(&mut self, tag: u32, key: &Key) {
        let Key::Element(family, set, key) = key else {
            return;
        };
        encode_key(key, &mut self.key);
        let (batch, scope) = (&mut self.batch, scope(*family));
        self.key.write(ElementRef::default(), |it| {
            batch.delete_element(tag, scope, set.as_str(), it);
        });
    }

    fn remove_chain(&mut self, tag: u32, key: &Key) {
        if let Key::Chain(family, name) = key {
            self.batch
                .delete_chain(tag, scope(*family), &name.to_string());
        }
    }

    fn remove_set(&mut self, tag: u32, key: &Key) {
        if let Some(set) = key.set_name() {
            self.batch.delete_set(tag, scope(key.family()), &set);
        }
    }
}

pub(crate) fn chain(name: &ChainName, chain: &Chain) -> NetlinkChain {
    let text = comment(&chain.comment);
    NetlinkChain {
        name: name.to_string(),
        hook: chain.hook,
        comment: (!text.is_empty()).then(|| text.into_owned()),
    }
}

#[cfg(test)]
mod tests;
