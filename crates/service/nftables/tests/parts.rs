//! Tests a delta that is written in parts while events go on: no object is added twice, no object that another
//! service port needs is deleted, and in the end the kernel has the plan.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use sluice_nftables::{ChainName, Key, Nftables, Object, render_port};
use sluice_plan::PortPlan;
use sluice_plan::testing::{arbitrary_events, arbitrary_settings};
use sluice_plane::Proxy;
use sluice_plane::testing::{Fake, Shape};
use sluice_reconcile::{Backend as _, Delta};

use crate::equivalence::loose_ends;

/// The objects of service ports, without those that always exist.
#[derive(Clone, Debug, Default)]
struct Ports;

impl Shape for Ports {
    type Key = Key;
    type Object = Object;

    const PART: usize = 16;

    fn cost(port: &PortPlan) -> usize {
        port.weight() + port.frontends.len()
    }

    fn is_shared(key: &Key) -> bool {
        <Nftables>::is_shared(key)
    }

    fn divide(delta: Delta<Key, Object>, limit: usize) -> VecDeque<Delta<Key, Object>> {
        <Nftables>::divide(delta, limit)
    }

    fn render(port: &PortPlan) -> Vec<(Key, Object)> {
        render_port(port)
    }
}

/// Every element leads to a chain of service ports that exists, or to one that always does.
fn references_hold(memory: &Fake<Ports>) {
    let kernel = memory.0.borrow();
    let mut ends = loose_ends(&kernel.objects);
    let own = ends.find(|(_, chain)| !matches!(chain, ChainName::Standing(_)));
    assert_eq!(own, None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn parts_add_up_to_the_plan(
        settings in arbitrary_settings(),
        rounds in prop::collection::vec(arbitrary_events(), 1..6),
    ) {
        // nf_tables would accept another object in the place of one.
        let memory = Fake::<Ports>::default();
        memory.0.borrow_mut().is_strict = true;
        let mut proxy = Proxy::new(settings, memory.clone());
        for events in rounds {
            events.into_iter().for_each(|it| proxy.absorb(it));
            proxy.replan();
            proxy.sync().expect("memory takes everything");
            references_hold(&memory);
        }
        let mut parts = 0;
        while proxy.planner().is_dirty() || proxy.waiting().next().is_some() {
            proxy.replan();
            proxy.sync().expect("memory takes everything");
            references_hold(&memory);
            parts += 1;
            prop_assert!(parts < 1000);
        }
        let ports = proxy.plan().ports.values();
        let wanted: BTreeMap<Key, Object> = ports.flat_map(|it| render_port(it)).collect();
        prop_assert_eq!(&memory.0.borrow().objects, &wanted);
    }
}
