//! Tests a delta that is written in parts while events go on: no object is added twice, no object that another
//! service port needs is deleted, and in the end the kernel has the plan.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_nftables::{ChainName, Key, Nftables, Object, SetName, port_parts, render_port};
use sluice_plan::settings::Settings;
use sluice_plan::testing::{arbitrary_events, arbitrary_settings, endpoints, planner, service};
use sluice_plan::{Plan, Pool, PortKey, PortPlan};
use sluice_plane::testing::{Shape, parts_add_up};
use sluice_reconcile::{Backend as _, Change, Delta, Parts};

use crate::equivalence::loose_ends;

/// The objects of service ports, without those that always exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports;

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

    fn parts(changes: &[Change<PortPlan, ()>]) -> Option<Box<dyn Parts<Key, Object>>> {
        Some(port_parts(changes))
    }

    fn render(port: &PortPlan) -> Vec<(Key, Object)> {
        render_port(port)
    }
}

/// Every element leads to a chain of service ports that exists, or to one that always does.
fn references_hold(objects: &BTreeMap<Key, Object>) {
    let mut ends = loose_ends(objects);
    let own = ends.find(|(_, chain)| !matches!(chain, ChainName::Standing(_)));
    assert_eq!(own, None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// nf_tables would accept another object in the place of one.
    #[test]
    fn parts_add_up_to_the_plan(
        settings in arbitrary_settings(),
        rounds in prop::collection::vec(arbitrary_events(), 1..6),
        doubts in any::<bool>(),
    ) {
        parts_add_up::<Ports>(settings, rounds, doubts, references_hold);
    }
}

/// The parts that turn one plan into another, each of about `limit` objects.
fn parts(before: &Plan, after: &Plan, limit: usize) -> Vec<Delta<Key, Object>> {
    let keys: BTreeSet<&PortKey> = before.ports.keys().chain(after.ports.keys()).collect();
    let placed = |plan: &Plan, key| plan.ports.get(key).map(|it| (it.clone(), ()));
    let changes = keys.into_iter().map(|key| Change {
        old: placed(before, key),
        new: placed(after, key),
    });
    let changes: Vec<_> = changes.collect();
    let mut parts = port_parts(&changes);
    std::iter::from_fn(|| parts.next(limit)).collect()
}

/// A Service with 200 external addresses and one ClusterIP, and so many endpoints.
fn many_addresses(endpoint_count: usize) -> Plan {
    let addresses: Vec<String> = (0..200).map(|it| format!("198.18.0.{it}")).collect();
    let text = format!("default/big 10.96.0.1 :80 ext={}", addresses.join(","));
    let list: Vec<String> = (0..endpoint_count)
        .map(|it| format!("10.244.1.{it}:8080"))
        .collect();
    let slices = endpoints("default/big", &list.join(" "));
    let events = [service(&text)].into_iter().chain(slices);
    planner(Settings::for_node("node-a"), events).plan().clone()
}

/// A single service port comes in parts that keep the bound, in the order in which no packet finds half of it.
#[test]
fn a_large_port_is_divided() {
    let (served, unserved) = (many_addresses(40), many_addresses(0));
    let all = 201 * 40;
    for (before, after) in [(&served, &unserved), (&unserved, &served)] {
        let parts = parts(before, after, 500);
        let writes = |it: &Delta<Key, Object>| it.add.len() + it.replace.len() + it.delete.len();
        // A frontend leaves one map and comes into another in one transaction.
        assert!(parts.iter().all(|it| writes(it) <= 500 + 1));
        assert_eq!(parts.iter().map(writes).sum::<usize>(), all + 2 * 201);
        let is_frontend = |key: &Key| matches!(key, Key::Element(_, SetName::Frontends, _));
        let led = parts.iter().position(|it| {
            let added = it.add.iter().map(|it| &it.0);
            added.chain(&it.delete).any(is_frontend)
        });
        let is_last = led == Some(all / 500);
        assert!(
            if std::ptr::eq(after, &served) {
                is_last
            } else {
                led == Some(0)
            },
            "{led:?}"
        );
    }
}

/// The work follows what differs, not what there is.
#[test]
fn a_replaced_endpoint_writes_its_slots() {
    let before = many_addresses(41);
    let mut after = before.clone();
    for port in after.ports.values_mut() {
        let mut changed = (**port).clone();
        let mut endpoints = port
            .cluster
            .as_ref()
            .expect("it has endpoints")
            .endpoints()
            .to_vec();
        endpoints[7].addr.set_port(9090);
        changed.cluster = Pool::new(endpoints);
        *port = changed.into();
    }
    let all = parts(&before, &after, usize::MAX);
    let writes: Vec<_> = all
        .iter()
        .map(|it| (it.add.len(), it.replace.len(), it.delete.len()))
        .collect();
    assert_eq!(writes, [(0, 201, 0)]);
}
