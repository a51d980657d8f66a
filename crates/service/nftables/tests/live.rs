//! `sluice explain --live`: what the kernel does with a packet, and where that differs from the plan.

use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluice_lab::{Netns, require_netns};
use sluice_nftables::Nftables;
use sluice_plan::settings::Settings;
use sluice_plan::testing::{
    arbitrary_events, arbitrary_packet, arbitrary_settings, endpoints, host, node, service,
};
use sluice_plane::{Live, Proxy};
use sluice_scenarios::{Drive as _, live};

fn in_namespace(test: impl FnOnce() + Send) {
    let netns = Netns::new("live").unwrap();
    netns.run(test);
}

fn nft(arguments: &[&str]) {
    let output = Command::new("nft").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nft {arguments:?}: {error}");
}

/// For any Services, kernel and plan agree after a sync.
#[test]
fn the_kernel_does_what_the_plan_says() {
    require_netns!();
    let mut runner = TestRunner::new(Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let packets = prop::collection::vec(arbitrary_packet(), 1..40);
    let cases = (arbitrary_settings(), arbitrary_events(), packets);
    in_namespace(|| {
        let host = host();
        live::give_addresses(&host);
        let result = runner.run(&cases, |(settings, events, packets)| {
            let mut proxy = Proxy::new(settings, Nftables::connect().unwrap());
            proxy.change(events);
            for packet in &packets {
                live::assert_agrees::<Nftables>(proxy.planner(), packet, &host);
            }
            Ok(())
        });
        result.unwrap();
    });
}

/// node-a with one Service of two endpoints, in the calling thread's namespace.
fn web() -> Proxy<Nftables> {
    let plane = Nftables::connect().unwrap();
    let mut proxy = Proxy::new(Settings::for_node("node-a"), plane);
    let mut events = vec![
        node("node-a 192.168.0.1"),
        service("default/web NodePort 10.96.0.10 http:80@30080"),
        service("default/empty 10.96.0.11 :80"),
    ];
    events.extend(endpoints(
        "default/web:http",
        "10.244.0.7:8080@*web-1 10.244.1.9:8080*web-2",
    ));
    proxy.change(events);
    proxy
}

fn ask(proxy: &Proxy<Nftables>, to: &str) -> Live {
    live::ask::<Nftables>(proxy.planner(), "10.244.0.5", to).1
}

#[test]
fn the_element_the_chain_and_the_endpoints_are_named() {
    require_netns!();
    in_namespace(|| {
        let proxy = web();
        let live = ask(&proxy, "10.96.0.10:80").to_string();
        for line in [
            "element of map ip sluice frontends  10.96.0.10 . tcp . 80 : goto cluster-ip-2 (default/web:http)",
            "element of map ip sluice endpoints  10.96.0.10 . tcp . 80 . 0 : 10.244.0.7 . 8080 (web-1)",
            "10.96.0.10 . tcp . 80 . 1 : 10.244.1.9 . 8080 (web-2)",
            "differs   nothing",
        ] {
            assert!(live.contains(line), "{line}\n{live}");
        }
        let empty = ask(&proxy, "10.96.0.11:80").to_string();
        for line in [
            "10.96.0.11 . tcp . 80 : goto rejected (default/empty)",
            "rule of chain ip sluice rejected       reject",
            "  0 packets",
        ] {
            assert!(empty.contains(line), "{line}\n{empty}");
        }
    });
}

#[test]
fn what_somebody_changed_is_named() {
    require_netns!();
    in_namespace(|| {
        let check = |command: &str, expected: &[&str]| {
            nft(&["flush", "ruleset"]);
            let proxy = web();
            nft(&[command]);
            let live = ask(&proxy, "10.96.0.10:80");
            assert_eq!(live.differences, expected, "{command}");
        };
        check(
            "delete element ip sluice frontends { 10.96.0.10 . tcp . 80 }",
            &[
                "by the plan this node sends the packet to an endpoint, but the kernel rejects the \
               packet: map ip sluice frontends has no element 10.96.0.10 . tcp . 80",
            ],
        );
        check(
            "delete element ip sluice endpoints { 10.96.0.10 . tcp . 80 . 1 }",
            &[
                "map ip sluice endpoints has no element 10.96.0.10 . tcp . 80 . 1",
                "the kernel sends no packet to 10.244.1.9:8080: the plan does",
                "not every connection gets an endpoint: by chance the kernel leaves the packet alone",
            ],
        );
        check(
            "delete element ip sluice endpoints { 10.96.0.10 . tcp . 80 . 1 }; \
             add element ip sluice endpoints { 10.96.0.10 . tcp . 80 . 1 : 10.244.9.9 . 8080 }",
            &[
                "the kernel sends packets to 10.244.9.9:8080: not so the plan",
                "the kernel sends no packet to 10.244.1.9:8080: the plan does",
            ],
        );
        check(
            "flush chain ip sluice services",
            &[
                "by the plan this node sends the packet to an endpoint, but the kernel rejects the \
               packet",
            ],
        );
        check(
            "delete table ip sluice",
            &[
                "table ip sluice is not there: somebody deleted it, or no agent has written it",
                "by the plan this node sends the packet to an endpoint, but the kernel leaves the \
                 packet alone",
            ],
        );
    });
}

/// The rules of a kube-proxy in its nftables mode, as it writes them for the Service.
const KUBE_PROXY: &str = "
table ip kube-proxy {
  set cluster-ips { type ipv4_addr; elements = { 10.96.0.10, 10.96.0.11 } }
  map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
  map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }
  map firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
  chain reject-chain { reject; }
  chain mark-for-masquerade { meta mark set meta mark | 0x4000; }
  chain endpoint-a { ip saddr 10.244.0.7 jump mark-for-masquerade; meta l4proto tcp dnat to 10.244.0.7:8080; }
  chain endpoint-b { ip saddr 10.244.1.9 jump mark-for-masquerade; meta l4proto tcp dnat to 10.244.1.9:8080; }
  chain service-web {
    ip daddr 10.96.0.10 tcp dport 80 ip saddr != 10.244.0.0/16 jump mark-for-masquerade
    numgen random mod 2 vmap { 0 : goto endpoint-a, 1 : goto endpoint-b }
  }
  chain firewall-web { ip saddr != { 10.0.0.0/8 } drop; }
  chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
  chain service-endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
  chain firewall-check { ip daddr . meta l4proto . th dport vmap @firewall-ips; }
  chain cluster-ips-check { ip daddr @cluster-ips reject; }
  chain filter-prerouting-pre-dnat { type filter hook prerouting priority dstnat - 10; ct state new jump firewall-check; }
  chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
  chain filter-forward { type filter hook forward priority 0; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }
}
add element ip kube-proxy service-ips { 10.96.0.10 . tcp . 80 : goto service-web }
add element ip kube-proxy firewall-ips { 10.96.0.10 . tcp . 80 : goto firewall-web }
add element ip kube-proxy no-endpoint-services { 10.96.0.11 . tcp . 80 : goto reject-chain }
";

#[test]
fn a_kube_proxy_can_be_asked() {
    require_netns!();
    in_namespace(|| {
        let proxy = web();
        nft(&["delete", "table", "ip", "sluice"]);
        nft(&[KUBE_PROXY]);
        let balance = ask(&proxy, "10.96.0.10:80");
        assert_eq!(balance.differences, [""; 0], "{balance}");
        let text = balance.to_string();
        for line in [
            "10.96.0.10 . tcp . 80 : goto service-web",
            "rule of chain ip kube-proxy endpoint-b",
            "dnat to 10.244.1.9:8080",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let reject = ask(&proxy, "10.96.0.11:80");
        assert_eq!(reject.differences, [""; 0], "{reject}");
        let undefined = ask(&proxy, "10.96.0.11:81");
        assert_eq!(undefined.differences, [""; 0], "{undefined}");
        // Its source ranges refuse a client that our table admits.
        let stranger = live::ask::<Nftables>(proxy.planner(), "192.0.2.1", "10.96.0.10:80").1;
        let differs = "by the plan this node sends the packet to an endpoint, but the kernel drops \
                       the packet";
        assert_eq!(stranger.differences, [differs]);
    });
}
