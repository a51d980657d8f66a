//! A difference of service ports in parts that are committed one after the other, while other changes come between them.
//! A part is computed when it is its turn: the whole difference is never in memory.
//!
//! After each of them every packet finds what its frontend had before, or what it is to have:
//!
//! 1. Blocks of sticky endpoints, then the chains that lead to them.
//! 2. Slots. One that is added has nothing that leads to it yet. One that gets another endpoint belongs to a pool before
//!    and after; where its frontend's source ranges change, too, it waits for the frontend.
//! 3. Frontends that come or stay, each with all that it has in any map.
//! 4. ClusterIPs whose other ports are refused.
//! 5. Frontends that go.
//! 6. What nothing leads to any more: slots, then the chains of sticky endpoints in the opposite order.
//!
//! What several service ports share is there before and after ([`Backend::parts`](sluice_reconcile::Backend::parts)).

use std::collections::VecDeque;
use std::sync::Arc;

use sluice_plan::PortPlan;
use sluice_reconcile::{Change, Delta};

use crate::affinity;
use crate::name::ChainName;
use crate::object::{Key, Object};
use crate::placement::Placement;
use crate::render::label;
use crate::rows::{Row, Side, SlotMap, Times, planned, rows, slot_maps};
use crate::sources::Lists;

type Writes = Delta<Key, Object>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Chains,
    Slots,
    Frontends,
    Addresses,
    Gone,
    Unreached,
    Unused,
    End,
}

/// The difference that some service ports make.
#[derive(Debug)]
pub(crate) struct Parts {
    sides: Times<Vec<Option<Side>>>,
    rows: Vec<Row>,
    /// How many of the rows, the first ones, are of frontends that come or stay.
    staying: usize,
    /// The slots that differ, in the order of the rows.
    maps: Vec<SlotMap>,
    chains: VecDeque<Writes>,
    unused: VecDeque<Writes>,
    lists: Lists,
    turn: Turn,
    /// The next row, or the next of the maps.
    next: usize,
    /// How many slots of the next map are written.
    written: usize,
}

impl Parts {
    pub(crate) fn new(changes: &[Change<PortPlan, Placement>]) -> Self {
        let side = |it: &Option<(Arc<PortPlan>, Placement)>| {
            let (plan, placement) = it.clone()?;
            let label = label(&plan);
            Some(Side {
                plan,
                placement,
                label,
            })
        };
        let sides = Times {
            old: changes.iter().map(|it| side(&it.old)).collect(),
            new: changes.iter().map(|it| side(&it.new)).collect(),
        };
        let mut lists = Lists::default();
        let mut rows = rows(&sides);
        let maps = slot_maps(&sides, &mut rows, &mut lists);
        let (chains, unused) = sticky_chains(&sides);
        Self {
            staying: rows.partition_point(|it| it.at.new.is_some()),
            rows,
            maps,
            sides,
            chains,
            unused,
            lists,
            turn: Turn::Chains,
            next: 0,
            written: 0,
        }
    }

    /// Goes on with the present turn. Returns whether it has ended.
    fn go_on(&mut self, out: &mut Out) -> bool {
        match self.turn {
            Turn::Chains => out.take(&mut self.chains),
            Turn::Unused => out.take(&mut self.unused),
            Turn::Slots | Turn::Unreached => self.slots(out),
            Turn::Frontends => self.frontends(0, self.staying, out),
            Turn::Gone => self.frontends(self.staying, self.rows.len(), out),
            Turn::Addresses => {
                let [old, new] = [&self.sides.old, &self.sides.new].map(|it| {
                    let sides = it.iter().flatten();
                    sides.filter_map(|it| it.render().cluster_ip()).collect()
                });
                out.difference(old, new);
                true
            }
            Turn::End => true,
        }
    }

    fn slots(&mut self, out: &mut Out) -> bool {
        let is_gone = self.turn == Turn::Unreached;
        while let Some(map) = self.maps.get(self.next) {
            let row = &self.rows[map.row];
            let skips = !is_gone && row.is_restricted_anew;
            let count = if is_gone {
                map.difference.gone().len()
            } else {
                map.difference.written.len()
            };
            while !skips && self.written < count {
                if out.is_full() {
                    return false;
                }
                if is_gone {
                    out.delete(map.gone(row, self.written));
                } else {
                    out.slot(map.written(&self.sides, row, self.written));
                }
                self.written += 1;
            }
            (self.next, self.written) = (self.next + 1, 0);
        }
        true
    }

    fn frontends(&mut self, from: usize, to: usize, out: &mut Out) -> bool {
        while from + self.next < to {
            if out.is_full() {
                return false;
            }
            let index = from + self.next;
            let row = &self.rows[index];
            let lists = &mut self.lists;
            let mut elements = |time: &[Option<Side>], at| {
                let planned = planned(time, at);
                let side = planned.and_then(|(port, it)| Some((time[port].as_ref()?, it)));
                side.map_or_else(Vec::new, |(side, it)| side.render().frontend(it, lists))
            };
            let old = elements(&self.sides.old, row.at.old);
            let new = elements(&self.sides.new, row.at.new);
            out.difference(old, new);
            if row.is_restricted_anew {
                let first = self.maps.partition_point(|it| it.row < index);
                for map in self.maps[first..].iter().take_while(|it| it.row == index) {
                    for position in 0..map.difference.written.len() {
                        out.slot(map.written(&self.sides, row, position));
                    }
                }
            }
            self.next += 1;
        }
        true
    }
}

impl sluice_reconcile::Parts<Key, Object> for Parts {
    fn next(&mut self, limit: usize) -> Option<Writes> {
        let mut out = Out {
            writes: Writes::default(),
            left: limit,
        };
        while !out.is_full() && self.turn != Turn::End {
            if self.go_on(&mut out) {
                self.turn = self.turn.next();
                self.next = 0;
            }
        }
        let is_end = self.turn == Turn::End && out.writes.is_empty();
        (!is_end).then_some(out.writes)
    }
}

impl Turn {
    fn next(self) -> Self {
        match self {
            Self::Chains => Self::Slots,
            Self::Slots => Self::Frontends,
            Self::Frontends => Self::Addresses,
            Self::Addresses => Self::Gone,
            Self::Gone => Self::Unreached,
            Self::Unreached => Self::Unused,
            Self::Unused | Self::End => Self::End,
        }
    }
}

/// A part that is being filled.
struct Out {
    writes: Writes,
    left: usize,
}

impl Out {
    fn is_full(&self) -> bool {
        self.left == 0
    }

    fn slot(&mut self, (key, object, is_replaced): (Key, Object, bool)) {
        let list = if is_replaced {
            &mut self.writes.replace
        } else {
            &mut self.writes.add
        };
        list.push((key, object));
        self.left = self.left.saturating_sub(1 + usize::from(is_replaced));
    }

    fn delete(&mut self, key: Key) {
        self.writes.delete.push(key);
        self.left = self.left.saturating_sub(1);
    }

    /// Takes writes of which each is whole, until the part is full. Returns whether none is left.
    fn take(&mut self, all: &mut VecDeque<Writes>) -> bool {
        while !self.is_full()
            && let Some(writes) = all.pop_front()
        {
            self.put(writes);
        }
        all.is_empty()
    }

    /// Puts in what turns old objects into new ones.
    fn difference(&mut self, old: Vec<(Key, Object)>, new: Vec<(Key, Object)>) {
        if old != new {
            self.put(Delta::between(old.into_iter().collect(), new));
        }
    }

    fn put(&mut self, writes: Writes) {
        self.left = self.left.saturating_sub(writes.weight(Object::weight));
        self.writes.extend(writes);
    }
}

/// The chains and sets of session affinity: those that come, in an order in which nothing leads to one that is not there, and
/// those that go.
fn sticky_chains(sides: &Times<Vec<Option<Side>>>) -> (VecDeque<Writes>, VecDeque<Writes>) {
    let render = |sides: &Vec<Option<Side>>| {
        let mut objects = Vec::new();
        for side in sides.iter().flatten() {
            affinity::render(&side.plan, &side.placement, &mut objects);
        }
        objects
    };
    let old = render(&sides.old).into_iter().collect();
    let delta = Delta::between(old, render(&sides.new));
    let mut first = VecDeque::new();
    let mut entries = Writes::default();
    for (key, object) in delta.add {
        if is_entry(&key) {
            entries.add.push((key, object));
        } else if matches!(key, Key::NamedSet(..)) {
            first.push_front(Writes {
                add: vec![(key, object)],
                ..Writes::default()
            });
        } else {
            first.push_back(Writes {
                add: vec![(key, object)],
                ..Writes::default()
            });
        }
    }
    for (key, object) in delta.replace {
        if is_entry(&key) {
            entries.replace.push((key, object));
        } else {
            first.push_back(Writes {
                replace: vec![(key, object)],
                ..Writes::default()
            });
        }
    }
    first.push_back(entries);
    let mut last = VecDeque::new();
    let mut unused = Writes::default();
    for key in delta.delete {
        if is_entry(&key) {
            unused.delete.push(key);
        } else if matches!(key, Key::NamedSet(..)) {
            last.push_back(Writes {
                delete: vec![key],
                ..Writes::default()
            });
        } else {
            last.push_front(Writes {
                delete: vec![key],
                ..Writes::default()
            });
        }
    }
    last.push_front(unused);
    (first, last)
}

/// Whether a chain leads to others: all but blocks of endpoints (`affinity/namespace/name/protocol/port/known-0`).
fn is_entry(key: &Key) -> bool {
    matches!(key, Key::Chain(_, ChainName::Named(name)) if name.matches('/').count() <= 4)
}
