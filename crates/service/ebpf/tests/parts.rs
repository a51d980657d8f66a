//! Tests a delta that is written in parts while events go on, as the nftables mode's.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use proptest::prelude::*;
use sluice_ebpf::{Ebpf, Facts, Key, Object, port_parts, render_port};
use sluice_plan::settings::Settings;
use sluice_plan::testing::{arbitrary_events, arbitrary_settings, endpoints, planner, service};
use sluice_plan::{Plan, PortKey, PortPlan};
use sluice_plane::ServiceBackend as _;
use sluice_plane::testing::{Shape, parts_add_up};
use sluice_reconcile::{Backend as _, Change, Delta, Parts};

/// The elements of service ports, without those that always exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports;

/// The id of a service port.
pub(crate) fn id(key: &PortKey) -> u32 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let [.., a, b, c, d] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d]).max(1)
}

impl Shape for Ports {
    type Key = Key;
    type Object = Object;

    const PART: usize = 16;

    fn cost(port: &PortPlan) -> usize {
        Ebpf::cost(port)
    }

    fn is_shared(key: &Key) -> bool {
        Ebpf::is_shared(key)
    }

    fn parts(changes: &[Change<PortPlan, ()>]) -> Option<Box<dyn Parts<Key, Object>>> {
        let with_id = |it: &Option<(Arc<PortPlan>, ())>| {
            let (plan, ()) = it.clone()?;
            let id = id(&plan.key);
            Some((plan, id))
        };
        let changes = changes.iter().map(|it| Change {
            old: with_id(&it.old),
            new: with_id(&it.new),
        });
        Some(port_parts(&changes.collect::<Vec<_>>(), &Facts::default()))
    }

    fn render(port: &PortPlan) -> Vec<(Key, Object)> {
        render_port(port, id(&port.key), &Facts::default())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn parts_add_up_to_the_plan(
        settings in arbitrary_settings(),
        rounds in prop::collection::vec(arbitrary_events(), 1..6),
        doubts in any::<bool>(),
    ) {
        parts_add_up::<Ports>(settings, rounds, doubts, |_| {});
    }
}

/// A Service with one ClusterIP and so many endpoints.
fn many_endpoints(count: u16) -> Plan {
    let list = (0..count).map(|it| {
        let [high, low] = it.to_be_bytes();
        format!("10.244.{high}.{low}:8080")
    });
    let slices = endpoints("default/big", &list.collect::<Vec<_>>().join(" "));
    let events = [service("default/big 10.96.0.1 :80")]
        .into_iter()
        .chain(slices);
    planner(Settings::for_node("node-a"), events).plan().clone()
}

/// A single service port comes in parts that keep the bound, its frontend after its endpoints, and goes in the opposite order.
#[test]
fn a_large_port_is_divided() {
    let (served, unserved) = (many_endpoints(700), many_endpoints(0));
    for (before, after) in [(&served, &unserved), (&unserved, &served)] {
        let held = |plan: &Plan| {
            let (key, port) = plan.ports.first_key_value().expect("it has a port");
            Some((port.clone(), id(key)))
        };
        let change = Change {
            old: held(before),
            new: held(after),
        };
        let mut parts = port_parts(&[change], &Facts::default());
        let parts: Vec<Delta<Key, Object>> = std::iter::from_fn(|| parts.next(100)).collect();
        let sizes: Vec<usize> = parts.iter().map(Delta::len).collect();
        assert_eq!(sizes, [[100; 7].as_slice(), &[1]].concat());
        let is_frontend = |(key, _): &(Key, Object)| matches!(key, Key::Frontend(_));
        let led = parts
            .iter()
            .position(|it| it.replace.iter().any(is_frontend));
        let is_right = if std::ptr::eq(after, &served) { 7 } else { 0 };
        assert_eq!(led, Some(is_right));
    }
}
