//! The frontends of service ports before and after a change, and the slots in which they differ.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use sluice_plan::{Frontend, PlannedFrontend, PortPlan, Scope};

use crate::frontend::{slot_key, slot_sets, slots_set};
use crate::object::{Key, Object};
use crate::placement::Placement;
use crate::render::Render;
use crate::set::SetName;
use crate::sources::Lists;

/// Before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Times<T> {
    pub(crate) old: T,
    pub(crate) new: T,
}

/// A service port before or after the change.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) plan: Arc<PortPlan>,
    pub(crate) placement: Placement,
    /// See [`label`](crate::render::label).
    pub(crate) label: Arc<str>,
}

impl Side {
    pub(crate) fn render(&self) -> Render<'_> {
        Render::labelled(&self.plan, &self.placement, self.label.clone())
    }
}

/// The service ports of the change, and some of their sides.
type Sides = Times<Vec<Option<Side>>>;

/// A frontend. It may move from one service port to another.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) frontend: Frontend,
    /// The index of its service port, and its own in the plan.
    pub(crate) at: Times<Option<(usize, usize)>>,
    /// It stays, but who may connect changes.
    pub(crate) is_restricted_anew: bool,
}

/// The index of a service port, and a frontend of its plan.
pub(crate) fn planned(
    time: &[Option<Side>],
    at: Option<(usize, usize)>,
) -> Option<(usize, &PlannedFrontend)> {
    let (port, index) = at?;
    Some((port, &time[port].as_ref()?.plan.frontends[index]))
}

/// Each frontend once; those that come or stay first.
pub(crate) fn rows(sides: &Sides) -> Vec<Row> {
    let mut all: Vec<(Frontend, bool, (usize, usize))> = Vec::new();
    for (time, is_old) in [(&sides.new, false), (&sides.old, true)] {
        for (port, side) in time.iter().enumerate() {
            let frontends = side.iter().flat_map(|it| &it.plan.frontends);
            let frontends = frontends.enumerate();
            all.extend(frontends.map(|(index, it)| (it.frontend, is_old, (port, index))));
        }
    }
    all.sort_unstable();
    let mut rows: Vec<Row> = Vec::with_capacity(all.len());
    for (frontend, is_old, place) in all {
        if rows.last().is_none_or(|it| it.frontend != frontend) {
            rows.push(Row {
                frontend,
                at: Times::default(),
                is_restricted_anew: false,
            });
        }
        if let Some(row) = rows.last_mut() {
            let at = if is_old {
                &mut row.at.old
            } else {
                &mut row.at.new
            };
            *at = Some(place);
        }
    }
    rows.sort_by_key(|it| it.at.new.is_none());
    rows
}

/// The slots of a frontend in one map.
#[derive(Debug)]
pub(crate) struct SlotMap {
    /// The index of the frontend's row.
    pub(crate) row: usize,
    map: SetName,
    /// The service port and the pool.
    pools: Times<Option<(usize, Scope)>>,
    /// The same for all frontends of the same pools.
    pub(crate) difference: Arc<Difference>,
}

/// The slots in which two pools differ.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Those that are added or get another endpoint.
    pub(crate) written: Vec<u32>,
    sizes: Times<u32>,
}

/// The slots of a pool.
struct Slots<'a> {
    render: Render<'a>,
    scope: Scope,
    count: u32,
}

impl<'a> Slots<'a> {
    fn of(time: &'a [Option<Side>], pool: Option<(usize, Scope)>) -> Option<Self> {
        let (port, scope) = pool?;
        let side = time[port].as_ref()?;
        let count = side.placement.slots(scope).len();
        Some(Self {
            render: side.render(),
            scope,
            count: u32::try_from(count).expect("slots are numbered by u32"),
        })
    }

    fn content(&self, slot: u32) -> Option<(SocketAddr, &str)> {
        (slot < self.count).then(|| self.render.content(self.scope, slot))
    }
}

impl Difference {
    fn between(sides: &Sides, pools: Times<Option<(usize, Scope)>>) -> Self {
        let old = Slots::of(&sides.old, pools.old);
        let new = Slots::of(&sides.new, pools.new);
        let count = |it: &Option<Slots<'_>>| it.as_ref().map_or(0, |it| it.count);
        let sizes = Times {
            old: count(&old),
            new: count(&new),
        };
        let is_other = |slot: &u32| {
            let old = old.as_ref().and_then(|it| it.content(*slot));
            old != new.as_ref().and_then(|it| it.content(*slot))
        };
        Self {
            written: (0..sizes.new).filter(is_other).collect(),
            sizes,
        }
    }

    /// The slots that go.
    pub(crate) fn gone(&self) -> Range<u32> {
        self.sizes.new..self.sizes.old
    }
}

impl SlotMap {
    /// The slot at this position of [`Difference::written`], and whether it replaces one.
    pub(crate) fn written(&self, sides: &Sides, row: &Row, position: usize) -> (Key, Object, bool) {
        let slot = self.difference.written[position];
        let pool = self.pools.new;
        let pool = pool.and_then(|(port, scope)| Some((sides.new[port].as_ref()?, scope)));
        let (side, scope) = pool.expect("only a pool has slots");
        let (key, object) = side.render().slot(&row.frontend, self.map, scope, slot);
        (key, object, slot < self.difference.sizes.old)
    }

    /// The key of a slot that goes.
    pub(crate) fn gone(&self, row: &Row, position: usize) -> Key {
        let slot = self.difference.gone().nth(position);
        let slot = slot.expect("the position of one that goes");
        Key::Element(
            row.frontend.family(),
            self.map,
            slot_key(&row.frontend, slot),
        )
    }
}

/// The slots that differ, in the order of the rows. Tells the rows whose source ranges change.
pub(crate) fn slot_maps(sides: &Sides, rows: &mut [Row], lists: &mut Lists) -> Vec<SlotMap> {
    let mut known: HashMap<Times<Option<(usize, Scope)>>, Arc<Difference>> = HashMap::new();
    let mut maps = Vec::new();
    for (index, row) in rows.iter_mut().enumerate() {
        let (old, new) = (
            planned(&sides.old, row.at.old),
            planned(&sides.new, row.at.new),
        );
        let mut list = |it: &PlannedFrontend| it.allowed_sources.as_ref().map(|it| lists.put(it).0);
        row.is_restricted_anew =
            matches!((old, new), (Some((_, old)), Some((_, new))) if list(old) != list(new));
        let slots = |it: Option<(usize, &PlannedFrontend)>, map| {
            let (port, planned) = it?;
            let mut scopes = [Scope::Cluster, Scope::Local].into_iter();
            let scope =
                scopes.find(|it| slots_set(&planned.frontend, planned.route, *it) == Some(map))?;
            Some((port, scope))
        };
        for map in slot_sets(&row.frontend) {
            let pools = Times {
                old: slots(old, map),
                new: slots(new, map),
            };
            if pools == Times::default() {
                continue;
            }
            let difference = known
                .entry(pools)
                .or_insert_with(|| Arc::new(Difference::between(sides, pools)));
            if difference.written.is_empty() && difference.gone().is_empty() {
                continue;
            }
            maps.push(SlotMap {
                row: index,
                map,
                pools,
                difference: difference.clone(),
            });
        }
    }
    maps
}
