//! Slots: the numbers of a pool's endpoints in the kernel's maps.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sluice_plan::{Frontend, PortPlan, Scope};
use sluice_plane::slots;

use crate::frontend::{slot_key, slots_set};
use crate::labels::Labels;
use crate::object::{Key, Object};
use crate::set::{Element, ElementValue, SetName};

/// The slots of a service port's pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Slot to index in the cluster pool.
    cluster: Box<[u32]>,
    /// Slot to index in the local pool.
    local: Box<[u32]>,
    /// The labels of a port with session affinity, which has no slots.
    labels: Option<Box<Labels>>,
}

impl Placement {
    fn labelled(labels: Labels) -> Self {
        Self {
            labels: Some(Box::new(labels)),
            ..Self::default()
        }
    }

    /// The labels of the endpoints of a port with session affinity.
    ///
    /// # Panics
    ///
    /// The port was placed without session affinity.
    pub(crate) fn labels(&self) -> &Labels {
        self.labels
            .as_ref()
            .expect("a port is rendered as it was placed")
    }

    /// Slot to index in the pool of this scope.
    pub(crate) fn slots(&self, scope: Scope) -> &[u32] {
        match scope {
            Scope::Cluster => &self.cluster,
            Scope::Local => &self.local,
        }
    }
}

/// Places the endpoints of a port so that few slots change.
pub(crate) fn place(port: &PortPlan, previous: Option<(&PortPlan, &Placement)>) -> Placement {
    if port.affinity_seconds.is_some() {
        let labels = previous.and_then(|(_, it)| it.labels.as_deref());
        return Placement::labelled(Labels::assign(port, labels.unwrap_or(&Labels::default())));
    }
    let place_pool = |scope| {
        let old = previous.map(|(plan, placement)| addresses(plan, placement, scope));
        slots::assign(port.pool(scope), &old.unwrap_or_default())
    };
    Placement {
        cluster: place_pool(Scope::Cluster),
        local: place_pool(Scope::Local),
        labels: None,
    }
}

fn addresses(plan: &PortPlan, placement: &Placement, scope: Scope) -> Vec<SocketAddr> {
    let Some(pool) = plan.pool(scope) else {
        return Vec::new();
    };
    let endpoints = pool.endpoints();
    let slots = placement.slots(scope).iter();
    slots
        .filter_map(|&index| endpoints.get(index as usize))
        .map(|it| it.addr)
        .collect()
}

/// Reads the slots of a port back from the kernel's elements. All frontends of a port share them, so the first
/// frontend that has any is enough.
pub(crate) fn recover(port: &PortPlan, observed: &BTreeMap<Key, Object>) -> Placement {
    if port.affinity_seconds.is_some() {
        return Placement::labelled(Labels::recover(port, observed));
    }
    let recover_pool = |scope| {
        let seen = port.frontends.iter().find_map(|planned| {
            let set = slots_set(&planned.frontend, planned.route, scope)?;
            let seen = observed_slots(&planned.frontend, set, observed);
            (!seen.is_empty()).then_some(seen)
        });
        slots::assign(port.pool(scope), &seen.unwrap_or_default())
    };
    Placement {
        cluster: recover_pool(Scope::Cluster),
        local: recover_pool(Scope::Local),
        labels: None,
    }
}

fn observed_slots(
    frontend: &Frontend,
    set: SetName,
    observed: &BTreeMap<Key, Object>,
) -> Vec<SocketAddr> {
    // The kernel's maps are large, and the slots of a frontend are neighbours.
    let key = |slot| Key::Element(frontend.family(), set, slot_key(frontend, slot));
    let slots = (0..).zip(observed.range(key(0)..));
    let slots = slots.map_while(|(slot, (seen, object))| match object {
        Object::Element(Element {
            value: ElementValue::Endpoint(addr),
            ..
        }) if *seen == key(slot) => Some(*addr),
        _ => None,
    });
    slots.collect()
}
