//! Tests the objects in the kernel: read back, listed, loaded again by nft, changed by other programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{facts, in_namespace, load, nft, nft_of, with_counting, with_examples};
use sluice_lab::{eventually, require_netns};
use sluice_model::{Change, IpFamily, NamespacedName};
use sluice_nftables::{Counting, Nftables, render_plan, text};
use sluice_plan::Event;
use sluice_plan::testing::{endpoints, service};
use sluice_plane::{Counter, DataPlane as _, Proxy, Purpose, Removal, Request};
use sluice_reconcile::Upkeep;
use sluice_scenarios::Drive as _;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The nft of Debian 12, and that of Debian 13.
fn programs() -> Vec<PathBuf> {
    let trixie = root().join("target/nft-trixie/nft");
    let mut programs = vec![PathBuf::from("nft")];
    if trixie.exists() {
        programs.push(trixie);
    } else if std::env::var_os("CI").is_some() {
        panic!("no Debian 13 nft: run `make setup`");
    } else {
        eprintln!("SKIP: Debian 13's nft is not there: run `make setup`");
    }
    programs
}

/// `sluice cleanup` of what this data plane has.
fn cleanup() -> Removal {
    let mut removal = Removal::default();
    let request = Request {
        purpose: Purpose::Cleanup,
        families: &IpFamily::ALL,
        keep: &|_| false,
    };
    Nftables::LEFTOVERS.remove(&request, &mut removal);
    removal
}

#[test]
fn a_restart_finds_everything_as_it_was() {
    require_netns!();
    in_namespace(|| {
        let mut node = with_examples();
        assert!(node.synced().added > 100);
        let report = node.resync();
        assert!(report.full && report.is_empty(), "{report:?}");
        // Another process, whose slots differ from those of a fresh plan.
        node.change(endpoints(
            "default/web",
            "10.244.0.99:8080@ 10.244.1.10:8080",
        ));
        let mut restarted = with_examples();
        restarted.tell(endpoints(
            "default/web",
            "10.244.0.99:8080@ 10.244.1.10:8080",
        ));
        let report = restarted.resync();
        assert!(report.is_empty(), "{report:?}");
    });
}

#[test]
fn every_nft_lists_the_rules_and_loads_its_listing_again() {
    require_netns!();
    let programs = programs();
    in_namespace(|| {
        let each = |it| programs.iter().map(move |program| (program, it));
        let both = [Counting::Nothing, Counting::Connections];
        for (program, counting) in both.into_iter().flat_map(each) {
            let mut node = with_counting(counting);
            node.synced();
            let listing = nft_of(program, &["list", "ruleset"]);
            for shown in [
                "goto cluster-ip-3",
                "map @endpoints",
                "dnat",
                "update @sticky/",
            ] {
                assert!(
                    listing.contains(shown),
                    "{program:?} shows no {shown}:\n{listing}"
                );
            }
            let is_counting = listing.lines().any(|it| it.trim() == "counter");
            assert_eq!(is_counting, counting == Counting::Connections);
            nft(&["flush", "ruleset"]);
            load(program, &listing);
            let again = nft_of(program, &["list", "ruleset"]);
            assert_eq!(facts(&listing), facts(&again), "{program:?}");
            nft(&["flush", "ruleset"]);
        }
    });
}

#[test]
fn rendered_text_is_what_netlink_writes() {
    require_netns!();
    let check = |counting| {
        let mut node = with_counting(counting);
        let rules = text::ruleset(&render_plan(node.plan(), counting));
        node.synced();
        let written = nft(&["list", "ruleset"]);
        load(Path::new("nft"), &rules);
        let loaded = nft(&["list", "ruleset"]);
        assert_eq!(facts(&written), facts(&loaded));
        // Loading twice replaces the tables; the tables that nft declared are adopted in one transaction.
        load(Path::new("nft"), &rules);
        assert_eq!(facts(&nft(&["list", "ruleset"])), facts(&loaded));
        node.resync();
        assert_eq!(facts(&nft(&["list", "ruleset"])), facts(&written));
    };
    in_namespace(|| check(Counting::Nothing));
    in_namespace(|| check(Counting::Connections));
}

#[test]
fn another_choice_of_what_to_count_replaces_the_tables() {
    require_netns!();
    in_namespace(|| {
        let listing = || nft(&["list", "ruleset"]);
        let mut plain = with_examples();
        plain.synced();
        let uncounted = facts(&listing());
        assert!(plain.reconciler().backend().counters().unwrap().is_none());

        let mut counting = with_counting(Counting::Connections);
        assert!(counting.synced().replaced > 0);
        assert!(counting.resync().is_empty(), "the choice is what it was");
        let counters = counting.reconciler().backend().counters();
        let mut counters = counters.unwrap().unwrap();
        let reading = counters.read().unwrap();
        let maps: BTreeSet<_> = reading
            .counts
            .iter()
            .map(|it| match it.counter {
                Counter::Slot(map, ..) => map,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(maps.len(), 4, "{maps:?}");
        assert!(reading.is_complete);
        let families: BTreeSet<_> = reading
            .counts
            .iter()
            .map(|it| it.frontend.family())
            .collect();
        assert_eq!(families.len(), 2);
        assert!(reading.counts.iter().all(|it| it.connections == 0));

        let mut plain = with_examples();
        assert!(plain.synced().replaced > 0);
        assert!(plain.resync().is_empty());
        assert_eq!(facts(&listing()), uncounted);
        assert_eq!(counters.read().unwrap().counts, [], "nothing counts");
        nft(&["flush", "ruleset"]);
        assert_eq!(counters.read().unwrap().counts, [], "nothing is there");
    });
}

#[test]
fn whatever_a_stranger_did_is_undone() {
    require_netns!();
    in_namespace(|| {
        let mut node = with_examples();
        node.synced();
        let before = facts(&nft(&["list", "ruleset"]));
        let deeds: [&[&str]; 16] = [
            &["flush ruleset"],
            &["delete table ip6 sluice"],
            &["flush chain ip sluice services"],
            &["insert rule ip sluice services drop"],
            &["add rule ip sluice cluster-ip-3 counter drop"],
            &["add chain ip sluice mine", "add rule ip sluice mine drop"],
            &["add set ip sluice mine { type ipv4_addr; }"],
            &["delete element ip sluice frontends { 10.96.10.1 . tcp . 80 }"],
            &["add element ip sluice cluster-ips { 10.96.77.77 }"],
            &["add element ip sluice service-cidrs { 172.20.0.0/15, 172.30.0.1-172.30.0.6 }"],
            &["flush map ip sluice endpoints"],
            &[
                "add map ip sluice mine { type inet_service : verdict; }",
                "add chain ip sluice strange",
                "add element ip sluice mine { 7 : jump strange }",
            ],
            &[
                "delete chain ip sluice nat-prerouting",
                "add chain ip sluice nat-prerouting { type nat hook prerouting priority -90; }",
            ],
            // The rules of versions that did not count refused packets.
            &[
                "flush chain ip sluice rejected",
                "add rule ip sluice rejected reject",
                "flush map ip sluice no-endpoints",
                "flush chain ip sluice no-local-endpoints",
                "delete chain ip sluice no-local-endpoints",
            ],
            &["add set ip sluice sticky/strange { type ipv4_addr; size 16; }"],
            &[
                "delete element ip sluice frontends { 10.96.10.1 . tcp . 80 }",
                "add element ip sluice frontends { 10.96.10.1 . tcp . 80 : drop }",
            ],
        ];
        for deed in deeds {
            load(Path::new("nft"), &deed.join("\n"));
            let report = node.resync();
            assert!(!report.is_empty(), "{deed:?} was not noticed");
            assert_eq!(facts(&nft(&["list", "ruleset"])), before, "after {deed:?}");
            assert!(node.resync().is_empty(), "after {deed:?}");
        }
    });
}

#[test]
fn tables_of_others_are_left_alone() {
    require_netns!();
    in_namespace(|| {
        let others = "table inet theirs { chain c { type filter hook input priority 5; }; }
                      table ip kube-proxy { map m { type ipv4_addr : verdict; }; }";
        load(Path::new("nft"), others);
        let theirs = nft(&["list", "ruleset"]);
        let mut node = with_examples();
        node.synced();
        node.resync();
        let removed = cleanup().removed;
        assert_eq!(removed, ["table ip sluice", "table ip6 sluice"]);
        assert_eq!(cleanup().removed, [""; 0], "nothing is left");
        assert_eq!(nft(&["list", "ruleset"]), theirs);
    });
}

/// A table of our name that is somebody else's keeps its family from being served, at the start and later, and the other family
/// goes on.
#[test]
fn a_foreign_table_of_our_name_stops_its_family() {
    require_netns!();
    for (family, ours, theirs) in [
        (IpFamily::V4, "ip6", "table ip sluice"),
        (IpFamily::V6, "ip", "table ip6 sluice"),
    ] {
        in_namespace(|| {
            let foreign = format!("{theirs} {{ set s {{ type ipv4_addr; }}; }}");
            load(Path::new("nft"), &foreign);
            let before = nft(&["list", "ruleset"]);
            let mut node = with_examples();
            let check = |node: &mut Proxy<Nftables>| {
                let unserved = node.reconciler().backend().unserved();
                let unserved = unserved.expect("one family is not served");
                assert_eq!(unserved.family, family);
                let mend = format!("nft delete {theirs}");
                assert!(unserved.reason.contains(&mend), "{unserved}");
                let rules = nft(&["list", "chain", ours, "sluice", "services"]);
                assert!(rules.contains("chain services"), "{rules}");
            };
            node.synced();
            check(&mut node);
            assert_eq!(cleanup().errors.len(), 1);
            assert!(nft(&["list", "ruleset"]).contains(before.trim()), "theirs");

            load(Path::new("nft"), &format!("delete {theirs}"));
            let resync = || match node.reconciler_mut().upkeep() {
                Ok(Upkeep::Resync(reason)) => Some(reason),
                _ => None,
            };
            let reason = eventually(Duration::from_secs(60), resync).expect("it is tried again");
            assert!(reason.contains("can be served now"), "{reason}");
            node.resync();
            assert_eq!(node.reconciler().backend().unserved(), None);
            assert!(node.resync().is_empty());

            load(Path::new("nft"), &format!("delete {theirs}\n{foreign}"));
            node.resync();
            check(&mut node);
        });
    }
}

/// Tables of our name that are others', in both families.
#[test]
fn foreign_tables_of_our_name_stop_us() {
    require_netns!();
    in_namespace(|| {
        let foreign = ["ip", "ip6"].map(|it| format!("table {it} sluice {{ chain c {{ }}; }}"));
        load(Path::new("nft"), &foreign.join("\n"));
        let before = nft(&["list", "ruleset"]);
        let mut node = with_examples();
        let error = node.try_sync().unwrap_err();
        assert!(
            error.to_string().contains("nft delete table ip6 sluice"),
            "{error}"
        );
        assert_eq!(nft(&["list", "ruleset"]), before, "nothing was changed");
    });
}

/// Another program adds an element that we are about to add with another value: the kernel refuses ours and names it.
/// The next sync reads the kernel and repairs it.
#[test]
fn a_refused_element_fails_the_sync_and_is_named() {
    require_netns!();
    in_namespace(|| {
        let mut node = with_examples();
        node.synced();
        let stranger = "add element ip sluice frontends { 10.96.50.1 . tcp . 80 : drop }";
        load(Path::new("nft"), stranger);
        let mut events = vec![service("default/first 10.96.50.1 :80")];
        events.extend(endpoints("default/first", "10.244.0.5:80@"));
        let error = node.try_change(events).unwrap_err().to_string();
        assert!(error.contains("10.96.50.1 . tcp . 80"), "{error}");
        assert!(node.synced().full);
        let listing = nft(&["list", "map", "ip", "sluice", "frontends"]);
        assert!(
            listing.contains("10.96.50.1 . tcp . 80 comment \"default/first\" : goto"),
            "{listing}"
        );
    });
}

#[test]
fn a_service_comes_and_goes_without_a_trace() {
    require_netns!();
    in_namespace(|| {
        let mut node = with_examples();
        node.synced();
        let before = facts(&nft(&["list", "ruleset"]));
        let mut events = vec![service("default/new 10.96.60.1 :80/tcp affinity=60")];
        events.extend(endpoints(
            "default/new",
            "10.244.0.5:80@ 10.244.0.6:80@ 10.244.0.7:80@",
        ));
        assert!(!node.change(events).is_empty());
        assert_ne!(facts(&nft(&["list", "ruleset"])), before);
        let name = NamespacedName::new("default", "new");
        let gone = node.change(vec![Event::Service(Change::Delete(name))]);
        assert!(!gone.is_empty());
        assert_eq!(facts(&nft(&["list", "ruleset"])), before);
    });
}

fn members(range: std::ops::Range<u32>) -> String {
    let members = range.map(|it| format!("10.244.{}.{}:80", 1 + it / 250, 1 + it % 250));
    members.collect::<Vec<_>>().join(" ")
}

/// The numbers of added, replaced and deleted objects.
fn written(report: &sluice_reconcile::Report) -> (usize, usize, usize) {
    (report.added, report.replaced, report.deleted)
}

#[test]
fn a_large_pool_with_affinity_is_in_blocks() {
    require_netns!();
    let sticky = |it| {
        let mut events = vec![service("default/web 10.96.60.1 http:80/tcp affinity=60")];
        events.extend(endpoints("default/web:http", &members(it)));
        events
    };
    in_namespace(|| {
        let mut node = with_examples();
        node.tell(sticky(0..300));
        node.synced();
        let listing = nft(&["list", "ruleset"]);
        for shown in [
            "jump affinity/default/web/tcp/http/known-15",
            "goto affinity/default/web/tcp/http/random-15",
            "numgen random mod 300 < ",
        ] {
            assert!(listing.contains(shown), "no {shown}:\n{listing}");
        }
        for program in programs() {
            let listing = nft_of(&program, &["list", "ruleset"]);
            nft(&["flush", "ruleset"]);
            load(&program, &listing);
            let again = nft_of(&program, &["list", "ruleset"]);
            assert!(facts(&listing) == facts(&again), "{program:?}:\n{again}");
        }
        node.resync();
        assert!(node.resync().is_empty());

        // One endpoint replaces another: both chains of its block change.
        let report = node.change(sticky(1..301));
        assert_eq!(written(&report), (0, 2, 0), "{report:?}");
        node.change(sticky(2..300));

        // The labels differ from those of a fresh plan.
        let mut restarted = with_examples();
        restarted.tell(sticky(2..300));
        let report = restarted.synced();
        assert!(report.full && report.is_empty(), "{report:?}");
        // A label is never used twice, also not after a restart.
        let first = nft(&["list", "ruleset"]);
        restarted.change(sticky(2..301));
        let added = nft(&["list", "ruleset"]);
        let is_new = |it: &&str| it.contains("dnat to 10.244.2.51:80") && it.contains("@sticky");
        let new = added.lines().find(is_new).unwrap();
        let label = new.split("offset ").nth(1).unwrap();
        let label = label.split(' ').next().unwrap();
        assert!(!first.contains(&format!("offset {label} ")), "{new}");
    });
}

#[test]
fn a_list_of_sources_is_shared_by_content() {
    require_netns!();
    let balancer = |name: &str, addr: &str, ranges: &str| {
        let service = service(&format!(
            "default/{name} 10.96.60.{addr} :80/tcp :443/tcp lb=192.0.2.{addr} ranges={ranges}"
        ));
        let mut events = vec![service];
        events.extend(endpoints(&format!("default/{name}"), "10.244.0.5:80"));
        events
    };
    let lists = || {
        let listing = nft(&["list", "sets", "ip"]);
        listing.matches("set sources/").count()
    };
    in_namespace(|| {
        let mut node = with_examples();
        node.synced();
        let before = lists();
        let first = "10.0.0.0/8,192.168.0.0/25,192.168.0.128/26";
        node.change(balancer("one", "71", first));
        node.change(balancer(
            "two",
            "72",
            "192.168.0.128/26,10.0.0.0/8,192.168.0.0/25",
        ));
        assert_eq!(lists(), before + 1);
        node.change(balancer("three", "73", "10.0.0.0/8"));
        assert_eq!(lists(), before + 2);
        assert!(node.resync().is_empty());

        let restricted = nft(&["list", "map", "ip", "sluice", "restricted-frontends"]);
        let element = restricted
            .lines()
            .find(|it| it.contains("192.0.2.71 . tcp . 443"));
        let (_, set) = element.unwrap().split_once("goto ").unwrap();
        let set = set.trim_end_matches([',', ' ', '}']);
        let listed = || nft(&["list", "set", "ip", "sluice", set]);
        let expected = listed();
        for change in [
            format!("add element ip sluice {set} {{ 172.16.0.1-172.16.0.77 }}"),
            format!("add element ip sluice {set} {{ 8.8.8.0/24 }}"),
            format!("delete element ip sluice {set} {{ 10.0.0.0/8 }}"),
            format!("flush set ip sluice {set}"),
        ] {
            load(Path::new("nft"), &change);
            assert_ne!(listed(), expected, "{change}");
            let report = node.resync();
            assert_eq!(written(&report), (0, 1, 0), "{change}");
            assert_eq!(listed(), expected, "{change}");
        }

        for name in ["one", "three"] {
            let name = NamespacedName::new("default", name);
            node.change(vec![Event::Service(Change::Delete(name))]);
        }
        assert_eq!(lists(), before + 1);
        assert_eq!(listed(), expected);
    });
}

/// More elements than fit one part of a fresh ruleset; a part that is sent twice does no harm.
#[test]
fn a_large_ruleset_is_written_in_parts() {
    require_netns!();
    in_namespace(|| {
        let mut node = with_examples();
        let mut events = Vec::new();
        for index in 0..2000 {
            let (high, low) = (100 + index / 250, 1 + index % 250);
            events.push(service(&format!("default/s{index} 10.96.{high}.{low} :80")));
            let members: Vec<String> = (1..=10)
                .map(|it| format!("10.244.{}.{it}:80", 10 + index % 200))
                .collect();
            events.extend(endpoints(&format!("default/s{index}"), &members.join(" ")));
        }
        node.tell(events);
        let report = node.synced();
        assert!(report.added > 22_000, "{report:?}");
        let again = node.resync();
        assert!(again.is_empty(), "{again:?}");
        let rules = nft(&["list", "chain", "ip", "sluice", "services"]);
        assert_eq!(rules.matches("vmap @frontends").count(), 1, "{rules}");
        // Flushed and written anew: again in parts.
        nft(&["flush", "ruleset"]);
        assert_eq!(node.resync().added, report.added);
        assert!(node.resync().is_empty());
    });
}

#[test]
fn a_look_is_saved_only_while_nobody_changes_anything() {
    require_netns!();
    in_namespace(|| {
        let mut node = with_examples();
        node.synced();
        assert!(node.reconciler_mut().is_undisturbed());
        node.change(endpoints("default/web", "10.244.0.99:8080@"));
        assert!(node.reconciler_mut().is_undisturbed(), "our own change");
        nft(&["add table ip theirs"]);
        assert!(!node.reconciler_mut().is_undisturbed());
        node.resync();
        assert!(node.reconciler_mut().is_undisturbed());
    });
}

/// Names as long as Kubernetes permits, with session affinity, which makes the longest comments.
#[test]
fn the_longest_names_read_back_as_they_were_written() {
    require_netns!();
    in_namespace(|| {
        let mut node = with_examples();
        let name = format!("{}/{}", "n".repeat(63), "s".repeat(63));
        let port = "p".repeat(63);
        let mut events = Vec::new();
        events.push(service(&format!("{name} 10.96.70.1 {port}:80 affinity=60")));
        let pod = "d".repeat(250);
        events.extend(endpoints(
            &format!("{name}:{port}"),
            &format!("10.244.0.5:80@*{pod}"),
        ));
        node.change(events);
        let report = node.resync();
        assert!(report.is_empty(), "{report:?}");
    });
}
