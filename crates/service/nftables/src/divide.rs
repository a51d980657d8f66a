//! Divides a large delta into deltas that are committed one after the other, while other changes come between them.
//!
//! After each of them every packet finds what its frontend had before, or what it is to have:
//!
//! 1. Tables, sets, standing chains and what several service ports share: at once.
//! 2. What nothing leads to yet: local endpoints that reach themselves, blocks of sticky endpoints before the chains that
//!    lead to them, slots that are added. A slot that gets another endpoint belongs to a pool before and after, so it is
//!    also written here, unless its frontend's source ranges change with it.
//! 3. Frontends that stay, each with all that it has in any map.
//! 4. The addresses whose other ports are refused, or dropped.
//! 5. Frontends that go.
//! 6. What nothing leads to any more, in the opposite order of its coming.

use std::collections::{BTreeMap, HashSet, VecDeque};

use sluice_model::IpFamily;
use sluice_reconcile::Delta;

use crate::name::ChainName;
use crate::object::{Key, Object};
use crate::set::{ElementKey, KeyKind, SetName, ValueKind};
use crate::slots::frontend_of;

type Frontend = (IpFamily, ElementKey);

/// A write of one object.
enum Write {
    Add(Object),
    Replace(Object),
    Delete,
}

impl Write {
    /// In the time that one element takes. A rule takes as long as several.
    fn weight(&self) -> usize {
        match self {
            Self::Add(Object::Chain(it)) | Self::Replace(Object::Chain(it)) => {
                1 + 4 * it.rules.as_rules().len()
            }
            Self::Add(Object::Sources(ranges)) => ranges.len(),
            Self::Add(_) | Self::Delete => 1,
            Self::Replace(_) => 2,
        }
    }
}

/// The turn of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Foundation,
    Unreachable,
    Entries,
    Reachable,
    Frontends,
    Addresses,
    Ranges,
    Gone,
    Unreached,
    Chains,
    Blocks,
    Sets,
}

impl Turn {
    /// What has to be committed together with what else is in the same group; `None` for what is independent.
    fn group(self, key: &Key) -> Option<Option<Frontend>> {
        match self {
            Self::Foundation | Self::Entries | Self::Chains | Self::Sets => Some(None),
            // A range that comes may overlap one that goes.
            Self::Ranges => Some(None),
            Self::Frontends | Self::Gone => Some(frontend(key)),
            Self::Unreachable | Self::Reachable | Self::Addresses => None,
            Self::Unreached | Self::Blocks => None,
        }
    }

    fn of(key: &Key, write: &Write, kinds: &Kinds) -> Self {
        let is_gone = matches!(write, Write::Delete);
        match key {
            Key::Element(family, set, key) => match set {
                SetName::NodePortIps => Self::Foundation,
                SetName::Hairpin if is_gone => Self::Unreached,
                SetName::Hairpin => Self::Unreachable,
                SetName::ClusterIps => Self::Addresses,
                SetName::ServiceCidrs => Self::Ranges,
                set if set.value() != ValueKind::Endpoint => {
                    if kinds.staying.contains(&(*family, key.clone())) {
                        Self::Frontends
                    } else {
                        Self::Gone
                    }
                }
                _ if is_gone => Self::Unreached,
                _ if matches!(write, Write::Add(_)) => Self::Unreachable,
                _ => match frontend_of(key).map(|it| (*family, it)) {
                    Some(it) if kinds.restricted.contains(&it) => Self::Frontends,
                    _ => Self::Reachable,
                },
            },
            Key::Chain(_, name) => match (name, is_gone) {
                (ChainName::Named(name), false) if is_block(name) => Self::Unreachable,
                (ChainName::Named(_), false) => Self::Entries,
                (_, false) => Self::Foundation,
                (ChainName::Named(name), true) if is_block(name) => Self::Blocks,
                (_, true) => Self::Chains,
            },
            Key::Sources(..) | Key::NamedSet(..) | Key::Set(..) if is_gone => Self::Sets,
            Key::Sources(..) | Key::NamedSet(..) | Key::Set(..) | Key::Table(_) => Self::Foundation,
        }
    }
}

/// Whether a chain of a service port is one of its blocks: `affinity/namespace/name/protocol/port/known-0`.
fn is_block(name: &str) -> bool {
    name.matches('/').count() > 4
}

/// The deltas that together are this one, each with about `limit` elements: more when a single frontend has more.
pub(crate) fn divide(delta: Delta<Key, Object>, limit: usize) -> VecDeque<Delta<Key, Object>> {
    if weight(&delta) <= limit {
        return VecDeque::from([delta]);
    }
    let kinds = Kinds::of(&delta);
    let mut turns: BTreeMap<Turn, Vec<(Key, Write)>> = BTreeMap::new();
    let added = delta.add.into_iter().map(|(key, it)| (key, Write::Add(it)));
    let replaced = delta.replace.into_iter();
    let replaced = replaced.map(|(key, it)| (key, Write::Replace(it)));
    let deleted = delta.delete.into_iter().map(|it| (it, Write::Delete));
    for (key, write) in added.chain(replaced).chain(deleted) {
        let turn = Turn::of(&key, &write, &kinds);
        turns.entry(turn).or_default().push((key, write));
    }
    let mut parts = Parts::new(limit);
    for (turn, mut writes) in turns {
        if matches!(turn, Turn::Frontends | Turn::Gone) {
            writes.sort_by_cached_key(|(key, _)| frontend(key));
        }
        let mut last = None;
        for (key, write) in writes {
            let group = turn.group(&key);
            if group.is_none() || group != last {
                parts.make_room();
            }
            last = group;
            parts.push(key, write);
        }
    }
    parts.done
}

/// Frontends whose elements go together.
#[derive(Default)]
struct Kinds {
    /// Some element of theirs is added or replaced, slots aside.
    staying: HashSet<Frontend>,
    /// Their source ranges change. Their slots change at the same time.
    restricted: HashSet<Frontend>,
}

impl Kinds {
    fn of(delta: &Delta<Key, Object>) -> Self {
        let mut kinds = Self::default();
        let mut see = |key: &Key, is_gone: bool| {
            let Key::Element(family, set, element) = key else {
                return;
            };
            let of_frontend = matches!(set.key(), KeyKind::Frontend | KeyKind::NodePort);
            if of_frontend && !is_gone {
                kinds.staying.insert((*family, element.clone()));
            }
            if *set == SetName::RestrictedFrontends {
                kinds.restricted.insert((*family, element.clone()));
            }
        };
        let written = delta.add.iter().chain(&delta.replace);
        written.for_each(|(key, _)| see(key, false));
        delta.delete.iter().for_each(|key| see(key, true));
        kinds
    }
}

/// The frontend that an element belongs to; `None` for other objects.
fn frontend(key: &Key) -> Option<Frontend> {
    match key {
        Key::Element(family, _, key) => {
            let frontend = frontend_of(key).unwrap_or_else(|| key.clone());
            Some((*family, frontend))
        }
        _ => None,
    }
}

fn weight(delta: &Delta<Key, Object>) -> usize {
    let chains = delta.add.iter().chain(&delta.replace);
    let rules = chains.filter_map(|(_, it)| match it {
        Object::Chain(it) => Some(4 * it.rules.as_rules().len()),
        Object::Sources(ranges) => Some(ranges.len()),
        _ => None,
    });
    delta.add.len() + 2 * delta.replace.len() + delta.delete.len() + rules.sum::<usize>()
}

/// Deltas that are being filled.
struct Parts {
    limit: usize,
    weight: usize,
    done: VecDeque<Delta<Key, Object>>,
}

impl Parts {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            weight: 0,
            done: VecDeque::from([Delta::default()]),
        }
    }

    /// Begins another delta if this one is full.
    fn make_room(&mut self) {
        if self.weight >= self.limit {
            self.weight = 0;
            self.done.push_back(Delta::default());
        }
    }

    fn push(&mut self, key: Key, write: Write) {
        self.weight += write.weight();
        let part = self.done.back_mut().expect("there is always one");
        match write {
            Write::Add(object) => part.add.push((key, object)),
            Write::Replace(object) => part.replace.push((key, object)),
            Write::Delete => part.delete.push(key),
        }
    }
}
