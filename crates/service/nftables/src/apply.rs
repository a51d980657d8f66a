//! Turns a delta into transactions: nearly always one.
//!
//! The order inside a transaction is that of [`sluice_nft::owned`].
//!
//! Where nothing of ours is in the kernel yet, nothing can be torn apart: the elements follow in
//! parts, endpoints before the frontends that lead to them. One transaction of a million elements
//! takes a buffer as large here and again in the kernel, and touching new memory costs more than
//! anything else.

use std::fmt::Write as _;

use ipnet::IpNet;
use sluice_nft::owned::{Difference, Existing, Write};
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
    let difference = difference(delta);
    let mut writer = Writer::default();
    if !is_fresh(delta) {
        return Box::new(std::iter::once(difference.whole(&mut writer)));
    }
    let shape = difference.shape(&mut writer);
    let elements = elements_in_order(delta);
    let parts = elements.len().div_ceil(PART);
    let parts = (0..parts).map(move |part| {
        let from = part * PART;
        let to = elements.len().min(from + PART);
        let mut batch = Batch::new();
        for &index in &elements[from..to] {
            let (key, object) = &delta.add[index];
            writer.add_element(&mut batch, to_tag(index), (key, object));
        }
        batch
    });
    Box::new(std::iter::once(shape).chain(parts))
}

/// The object that a tag stands for.
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

fn to_tag(count: usize) -> u32 {
    u32::try_from(count).expect("a delta has fewer than 2^32 objects: they fit in memory")
}

/// Encodes our objects. The buffers are reused, so that a million elements do not allocate a million times.
#[derive(Default)]
struct Writer {
    key: KeyBytes,
    value: Vec<u8>,
    chain: String,
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
        let comment = Some(TABLE_COMMENT);
        batch.add_table(tag, scope, comment, Create::IfMissing);
    }

    fn declare(
        &mut self,
        batch: &mut Batch,
        tag: u32,
        (key, object): (&Key, &Object),
        existing: Existing,
    ) {
        let scope = scope(key.family());
        if let (Key::Chain(_, name), Object::Chain(it)) = (key, object) {
            let chain = chain(name, it);
            batch.add_chain(tag, scope, &chain, Create::IfMissing);
        }
        let Some((set, _)) = definition::of(key, object) else {
            return;
        };
        let ranges = match object {
            Object::Sources(ranges) => Some(ranges),
            _ => None,
        };
        if existing == Existing::Absent || ranges.is_some() {
            batch.add_set(tag, scope, &set, Create::IfMissing);
        }
        if let Some(ranges) = ranges {
            if existing == Existing::Present {
                batch.flush_set(tag, scope, &set.name);
            }
            self.members(batch, tag, scope, &set.name, ranges);
        }
    }

    fn flush_chain(&mut self, batch: &mut Batch, tag: u32, key: &Key) {
        if let Key::Chain(family, name) = key {
            let chain = name.to_string();
            batch.flush_chain(tag, scope(*family), &chain);
        }
    }

    fn rules(&mut self, batch: &mut Batch, tag: u32, (key, object): (&Key, &Object)) {
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
            batch.add_rule(tag, scope(*family), &rule);
        }
    }

    fn add_element(&mut self, batch: &mut Batch, tag: u32, (key, object): (&Key, &Object)) {
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
        let scope = scope(*family);
        self.key.write(added, |it| {
            batch.add_element(tag, scope, set.as_str(), it, Create::IfMissing);
        });
    }

    fn delete_element(&mut self, batch: &mut Batch, tag: u32, key: &Key) {
        let Key::Element(family, set, key) = key else {
            return;
        };
        encode_key(key, &mut self.key);
        let scope = scope(*family);
        self.key.write(ElementRef::default(), |it| {
            batch.delete_element(tag, scope, set.as_str(), it);
        });
    }

    fn remove_chain(&mut self, batch: &mut Batch, tag: u32, key: &Key) {
        if let Key::Chain(family, name) = key {
            batch.delete_chain(tag, scope(*family), &name.to_string());
        }
    }

    fn remove_set(&mut self, batch: &mut Batch, tag: u32, key: &Key) {
        if let Some(set) = key.set_name() {
            batch.delete_set(tag, scope(key.family()), &set);
        }
    }
}

impl Writer {
    fn members(
        &mut self,
        batch: &mut Batch,
        tag: u32,
        scope: Scope<'_>,
        set: &str,
        ranges: &[IpNet],
    ) {
        for range in ranges {
            encode_key(&ElementKey::Range(*range), &mut self.key);
            self.key.write(ElementRef::default(), |it| {
                batch.add_element(tag, scope, set, it, Create::IfMissing);
            });
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
