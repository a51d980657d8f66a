//! What the kernel and the programs make of the objects: read back, tampered with, adopted, for both
//! variants of iptables.

mod live;

use std::net::IpAddr;
use std::time::Duration;

use crate::common::{
    Node, facts, in_namespace, iptables, make_accounts, programs, restore, save, with_examples,
    with_programs,
};
use sluice_iptables::{Accounting, Conntrack, Iptables, render_plan, text};
use sluice_lab::{eventually, require_netns};
use sluice_model::{Change, LocalAddresses, NamespacedName};
use sluice_plan::Event;
use sluice_plan::settings::{NodePortAddresses, Settings};
use sluice_plan::testing::{endpoints, service};
use sluice_plane::{DataPlane as _, Proxy};
use sluice_reconcile::Upkeep;
use sluice_scenarios::{Drive as _, golden};
use sluice_xtables::programs::{Lock, Variant};

for_each_variant! {
    a_restart_finds_everything_as_it_was
    rendered_text_is_what_a_sync_writes
    whatever_a_stranger_did_is_undone
    rules_of_others_are_left_alone
    a_kubelet_keeps_its_rule
    a_node_of_kube_proxy_is_adopted
    a_node_of_a_kube_proxy_without_nfacct_is_adopted
    counters_survive_a_partial_sync
    a_chain_that_somebody_needs_stops_nothing
    a_service_comes_and_goes_without_a_trace
    the_longest_names_read_back_as_they_were_written
    a_changed_node_changes_what_it_must
    a_changed_address_writes_what_names_it
    rules_are_counted_as_they_come_and_go
    a_large_cluster_comes_and_goes
    a_flush_is_noticed_within_a_period
}

fn a_restart_finds_everything_as_it_was(variant: Variant) {
    let mut node = with_examples(variant);
    assert!(node.synced().added > 100);
    let report = node.resync();
    assert!(report.full && report.is_empty(), "{report:?}");
    node.change(endpoints(
        "default/web",
        "10.244.0.99:8080@ 10.244.1.10:8080",
    ));
    let mut restarted = with_examples(variant);
    restarted.tell(endpoints(
        "default/web",
        "10.244.0.99:8080@ 10.244.1.10:8080",
    ));
    let report = restarted.resync();
    assert!(report.is_empty(), "{report:?}");
}

fn rendered_text_is_what_a_sync_writes(variant: Variant) {
    let mut node = with_examples(variant);
    let objects = render_plan(node.plan(), Conntrack::Strict, Accounting::On);
    node.synced();
    let written = facts(variant);
    in_namespace(|| {
        make_accounts();
        for (family, script) in text::script(&objects) {
            restore(variant, family, &script);
        }
        assert_eq!(facts(variant), written);
        assert!(with_examples(variant).resync().is_empty());
    });
}

fn whatever_a_stranger_did_is_undone(variant: Variant) {
    let mut node = with_examples(variant);
    node.synced();
    let before = facts(variant);
    let deeds: [&[&str]; 16] = [
        &["-t nat -F"],
        &["-t nat -F", "-t nat -X", "-F", "-X", "-t mangle -X"],
        &["-t nat -F KUBE-SERVICES"],
        &["-t nat -I KUBE-SERVICES -j RETURN"],
        &["-t nat -A KUBE-SERVICES -s 192.0.2.1 -j ACCEPT"],
        &["-t nat -D KUBE-SERVICES 1"],
        &["-I KUBE-SERVICES -p icmp -m icmp --icmp-type 8 -j ACCEPT"],
        &["-t nat -D PREROUTING 1"],
        &["-t nat -A PREROUTING -m comment --comment x -j KUBE-SERVICES"],
        &["-D FORWARD 2"],
        &["-t nat -N KUBE-SEP-AAAAAAAAAAAAAAAA"],
        &["-t nat -A KUBE-MARK-MASQ -j RETURN"],
        &["-t mangle -X KUBE-PROXY-CANARY"],
        &["-D KUBE-FIREWALL 1"],
        &["-D INPUT -j KUBE-FIREWALL"],
        &["-F SLUICE-CLUSTER-IPS"],
    ];
    for deed in deeds {
        for command in deed {
            iptables(variant, command);
        }
        let report = node.resync();
        assert!(!report.is_empty(), "{deed:?} was not noticed");
        assert_eq!(facts(variant), before, "after {deed:?}");
        let report = node.resync();
        assert!(report.is_empty(), "after {deed:?}: {report:?}");
    }
    // A NodePort rule that is not the last one hides those behind it.
    let rule = "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS";
    iptables(variant, &format!("-t nat -I KUBE-SERVICES {rule}"));
    node.resync();
    let services = chain_of(variant, "-A KUBE-SERVICES");
    assert!(
        services.last().unwrap().ends_with("-j KUBE-NODEPORTS"),
        "{services:#?}"
    );
    assert_eq!(facts(variant), before);
}

/// The lines of `iptables-save` that begin so, in their order.
fn chain_of(variant: Variant, start: &str) -> Vec<String> {
    let text = save(variant, "iptables", &[]);
    let lines = text.lines().filter(|it| it.starts_with(start));
    lines.map(str::to_owned).collect()
}

fn rules_of_others_are_left_alone(variant: Variant) {
    for command in [
        "-N DOCKER",
        "-A DOCKER -s 192.0.2.7 -j ACCEPT",
        "-A FORWARD -j DOCKER",
        "-t nat -N CNI-HOSTPORT-DNAT",
        "-t nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
        "-t nat -N KUBE-MARK-DROP",
        "-t nat -A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000",
        "-t mangle -N KUBE-IPTABLES-HINT",
    ] {
        iptables(variant, command);
    }
    let theirs = facts(variant);
    let mut node = with_examples(variant);
    node.synced();
    assert!(facts(variant).is_superset(&theirs));
    node.resync();
    assert!(facts(variant).is_superset(&theirs));
}

fn a_kubelet_keeps_its_rule(variant: Variant) {
    for command in [
        "-t mangle -N KUBE-KUBELET-CANARY",
        "-N KUBE-FIREWALL",
        "-A KUBE-FIREWALL -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m comment --comment",
    ] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        if command.ends_with("--comment") {
            let rest = [
                "block incoming localnet connections",
                "-m",
                "conntrack",
                "!",
            ];
            arguments.extend(rest);
            arguments.extend(["--ctstate", "RELATED,ESTABLISHED,DNAT", "-j", "DROP"]);
        }
        crate::common::run(variant, "iptables", &arguments);
    }
    let mark = "-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP";
    for command in [
        mark,
        "-I INPUT -j KUBE-FIREWALL",
        "-I OUTPUT -j KUBE-FIREWALL",
    ] {
        iptables(variant, command);
    }
    let theirs = facts(variant);
    let mut node = with_examples(variant);
    node.synced();
    assert_eq!(
        chain_of(variant, "-A KUBE-FIREWALL").len(),
        2,
        "the same rule once"
    );
    assert!(facts(variant).is_superset(&theirs), "{:#?}", facts(variant));
}

/// What a kube-proxy of this node wrote for the same Services: its words in its order, and counters.
fn a_node_of_kube_proxy_is_adopted(variant: Variant) {
    make_accounts();
    let after = adopted(variant, KUBE_PROXY);
    // The jumps of FORWARD and OUTPUT, which get one more behind them, begin anew.
    assert_eq!(counted(&after), counted(KUBE_PROXY) - 5, "{after}");
}

/// An older one, or one that was refused the objects.
fn a_node_of_a_kube_proxy_without_nfacct_is_adopted(variant: Variant) {
    let lines = KUBE_PROXY
        .lines()
        .filter(|it| !it.contains("localhost_nps"));
    let without: String = lines.map(|it| format!("{it}\n")).collect();
    let without = without.replace(" -m nfacct --nfacct-name ct_state_invalid_dropped_pkts", "");
    let after = adopted(variant, &without);
    // So does KUBE-FORWARD.
    assert_eq!(counted(&after), counted(&without) - 5 - 3, "{after}");
    let lines = after.lines().filter(|it| it.contains("-A KUBE-NODEPORTS"));
    let lines: Vec<&str> = lines.collect();
    assert!(
        lines[0].contains("localhost_nps") && lines[1].starts_with("[7:420]"),
        "{after}"
    );
}

/// The rules with their counters after a first sync.
fn adopted(variant: Variant, rules: &str) -> String {
    let mut node = crate::common::node(variant);
    let mut events = vec![service("ns1/svc1 10.20.30.41 p80:80@30080 NodePort")];
    events.extend(endpoints(
        "ns1/svc1:p80",
        "10.180.0.1:80@ 10.180.0.10:80 10.180.0.2:80",
    ));
    node.tell(events);
    restore(variant, sluice_model::IpFamily::V4, rules);
    let before = save(variant, "iptables", &["-c"]);
    assert_eq!(counted(&before), counted(rules));
    node.synced();
    let after = save(variant, "iptables", &["-c"]);
    assert!(node.resync().is_empty());
    after
}

/// How many rules have the counters of [`KUBE_PROXY`].
fn counted(rules: &str) -> usize {
    let lines = rules.lines().filter(|it| it.starts_with("[7:420]"));
    lines.count()
}

const KUBE_PROXY: &str = r#"*mangle
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-PROXY-CANARY - [0:0]
[7:420] -A KUBE-FORWARD -m conntrack --ctstate INVALID -m nfacct --nfacct-name ct_state_invalid_dropped_pkts -j DROP
[7:420] -A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
[7:420] -A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
[7:420] -A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
[7:420] -A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
[7:420] -A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
[7:420] -A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
[7:420] -A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
[7:420] -A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
[7:420] -A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
[7:420] -A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-EXT-XPGD46QRK7WJZT7O - [0:0]
:KUBE-SVC-XPGD46QRK7WJZT7O - [0:0]
:KUBE-SEP-SXIVWICOYRO3J4NJ - [0:0]
:KUBE-SEP-A6IB6ZRNSXM7OKSA - [0:0]
:KUBE-SEP-LXVODXWDISEETFEF - [0:0]
[7:420] -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
[7:420] -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
[7:420] -A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
[7:420] -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
[7:420] -A KUBE-SERVICES -m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 10.20.30.41 --dport 80 -j KUBE-SVC-XPGD46QRK7WJZT7O
[7:420] -A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
[7:420] -A KUBE-NODEPORTS -m comment --comment ns1/svc1:p80 -m tcp -p tcp -d 127.0.0.0/8 --dport 30080 -m nfacct --nfacct-name localhost_nps_accepted_pkts -j KUBE-EXT-XPGD46QRK7WJZT7O
[7:420] -A KUBE-NODEPORTS -m comment --comment ns1/svc1:p80 -m tcp -p tcp --dport 30080 -j KUBE-EXT-XPGD46QRK7WJZT7O
[7:420] -A KUBE-EXT-XPGD46QRK7WJZT7O -m comment --comment "masquerade traffic for ns1/svc1:p80 external destinations" -j KUBE-MARK-MASQ
[7:420] -A KUBE-EXT-XPGD46QRK7WJZT7O -j KUBE-SVC-XPGD46QRK7WJZT7O
[7:420] -A KUBE-SVC-XPGD46QRK7WJZT7O -m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 10.20.30.41 --dport 80 ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
[7:420] -A KUBE-SVC-XPGD46QRK7WJZT7O -m comment --comment "ns1/svc1:p80 -> 10.180.0.10:80" -m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-A6IB6ZRNSXM7OKSA
[7:420] -A KUBE-SVC-XPGD46QRK7WJZT7O -m comment --comment "ns1/svc1:p80 -> 10.180.0.1:80" -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-SXIVWICOYRO3J4NJ
[7:420] -A KUBE-SVC-XPGD46QRK7WJZT7O -m comment --comment "ns1/svc1:p80 -> 10.180.0.2:80" -j KUBE-SEP-LXVODXWDISEETFEF
[7:420] -A KUBE-SEP-SXIVWICOYRO3J4NJ -m comment --comment ns1/svc1:p80 -s 10.180.0.1 -j KUBE-MARK-MASQ
[7:420] -A KUBE-SEP-SXIVWICOYRO3J4NJ -m comment --comment ns1/svc1:p80 -m tcp -p tcp -j DNAT --to-destination 10.180.0.1:80
[7:420] -A KUBE-SEP-A6IB6ZRNSXM7OKSA -m comment --comment ns1/svc1:p80 -s 10.180.0.10 -j KUBE-MARK-MASQ
[7:420] -A KUBE-SEP-A6IB6ZRNSXM7OKSA -m comment --comment ns1/svc1:p80 -m tcp -p tcp -j DNAT --to-destination 10.180.0.10:80
[7:420] -A KUBE-SEP-LXVODXWDISEETFEF -m comment --comment ns1/svc1:p80 -s 10.180.0.2 -j KUBE-MARK-MASQ
[7:420] -A KUBE-SEP-LXVODXWDISEETFEF -m comment --comment ns1/svc1:p80 -m tcp -p tcp -j DNAT --to-destination 10.180.0.2:80
[7:420] -A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
[7:420] -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
[7:420] -A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
COMMIT
"#;

fn counters_survive_a_partial_sync(variant: Variant) {
    let mut node = with_examples(variant);
    node.synced();
    // As if packets had passed.
    let text = save(variant, "iptables", &["-c"]);
    restore(variant, sluice_model::IpFamily::V4, &counting(&text));
    let count = |text: &str| {
        text.lines()
            .filter(|it| it.starts_with("[9:540] -A"))
            .count()
    };
    let before = count(&save(variant, "iptables", &["-c"]));
    assert!(before > 50, "{before}");
    assert!(node.resync().is_empty());
    node.change(endpoints(
        "default/web",
        "10.244.0.99:8080@ 10.244.1.10:8080",
    ));
    let after = save(variant, "iptables", &["-c"]);
    let lost: Vec<&str> = after
        .lines()
        .filter(|it| it.starts_with("[0:0] -A KUBE") || it.starts_with("[0:0] -A SLUICE"))
        .collect();
    assert!(!lost.is_empty());
    for rule in &lost {
        let is_of_web = rule.contains("default/web") && rule.contains("-A KUBE-S");
        assert!(is_of_web && !rule.contains("KUBE-SERVICES"), "{rule}");
    }
}

/// The same rules, each with a count.
fn counting(text: &str) -> String {
    let mut counting = String::new();
    for line in text.lines().filter(|it| !it.starts_with('#')) {
        let line = match (line.strip_prefix(':'), line.split_once("] -A ")) {
            (Some(chain), _) => format!(":{}", chain.split(" [").next().unwrap()) + " [0:0]",
            // What is appended to a chain of the kernel would be there twice.
            (None, Some((_, rule))) if rule.starts_with("KUBE") || rule.starts_with("SLUICE") => {
                format!("[9:540] -A {rule}")
            }
            (None, Some(_)) => continue,
            (None, None) => line.to_owned(),
        };
        counting.push_str(&line);
        counting.push('\n');
    }
    counting
}

/// Rules of somebody lead to chains of Services that go: the chains stay, empty, until the rules are
/// gone.
fn a_chain_that_somebody_needs_stops_nothing(variant: Variant) {
    let mut node = with_examples(variant);
    for (name, address) in [("svc1", "10.96.77.1"), ("svc2", "10.96.77.2")] {
        let mut events = vec![service(&format!("ns1/{name} {address} p80:80"))];
        events.extend(endpoints(&format!("ns1/{name}:p80"), "10.244.0.5:80@"));
        node.tell(events);
    }
    node.synced();
    let gone = |name| {
        let name = NamespacedName::new("ns1", name);
        vec![Event::Service(Change::Delete(name))]
    };
    let chains = || {
        let mut chains = chain_of(variant, ":KUBE-SVC-");
        chains.retain(|it| it.contains("XPGD46QRK7WJZT7O") || it.contains(SVC2));
        chains.len()
    };
    const SVC2: &str = "IP2NFBUX2EWVD722";
    iptables(variant, "-t nat -N THEIRS");
    iptables(variant, "-t nat -A THEIRS -j KUBE-SVC-XPGD46QRK7WJZT7O");
    // The rule is newer than the last listing, so the next one has to see it.
    let result = node.try_change(gone("svc1"));
    assert!(result.is_err(), "{result:?}");
    assert_eq!(node.reconciler().backend().unserved(), None);
    assert!(node.synced().full);
    assert!(node.resync().is_empty(), "left alone from now on");
    let services = save(variant, "iptables", &[]);
    assert!(!services.contains("ns1/svc1"), "{services}");
    node.change(vec![service("default/more 10.96.77.3 :80")]);
    // One that the last listing shows, of a kind that we do not write.
    let limited = "-t nat -A THEIRS -m limit --limit 7/sec -g KUBE-SVC-";
    iptables(variant, &format!("{limited}{SVC2}"));
    node.resync();
    assert!(!node.change(gone("svc2")).full);
    assert!(node.resync().is_empty(), "left alone from now on");
    assert_eq!(chains(), 2);
    iptables(variant, "-t nat -F THEIRS");
    assert_eq!(node.resync().deleted, 2);
    assert_eq!(chains(), 0);
}

fn a_service_comes_and_goes_without_a_trace(variant: Variant) {
    let mut node = with_examples(variant);
    node.synced();
    let before = facts(variant);
    let order = chain_of(variant, "-A");
    let new = "default/new 10.99.60.1 :80/tcp@30999 LoadBalancer lb=203.0.113.77 ranges=10.0.0.0/8 \
               etp=local affinity=60 health=31999";
    let mut events = vec![service(new)];
    events.extend(endpoints(
        "default/new",
        "10.244.0.5:80@ 10.244.0.6:80@ 10.244.0.7:80",
    ));
    assert!(!node.change(events).is_empty());
    assert_ne!(facts(variant), before);
    node.change(endpoints("default/new", "10.244.0.7:80"));
    node.change(endpoints("default/new", "10.244.0.7:80!"));
    assert!(node.resync().is_empty());
    let name = NamespacedName::new("default", "new");
    let gone = node.change(vec![Event::Service(Change::Delete(name))]);
    assert!(!gone.is_empty());
    assert_eq!(facts(variant), before);
    assert_eq!(chain_of(variant, "-A"), order);
}

/// Names as long as Kubernetes permits, with session affinity, which makes the longest comments.
fn the_longest_names_read_back_as_they_were_written(variant: Variant) {
    let mut node = with_examples(variant);
    let name = format!("{}/{}", "n".repeat(63), "s".repeat(63));
    let port = "p".repeat(63);
    let mut events = Vec::new();
    events.push(service(&format!(
        "{name} 10.96.70.1 fd00:10:96::70 {port}:80@30777 LoadBalancer lb=203.0.113.7 \
         ranges=10.0.0.0/8 etp=local affinity=60"
    )));
    let long = "[fd00:1111:2222:3333:4444:5555:6666:7777]:65535@";
    events.extend(endpoints(
        &format!("{name}:{port}"),
        &format!("10.244.0.5:80@ {long}"),
    ));
    node.change(events);
    let report = node.resync();
    assert!(report.is_empty(), "{report:?}");
    let text = save(variant, "ip6tables", &[]);
    assert!(
        text.contains("-> [fd00:1111:2222:3333:4444:5555:6666:7777]:65535"),
        "{text}"
    );
}

fn a_changed_node_changes_what_it_must(variant: Variant) {
    let mut node = with_examples(variant);
    node.synced();
    let before = facts(variant);
    let mut events = vec![sluice_plan::testing::cidr("10.96.0.0/15,fd00:10:96::/112")];
    node.change(std::mem::take(&mut events));
    assert!(node.resync().is_empty());
    let filter = chain_of(variant, "-A SLUICE-CLUSTER-IPS");
    assert!(
        filter.last().unwrap().contains("10.96.0.0/15"),
        "{filter:#?}"
    );
    assert_ne!(facts(variant), before);
}

/// All ports are rendered again for it: what comes out equal must not be written.
fn a_changed_address_writes_what_names_it(variant: Variant) {
    let mut node = with_examples(variant);
    let address = |last: u8| IpAddr::from([203, 0, 113, last]);
    let addresses = |last: u8| {
        vec![Event::LocalAddresses(LocalAddresses {
            all: [address(last)].into(),
            default_route: vec![address(last)],
        })]
    };
    node.tell(vec![service(
        "default/nobody 10.99.60.1 :80@30998 NodePort",
    )]);
    node.tell(addresses(7));
    node.synced();
    // NodePorts answer on whatever the node has.
    let report = node.change(addresses(8));
    assert!(report.is_empty() && !report.full, "{report:?}");

    let within = NodePortAddresses::Within(vec!["203.0.113.0/24".parse().unwrap()]);
    node.configure(Settings {
        node_ports: within,
        ..golden::with_localhost_node_ports()
    });
    node.change(addresses(7));
    let text = save(variant, "iptables", &["-c"]);
    assert!(text.contains("-d 203.0.113.7/32"), "{text}");
    restore(variant, sluice_model::IpFamily::V4, &counting(&text));
    let report = node.change(addresses(8));
    assert!(!report.is_empty() && !report.full, "{report:?}");
    let after = save(variant, "iptables", &["-c"]);
    assert!(!after.contains("-d 203.0.113.7/32"), "{after}");
    // A tail is written as a whole: the rule for loopback stands behind it.
    for line in after.lines().filter(|it| it.starts_with("[0:0] -A KUBE")) {
        let is_of_address = line.contains("-d 203.0.113.8/32");
        assert!(
            is_of_address || line.ends_with("-j KUBE-NODEPORTS"),
            "{line}"
        );
    }
    assert!(after.contains("[9:540] -A KUBE-SVC-"), "{after}");
    assert!(node.resync().is_empty());
}

fn rules_are_counted_as_they_come_and_go(variant: Variant) {
    let mut node = with_examples(variant);
    node.synced();
    assert_eq!(rule_counts(&node), listed(variant));
    let last = |node: &Node| -> usize {
        let counts = node.reconciler().backend().rule_counts().into_iter();
        counts.map(|it| it.last).sum()
    };
    assert_eq!(last(&node), listed(variant).values().sum::<usize>());
    let before = rule_counts(&node);
    // Two rules of each endpoint and one for each that chooses it.
    node.change(vec![service("default/new 10.99.60.1 :80")]);
    let new = "10.244.0.5:80@ 10.244.0.6:80@ 10.244.0.7:80";
    node.change(endpoints("default/new", new));
    assert_eq!(rule_counts(&node), listed(variant));
    node.change(endpoints("default/new", "10.244.0.5:80@ 10.244.0.7:80"));
    assert_eq!(rule_counts(&node), listed(variant));
    assert_eq!(last(&node), 3, "KUBE-SVC-x alone");
    let name = NamespacedName::new("default", "new");
    node.change(vec![Event::Service(Change::Delete(name))]);
    assert_eq!(rule_counts(&node), before);
    iptables(variant, "-t nat -F");
    node.resync();
    assert_eq!(rule_counts(&node), before);
}

type Counts = std::collections::BTreeMap<String, usize>;

/// Rules as the backend counts them.
fn rule_counts(node: &Node) -> Counts {
    let counts = node.reconciler().backend().rule_counts().into_iter();
    let counts = counts.filter(|it| it.total > 0);
    counts
        .map(|it| (format!("{} {}", it.family, it.table), it.total))
        .collect()
}

/// Rules in our chains or to them, in a namespace that is ours alone.
fn listed(variant: Variant) -> Counts {
    let mut counts = Counts::new();
    for fact in facts(variant) {
        let mut words = fact.split(' ');
        let (program, table, what) = (words.next(), words.next().unwrap(), words.next());
        if what == Some("-A") {
            let family = if program == Some("iptables") {
                "IPv4"
            } else {
                "IPv6"
            };
            *counts.entry(format!("{family} {table}")).or_default() += 1;
        }
    }
    counts
}

/// Larger than one step of `iptables-nft-restore`.
fn a_large_cluster_comes_and_goes(variant: Variant) {
    let mut node = crate::common::node(variant);
    node.change(Vec::new());
    let empty = facts(variant);
    let names = || (0..100).map(|it| format!("default/s{it}"));
    let mut events = Vec::new();
    for (number, name) in names().enumerate() {
        events.push(service(&format!(
            "{name} 10.96.1.{number} :80@{}",
            30_000 + number
        )));
        let pool: Vec<_> = (0..10)
            .map(|it| format!("10.244.{number}.{it}:80"))
            .collect();
        events.extend(endpoints(&name, &pool.join(" ")));
    }
    assert!(node.change(events).added > 1_100);
    assert_eq!(
        node.reconciler_mut().is_undisturbed(),
        variant == Variant::Nft
    );
    assert_eq!(rule_counts(&node), listed(variant));
    let report = node.resync();
    assert!(report.is_empty(), "{report:?}");
    let names = names().map(|it| NamespacedName::new("default", it.trim_start_matches("default/")));
    let events = names.map(|it| Event::Service(Change::Delete(it)));
    assert!(node.change(events.collect()).deleted > 1_100);
    assert_eq!(
        node.reconciler_mut().is_undisturbed(),
        variant == Variant::Nft
    );
    assert_eq!(facts(variant), empty);
    assert!(node.resync().is_empty());
}

#[test]
fn a_lock_that_is_held_is_named_and_waited_for() {
    require_netns!();
    in_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lock");
        let lock = Lock {
            file: file.clone(),
            seconds: 1,
        };
        let mut node = with_programs(programs(Variant::Legacy).with_lock(lock));
        let held = std::fs::File::create(&file).unwrap();
        held.lock().unwrap();
        let error = node.try_sync().unwrap_err().to_string();
        let named = format!(
            "the xtables lock {} was not free within 1 s",
            file.display()
        );
        assert!(error.contains(&named), "{error}");
        assert_eq!(node.reconciler().backend().unserved(), None);
        held.unlock().unwrap();
        assert!(node.try_sync().unwrap().added > 100);
    });
}

#[test]
fn a_look_is_saved_only_while_nobody_changes_anything() {
    require_netns!();
    in_namespace(|| {
        let mut node = with_examples(Variant::Nft);
        node.synced();
        assert!(node.reconciler_mut().is_undisturbed());
        node.change(endpoints("default/web", "10.244.0.99:8080@"));
        assert!(node.reconciler_mut().is_undisturbed(), "our own change");
        iptables(Variant::Nft, "-N THEIRS");
        assert!(!node.reconciler_mut().is_undisturbed());
        node.change(endpoints("default/web", "10.244.0.98:8080@"));
        assert!(
            !node.reconciler_mut().is_undisturbed(),
            "theirs is still unseen"
        );
        node.resync();
        assert!(node.reconciler_mut().is_undisturbed());
    });
}

fn a_flush_is_noticed_within_a_period(variant: Variant) {
    let period = Duration::from_secs(30);
    let plane = Iptables::with(programs(variant), Conntrack::Strict).unwrap();
    let mut node = Proxy::new(golden::with_localhost_node_ports(), plane);
    node.tell(golden::events(&golden::folder()));
    node.synced();
    assert_eq!(
        node.reconciler_mut().is_undisturbed(),
        variant == Variant::Nft,
        "a legacy rule may be replaced by another of its size"
    );
    let after = |node: &mut Node| node.reconciler_mut().upkeep().unwrap();
    assert_eq!(after(&mut node), Upkeep::After(period));
    node.change(endpoints("default/web", "10.244.0.99:8080@"));
    assert_eq!(after(&mut node), Upkeep::After(period), "our own change");
    iptables(variant, "-t nat -F KUBE-MARK-MASQ");
    // The last listing took a fiftieth of the time until the next one, at most.
    let noticed = |node: &mut Node| {
        let noticed = eventually(Duration::from_secs(60), || {
            let error = node.reconciler_mut().upkeep().err()?;
            Some(error.to_string())
        });
        noticed.unwrap_or_default()
    };
    let expected = "watch rules: somebody else changed rules";
    assert_eq!(noticed(&mut node), expected);
    assert_eq!(node.synced().replaced, 1);
    assert_eq!(after(&mut node), Upkeep::After(period));
    iptables(variant, "-A INPUT -s 192.0.2.1 -j DROP");
    assert_eq!(noticed(&mut node), expected);
    let report = node.synced();
    assert!(report.full && report.is_empty(), "not ours: {report:?}");
    assert_eq!(after(&mut node), Upkeep::After(period));
}
