//! A restart on a ruleset that is too large to be listed: the endpoint maps are asked for by key.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::common::{facts, in_namespace, load, nft, with_examples};
use sluice_lab::{eventually, require_netns, require_vm};
use sluice_model::{Change, NamespacedName};
use sluice_nft::{Batch, Connection, Create, DataRef, ElementRef, Family, Kernel as _, Scope};
use sluice_nftables::Nftables;
use sluice_plan::Event;
use sluice_plan::testing::{endpoints, service};
use sluice_plane::Proxy;
use sluice_reconcile::Upkeep;
use sluice_scenarios::Drive as _;

const SOON: Duration = Duration::from_secs(60);

/// Together they have more endpoints than are listed.
const SERVICES: u8 = 70;
const ENDPOINTS: u8 = 250;

/// Service `index` with as many endpoints; the first one has a NodePort.
fn set(index: u8, slots: impl Iterator<Item = u8>) -> Vec<Event> {
    let node_port = if index == 0 { "@31000 NodePort" } else { "" };
    let members: Vec<String> = slots.map(|it| format!("10.245.{index}.{it}:80")).collect();
    let name = format!("default/big-{index}");
    let mut events = vec![service(&format!("{name} 10.96.200.{index} :80{node_port}"))];
    events.extend(endpoints(&name, &members.join(" ")));
    events
}

fn delete(index: u8) -> Event {
    let name = NamespacedName::new("default", format!("big-{index}"));
    Event::Service(Change::Delete(name))
}

/// node-a with all examples and large Services. Nothing is written.
fn started() -> Proxy<Nftables> {
    let mut node = with_examples();
    node.tell((0..SERVICES).flat_map(|it| set(it, 0..ENDPOINTS)).collect());
    node
}

/// Added, grown, shrunk, replaced and deleted Services.
fn changes() -> Vec<Event> {
    let mut events = set(100, 0..3);
    events.extend(set(0, 1..ENDPOINTS - 1));
    events.extend(set(1, 7..ENDPOINTS));
    events.extend(set(2, 5..ENDPOINTS + 5));
    events.extend([delete(3), delete(SERVICES - 1)]);
    events
}

fn listing() -> BTreeSet<String> {
    facts(&nft(&["list", "ruleset"]))
}

fn as_nft(rules: &[&str]) {
    load(Path::new("nft"), &rules.join("\n"));
}

/// Does all deferred work; returns how many objects were deleted meanwhile.
fn settle(node: &mut Proxy<Nftables>) -> usize {
    let mut deleted = 0;
    let settled = || match node.reconciler_mut().upkeep().unwrap() {
        Upkeep::Nothing => Some(()),
        Upkeep::After(_) => None,
        Upkeep::Resync(_) => {
            deleted += node.synced().deleted;
            None
        }
    };
    eventually(SOON, settled).expect("the search ends");
    deleted
}

#[test]
fn a_restart_writes_nothing() {
    require_netns!();
    in_namespace(|| {
        let mut node = started();
        node.synced();
        // Slots that differ from those of a fresh plan.
        node.change(set(1, 7..ENDPOINTS));
        let client = "10.244.9.9";
        let listed = nft(&["list", "sets", "ip"]);
        let sticky = listed
            .split_whitespace()
            .find(|it| it.starts_with("sticky/"));
        let sticky = sticky.unwrap();
        as_nft(&[&format!(
            "add element ip sluice {sticky} {{ {client} . 0 timeout 1h }}"
        )]);
        let mut restarted = started();
        restarted.tell(set(1, 7..ENDPOINTS));
        let report = restarted.synced();
        assert!(report.full && report.is_empty(), "{report:?}");
        assert_eq!(settle(&mut restarted), 0);
        let report = restarted.resync();
        assert!(report.full && report.is_empty(), "{report:?}");
        assert!(nft(&["list", "set", "ip", "sluice", sticky]).contains(client));
    });
}

#[test]
fn what_changed_while_away_is_written_and_nothing_else() {
    require_netns!();
    let expected = in_namespace(|| {
        let mut node = started();
        node.synced();
        (node.change(changes()), listing())
    });
    in_namespace(|| {
        started().synced();
        let mut restarted = started();
        restarted.tell(changes());
        let report = restarted.synced();
        let written = |it: sluice_reconcile::Report| (it.added, it.replaced, it.deleted);
        assert_eq!(
            (written(report), listing()),
            (written(expected.0), expected.1)
        );
        assert_eq!(settle(&mut restarted), 0);
    });
}

/// Elements that no frontend leads to, one in each endpoint map.
const UNREACHABLE: [&str; 5] = [
    "add element ip sluice endpoints { 10.96.200.1 . tcp . 80 . 250 : 10.9.9.9 . 80 }",
    "add element ip sluice endpoints { 10.96.77.77 . tcp . 80 . 0 : 10.9.9.9 . 80 }",
    "add element ip sluice local-endpoints { 10.96.200.1 . tcp . 80 . 0 : 10.9.9.9 . 80 }",
    "add element ip sluice nodeport-endpoints { tcp . 31999 . 0 : 10.9.9.9 . 80 }",
    "add element ip sluice local-nodeport-endpoints { tcp . 31000 . 0 : 10.9.9.9 . 80 }",
];

#[test]
fn whatever_was_done_to_the_rules_is_undone() {
    require_netns!();
    in_namespace(|| {
        started().synced();
        let before = listing();
        let deeds: [&[&str]; 8] = [
            &UNREACHABLE,
            &[
                "add element ip sluice endpoints { * : 10.9.9.9 . 80 }",
                "add element ip sluice local-nodeport-endpoints { * : 10.9.9.9 . 80 }",
                "add element ip sluice frontends { * : drop }",
                "add element ip sluice cluster-ips { * }",
            ],
            &[
                "delete element ip sluice endpoints { 10.96.200.1 . tcp . 80 . 3 }",
                "delete element ip sluice endpoints { 10.96.200.2 . tcp . 80 . 3 }",
                "add element ip sluice endpoints { 10.96.200.2 . tcp . 80 . 3 : 10.9.9.9 . 80 }",
                "delete element ip sluice frontends { 10.96.200.3 . tcp . 80 }",
                "delete element ip sluice frontends { 10.96.200.4 . tcp . 80 }",
                "add element ip sluice frontends { 10.96.200.4 . tcp . 80 : drop }",
                "delete element ip sluice frontends { 10.96.200.5 . tcp . 80 }",
                "add element ip sluice frontends { 10.96.200.5 . tcp . 80 : goto cluster-ip-2 }",
                "add element ip sluice nodeports { tcp . 31999 : goto cluster-ip-2 }",
                "add element ip sluice cluster-ips { 10.96.77.77 }",
            ],
            &["flush map ip sluice endpoints"],
            // The state of an agent that was killed during the first sync.
            &[
                "flush map ip sluice frontends",
                "flush map ip sluice nodeports",
                "flush set ip sluice cluster-ips",
            ],
            &["delete table ip sluice"],
            &["add table ip sluice { flags dormant; }"],
            &["flush ruleset"],
        ];
        for deed in deeds {
            as_nft(deed);
            let mut restarted = started();
            let written = !restarted.synced().is_empty();
            assert!(settle(&mut restarted) > 0 || written, "{deed:?}");
            // The kernel may skip elements of a map that it is still growing.
            let is_as_before = || (listing() == before).then_some(());
            assert!(eventually(SOON, is_as_before).is_some(), "after {deed:?}");
            assert!(restarted.resync().is_empty(), "after {deed:?}");
        }
    });
}

/// The kernel tells keys apart by bytes that no packet has, and nft crashes at a catch-all element
/// of a set of ranges.
#[test]
fn what_nft_cannot_write_is_deleted_too() {
    require_netns!();
    in_namespace(|| {
        started().synced();
        let before = listing();
        let slot = [10, 96, 200, 1, 6, 0, 0, 0, 0, 80, 0, 1, 3, 0, 0, 0];
        let element = ElementRef {
            key: &slot,
            data: Some(DataRef::Value(&[10, 9, 9, 9, 0, 80, 0, 0])),
            ..ElementRef::default()
        };
        let scope = Scope {
            family: Family::Ipv4,
            table: "sluice",
        };
        let mut batch = Batch::new();
        batch.add_element(0, scope, "endpoints", &element, Create::IfMissing);
        let catch_all = ElementRef::default();
        batch.add_element(1, scope, "nodeport-ips", &catch_all, Create::IfMissing);
        Connection::open().unwrap().commit(&batch).unwrap();
        let mut restarted = started();
        assert_eq!(restarted.synced().deleted, 1);
        assert_eq!(settle(&mut restarted), 1);
        assert_eq!(listing(), before);
        assert!(restarted.resync().is_empty());
    });
}

/// No frontend tells which slots its endpoints have, and those of a fresh plan are in use.
#[test]
fn slots_that_no_frontend_leads_to_are_replaced() {
    require_netns!();
    in_namespace(|| {
        let mut node = started();
        node.synced();
        node.change(set(1, 7..ENDPOINTS));
        as_nft(&["delete element ip sluice frontends { 10.96.200.1 . tcp . 80 }"]);
        let mut restarted = started();
        restarted.tell(set(1, 7..ENDPOINTS));
        let report = restarted.synced();
        assert!(report.added == 1 && report.replaced > 0, "{report:?}");
        assert_eq!(settle(&mut restarted), 0);
        assert!(restarted.resync().is_empty());
    });
}

#[test]
fn a_restart_before_the_search_has_ended_searches_again() {
    require_netns!();
    in_namespace(|| {
        started().synced();
        let before = listing();
        as_nft(&UNREACHABLE);
        // The agent is killed before the search, then during it.
        assert!(started().synced().is_empty());
        let mut searching = started();
        assert!(searching.synced().is_empty());
        let upkeep = searching.reconciler_mut().upkeep().unwrap();
        assert!(matches!(upkeep, Upkeep::After(_)), "{upkeep:?}");
        drop(searching);
        let mut restarted = started();
        assert!(restarted.synced().is_empty());
        assert_eq!(settle(&mut restarted), UNREACHABLE.len());
        assert_eq!(listing(), before);
    });
}

/// A change goes on while the maps are listed, and is not taken for a leftover.
#[test]
fn changes_flow_during_the_search() {
    require_netns!();
    let expected = in_namespace(|| {
        let mut node = started();
        node.synced();
        node.change(changes());
        listing()
    });
    in_namespace(|| {
        started().synced();
        as_nft(&UNREACHABLE);
        let mut restarted = started();
        restarted.synced();
        let upkeep = restarted.reconciler_mut().upkeep().unwrap();
        assert!(matches!(upkeep, Upkeep::After(_)), "{upkeep:?}");
        let report = restarted.change(changes());
        assert!(!report.full && !report.is_empty(), "{report:?}");
        assert_eq!(settle(&mut restarted), UNREACHABLE.len());
        assert_eq!(listing(), expected);
    });
}

/// An element that is in the way of a change fails it once.
#[test]
fn a_change_meets_an_element_that_no_frontend_leads_to() {
    require_netns!();
    in_namespace(|| {
        let mut node = started();
        node.synced();
        as_nft(&UNREACHABLE);
        let error = node.try_change(set(1, 0..ENDPOINTS + 1)).unwrap_err();
        assert!(
            error.to_string().contains("10.96.200.1 . tcp . 80 . 250"),
            "{error}"
        );
        let report = node.synced();
        assert!(report.full && report.replaced == 2, "{report:?}");
        assert_eq!(settle(&mut node), UNREACHABLE.len() - 1);
        assert!(node.resync().is_empty());
    });
}

/// Linux 6.1 does not say how many elements a map has: maps that no frontend leads to are not
/// listed, because they may be large.
#[test]
fn vm_leftovers_are_found_without_counts() {
    require_vm!("restart::vm_leftovers_are_found_without_counts");
    in_namespace(|| {
        with_examples().synced();
        let before = listing();
        as_nft(&[
            "flush map ip sluice frontends",
            "flush map ip sluice nodeports",
            "flush map ip sluice near-frontends",
            "flush map ip sluice near-nodeports",
            "add element ip sluice endpoints { * : 10.9.9.9 . 80 }",
        ]);
        as_nft(&UNREACHABLE);
        let mut restarted = with_examples();
        assert_eq!(restarted.synced().deleted, 1, "the catch-all element");
        assert_eq!(settle(&mut restarted), UNREACHABLE.len());
        assert_eq!(listing(), before);
        assert!(restarted.resync().is_empty());
    });
}
