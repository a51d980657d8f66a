//! Tests a delta that is written in parts while events go on: no object is added twice, no object that another
//! service port needs is deleted, and in the end the kernel has the plan.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use sluice_nftables::{Key, Nftables, Object, render_port};
use sluice_plan::testing::{arbitrary_events, arbitrary_settings};
use sluice_plan::{PortKey, PortPlan};
use sluice_plane::{Proxy, Scene, ServiceBackend};
use sluice_reconcile::{Backend, BackendError, Delta, Objects};

/// A kernel in memory, which is strict where nf_tables would accept another object in the place of one.
#[derive(Clone, Debug, Default)]
struct Memory(Rc<RefCell<BTreeMap<Key, Object>>>);

impl Backend for Memory {
    type Owner = PortKey;
    type Plan = PortPlan;
    type Scene = Scene;
    type Key = Key;
    type Object = Object;
    type Placement = ();

    const SCENE_SHAPES_OWNERS: bool = false;

    fn is_shared(key: &Key) -> bool {
        <Nftables>::is_shared(key)
    }

    fn standing(&self, _: &Scene) -> Objects<Self> {
        Vec::new()
    }

    fn place(&mut self, _: &PortPlan, _: Option<(&PortPlan, &())>) {}

    fn recover(&self, _: &PortPlan, _: &BTreeMap<Key, Object>) {}

    fn render(&self, _: &Scene, port: &PortPlan, (): &()) -> Objects<Self> {
        render_port(port)
    }

    fn observe(&mut self) -> Result<BTreeMap<Key, Object>, BackendError> {
        Ok(self.0.borrow().clone())
    }

    fn apply(&mut self, delta: &Delta<Key, Object>) -> Result<(), BackendError> {
        let mut held = self.0.borrow_mut();
        for key in &delta.delete {
            assert!(
                held.remove(key).is_some(),
                "{key} is deleted, but not there"
            );
        }
        for (key, object) in &delta.replace {
            let old = held.insert(key.clone(), object.clone());
            assert!(old.is_some(), "{key} is replaced, but not there");
        }
        for (key, object) in &delta.add {
            let old = held.insert(key.clone(), object.clone());
            assert!(old.is_none(), "{key} is added, but there");
        }
        Ok(())
    }
}

impl ServiceBackend for Memory {
    const LARGE: usize = usize::MAX;
    const PART: usize = 4;

    fn cost(port: &PortPlan) -> usize {
        port.weight() + port.frontends.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn parts_add_up_to_the_plan(
        settings in arbitrary_settings(),
        rounds in prop::collection::vec(arbitrary_events(), 1..6),
    ) {
        let memory = Memory::default();
        let mut proxy = Proxy::new(settings, memory.clone());
        for events in rounds {
            events.into_iter().for_each(|it| proxy.absorb(it));
            proxy.replan();
            proxy.sync().expect("memory takes everything");
        }
        while proxy.waiting().next().is_some() {
            let before = proxy.waiting().count();
            proxy.sync().expect("memory takes everything");
            prop_assert!(proxy.waiting().count() < before);
        }
        let ports = proxy.plan().ports.values();
        let wanted: BTreeMap<Key, Object> = ports.flat_map(|it| render_port(it)).collect();
        prop_assert_eq!(&*memory.0.borrow(), &wanted);
    }
}
