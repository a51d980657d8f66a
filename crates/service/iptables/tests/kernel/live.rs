//! `sluice explain --live` on the rules of both variants of iptables.

use sluice_iptables::Iptables;
use sluice_plan::testing::{self, endpoints, service};
use sluice_plane::Live;
use sluice_scenarios::{Drive as _, live};
use sluice_xtables::programs::Variant;

use crate::common::{Node, in_namespace, iptables, node};

for_each_variant! {
    a_written_service_is_found_rule_by_rule
    what_somebody_changed_is_named
}

/// node-a with one Service of two endpoints.
fn web(variant: Variant) -> Node {
    live::give_addresses(&["192.168.0.1".parse().unwrap()]);
    let mut node = node(variant);
    let mut events = vec![
        testing::node("node-a 192.168.0.1"),
        service(
            "default/web LoadBalancer 10.96.0.10 http:80@30080 lb=203.0.113.1 ranges=192.0.2.0/24",
        ),
        service("default/empty 10.96.0.11 :80"),
    ];
    let web = "10.244.0.7:8080@*web-1 10.244.1.9:8080*web-2";
    events.extend(endpoints("default/web:http", web));
    node.change(events);
    node
}

fn ask(node: &Node, from: &str, to: &str) -> Live {
    live::ask::<Iptables>(node.planner(), from, to).1
}

fn a_written_service_is_found_rule_by_rule(variant: Variant) {
    let node = web(variant);
    let live = ask(&node, "10.244.0.5", "10.96.0.10:80");
    assert_eq!(live.differences, [""; 0], "{live}");
    let of_services = &live.evidence[0];
    assert_eq!(of_services.what, "rule of chain nat KUBE-SERVICES");
    assert!(of_services.text.contains("-j KUBE-SVC-"), "{live}");
    assert_eq!((of_services.packets, of_services.bytes), (Some(0), Some(0)));
    let text = live.to_string();
    for endpoint in ["10.244.0.7:8080", "10.244.1.9:8080"] {
        let rule = format!("-j DNAT --to-destination {endpoint}");
        assert!(text.contains(&rule), "{rule}\n{text}");
    }
    // Without endpoints, and a client that source ranges do not admit.
    for (from, to, verdict) in [
        ("10.244.0.5", "10.96.0.11:80", "-j REJECT"),
        ("10.244.0.5", "10.96.0.10:81", "-j REJECT"),
        ("198.51.100.7", "203.0.113.1:80", "-j DROP"),
        ("192.0.2.7", "203.0.113.1:80", "-j KUBE-FW-"),
        (
            "node",
            "192.168.0.1:30080",
            "rule of chain nat KUBE-NODEPORTS",
        ),
    ] {
        let live = ask(&node, from, to);
        assert_eq!(live.differences, [""; 0], "{live}");
        assert!(live.to_string().contains(verdict), "{verdict}\n{live}");
    }
}

fn what_somebody_changed_is_named(variant: Variant) {
    let node = web(variant);
    let differences = || ask(&node, "10.244.0.5", "10.96.0.10:80").differences;
    let evidence = ask(&node, "10.244.0.5", "10.96.0.10:80").evidence;
    let of_second = |it: &&sluice_plane::live::Evidence| it.text.ends_with("10.244.1.9:8080");
    let second = evidence.iter().find(of_second).unwrap();
    let chain = second.what.strip_prefix("rule of chain nat ").unwrap();
    // Another endpoint, by hand.
    let dnat = "-p tcp -j DNAT --to-destination 10.244.9.9:8080";
    iptables(variant, &format!("-t nat -R {chain} 2 {dnat}"));
    assert_eq!(
        differences(),
        [
            "the kernel sends packets to 10.244.9.9:8080: not so the plan",
            "the kernel sends no packet to 10.244.1.9:8080: the plan does",
        ]
    );
    iptables(variant, &format!("-t nat -F {chain}"));
    assert_eq!(
        differences(),
        [
            "the kernel sends no packet to 10.244.1.9:8080: the plan does",
            "not every connection gets an endpoint: by chance the kernel leaves the packet alone",
        ]
    );
    iptables(
        variant,
        &format!("-t nat -I {chain} -m ttl --ttl-eq 9 -j RETURN"),
    );
    let foreign = differences().remove(0);
    let rule = "has a rule that neither Sluice nor kube-proxy writes: -m ttl --ttl-eq 9 -j RETURN";
    assert!(foreign.contains(rule), "{foreign}");
    iptables(variant, "-t nat -F PREROUTING");
    let [.., jump, decision] = &differences()[..] else {
        panic!("{:?}", differences())
    };
    assert_eq!(
        jump,
        "no rule of chain nat PREROUTING jumps to KUBE-SERVICES"
    );
    let alone = "by the plan this node sends the packet to an endpoint, but the kernel ";
    assert!(decision.starts_with(alone), "{decision}");
}
