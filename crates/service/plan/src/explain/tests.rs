use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::Event;
use crate::settings::{LocalDetector, NodePortAddresses, Settings};
use crate::testing::{
    NODE, arbitrary_events, arbitrary_packet, arbitrary_settings, cidr, endpoints, host, node,
    packet, planner, service, slices,
};

fn here() -> Settings {
    Settings {
        local_detector: LocalDetector::ClusterCidrs(vec!["10.244.0.0/24".parse().unwrap()]),
        ..Settings::for_node(NODE)
    }
}

#[track_caller]
fn check(events: Vec<Event>, text: &str, expected: &str) {
    let mut all = vec![node("node-a 192.168.0.1 zone=east"), cidr("10.96.0.0/16")];
    all.extend(events);
    let found = explain(&planner(here(), all), &packet(text), &host()).to_string();
    let expected: Vec<&str> = expected.trim().lines().map(str::trim_end).collect();
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found, expected, "\n{}", found.join("\n"));
}

/// `web` with the words `about` and these endpoints.
fn web(about: &str, members: &str) -> Vec<Event> {
    let mut events = endpoints("web:http", members);
    events.push(service(&format!("web 10.96.0.10 http:80@30080 {about}")));
    events
}

#[test]
fn a_balance() {
    check(
        web(
            "",
            "10.244.0.5:8080@*web-1 10.244.1.7:8080@node-b*web-2 10.244.1.8:8080@node-b*web-3!",
        ),
        "10.244.0.5 > 10.96.0.10:80 via cni0",
        "
10.244.0.5 → 10.96.0.10:80/tcp via cni0 on node-a
  service   default/web:http (ClusterIP)
  policy    internalTrafficPolicy Cluster: any ready endpoint
  client    a pod of this node (10.244.0.0/24): keeps its address
  endpoints
    10.244.0.5:8080  in   web-1  node-a  masqueraded: it would reach itself
    10.244.1.7:8080  in   web-2  node-b
    10.244.1.8:8080  out  web-3  node-b  not ready
  verdict   balance over 2 endpoints
"
        .trim_start_matches('\n'),
    );
}

#[test]
fn policy_local_and_the_node_itself() {
    let events = || web("NodePort etp=local affinity=600", "10.244.1.7:8080@node-b");
    check(
        events(),
        "192.168.0.1 > 192.168.0.1:30080",
        "192.168.0.1 → 192.168.0.1:30080/tcp on node-a
  service   default/web:http (NodePort)
  policy    externalTrafficPolicy Local, but the node's own connections go to any ready endpoint
  client    this node itself: is masqueraded: the node's own connection
  affinity  a client stays with its endpoint for 600 s
  endpoints
    10.244.1.7:8080  in   -  node-b
  verdict   balance over 1 endpoint",
    );
    check(
        events(),
        "198.51.100.1 > 192.168.0.1:30080 via eth0",
        "198.51.100.1 → 192.168.0.1:30080/tcp via eth0 on node-a
  service   default/web:http (NodePort)
  policy    externalTrafficPolicy Local: only endpoints of this node
  client    neither this node nor one of its pods: keeps its address: policy Local
  affinity  a client stays with its endpoint for 600 s
  endpoints
    10.244.1.7:8080  out  -  node-b  on another node and the policy is Local
  verdict   drop: the policy is Local and no endpoint on this node answers (they are on node-b)",
    );
}

#[test]
fn source_ranges() {
    check(
        web("LoadBalancer lb=203.0.113.1 ranges=198.51.100.0/24", ""),
        "10.244.1.1 > 203.0.113.1:80 via eth0",
        "10.244.1.1 → 203.0.113.1:80/tcp via eth0 on node-a
  service   default/web:http (LoadBalancer)
  policy    externalTrafficPolicy Cluster: any ready endpoint
  client    neither this node nor one of its pods: is masqueraded: external traffic
  ranges    198.51.100.0/24 does not admit the client
  endpoints none
  verdict   drop: the source is outside loadBalancerSourceRanges",
    );
}

#[test]
fn every_reason_against_an_endpoint() {
    let mut events = web(
        "",
        "10.244.1.1:80=east 10.244.1.2:80=west 10.244.1.3:80! 10.244.1.4:80~ 10.244.1.5:80~!",
    );
    events.extend(slices("aaa", "web:http", "10.244.1.1:80=west"));
    check(
        events,
        "10.244.0.9 > 10.96.0.10:80 via cni0",
        "10.244.0.9 → 10.96.0.10:80/tcp via cni0 on node-a
  service   default/web:http (ClusterIP)
  policy    internalTrafficPolicy Cluster: any ready endpoint
  client    a pod of this node (10.244.0.0/24): keeps its address
  topology  only endpoints hinted for this node's zone
  endpoints
    10.244.1.1:80  in   -  elsewhere
    10.244.1.1:80  out  -  elsewhere  duplicate: replaced by default/web-slice-v4-80
    10.244.1.2:80  out  -  elsewhere  hinted for another zone
    10.244.1.3:80  out  -  elsewhere  not ready
    10.244.1.4:80  out  -  elsewhere  terminating, and others are ready
    10.244.1.5:80  out  -  elsewhere  terminating
  verdict   balance over 1 endpoint",
    );
}

#[test]
fn the_last_resort() {
    check(
        web("", "10.244.1.4:80~"),
        "10.244.0.9 > 10.96.0.10:80 via cni0",
        "10.244.0.9 → 10.96.0.10:80/tcp via cni0 on node-a
  service   default/web:http (ClusterIP)
  policy    internalTrafficPolicy Cluster: any ready endpoint
  client    a pod of this node (10.244.0.0/24): keeps its address
  endpoints
    10.244.1.4:80  in   -  elsewhere  terminating but serving: used because nothing is ready
  verdict   balance over 1 endpoint",
    );
}

/// Packets that hit no frontend, with the lines below the first.
#[track_caller]
fn check_none(events: Vec<Event>, to: &str, expected: &str) {
    let text = format!("10.244.0.9 > {to} via cni0");
    let (to, protocol) = to.split_once('/').unwrap_or((to, "tcp"));
    let first = format!("10.244.0.9 → {to}/{protocol} via cni0 on node-a");
    check(
        events,
        &text,
        &format!("{first}\n  service   none\n{expected}"),
    );
}

#[test]
fn near_misses() {
    check_none(
        web("", ""),
        "10.96.0.10:80/udp",
        "  note      Service default/web:http has at this address: 80/tcp
  verdict   reject: the ClusterIP has no such port"
            .replace("default/web:http", "default/web")
            .as_str(),
    );
    check_none(
        web("", ""),
        "10.96.0.11:80",
        "  verdict   drop: no Service has this address of the ServiceCIDR",
    );
    check_none(
        web("", ""),
        "192.168.0.1:30081",
        "  note      Service default/web has at this address: 30080/tcp
  verdict   not a service: no Service has this address and port",
    );
    check_none(
        web("LoadBalancer lb-proxy=203.0.113.1", ""),
        "203.0.113.1:80",
        "  note      Service default/web has the address with ipMode Proxy: the load balancer answers itself
  verdict   not a service: no Service has this address and port",
    );
}

#[test]
fn services_that_are_none_of_ours() {
    for (about, why) in [
        (
            "headless",
            "is headless: clients talk to the endpoints themselves",
        ),
        ("ExternalName", "is an ExternalName: a DNS alias"),
        ("", "has no ClusterIP yet"),
        (
            "proxy-name=x",
            "leaves it to the proxy \"x\" (label service-proxy-name)",
        ),
    ] {
        check_none(
            vec![service(&format!("web :80 ext=192.0.2.1 {about}"))],
            "192.0.2.1:80",
            &format!(
                "  note      Service default/web names the address in spec.externalIPs, but {why}
  verdict   not a service: no Service has this address and port"
            ),
        );
    }
}

#[test]
fn a_service_that_lost_the_frontend() {
    let events = vec![
        service("a 10.96.0.1 :80 ext=192.0.2.1"),
        service("b 10.96.0.2 :80 ext=192.0.2.1"),
    ];
    check(
        events,
        "10.244.0.9 > 192.0.2.1:80 via cni0",
        "10.244.0.9 → 192.0.2.1:80/tcp via cni0 on node-a
  service   default/a (ExternalIP)
  policy    externalTrafficPolicy Cluster: any ready endpoint
  client    a pod of this node (10.244.0.0/24): is masqueraded: external traffic
  endpoints none
  note      Service default/b also asks for 192.0.2.1:80/tcp, which belongs to Service default/a
  verdict   reject: no endpoint anywhere answers (no IPv4 EndpointSlice has the label kubernetes.io/service-name=a)",
    );
}

#[test]
fn a_service_that_names_the_cluster_ip_of_another() {
    let thief = || service("thief created=1 10.96.1.1 :81 ext=10.96.0.1");
    check_none(
        vec![thief(), service("web created=2 10.96.0.1 :80")],
        "10.96.0.1:81",
        "  note      Service default/thief names the address in spec.externalIPs, but it is the \
         ClusterIP of Service default/web
  note      Service default/web has at this address: 80/tcp
  verdict   reject: the ClusterIP has no such port",
    );
    check_none(
        vec![thief(), crate::testing::cidr("10.96.0.0/16")],
        "10.96.0.1:82",
        "  note      Service default/thief has at this address: 81/tcp
  verdict   drop: no Service has this address of the ServiceCIDR",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_explanation_is_that_of_the_lookup(
        settings in arbitrary_settings(),
        events in arbitrary_events(),
        packets in prop::collection::vec(arbitrary_packet(), 1..16),
    ) {
        let planner = planner(settings, events);
        for packet in packets {
            let explanation = explain(&planner, &packet, &host());
            let lookup = planner.plan().lookup(&packet, &host());
            let verdict = match lookup.verdict {
                Some(Verdict::Balance(_)) => Decision::Balance,
                Some(Verdict::Drop) => Decision::Drop,
                Some(Verdict::Reject) => Decision::Reject,
                None => Decision::NotService,
            };
            prop_assert_eq!(explanation.verdict, verdict);
            let found = explanation.service.iter().flat_map(|it| &it.endpoints);
            let included: Vec<_> = found.clone().filter(|it| it.included).collect();
            if let Some(pool) = lookup.pool {
                let pool: BTreeSet<_> = pool.endpoints().iter().map(|it| it.addr).collect();
                prop_assert_eq!(included.len(), pool.len());
                prop_assert_eq!(included.iter().map(|it| it.address).collect::<BTreeSet<_>>(), pool);
                let hit = explanation.service.as_ref().expect("a balance has a port");
                prop_assert_eq!(hit.masquerade, lookup.masquerade);
                for it in &included {
                    let masquerades = lookup.masquerades(&packet, it.address.ip(), &host());
                    prop_assert_eq!(it.masqueraded, masquerades);
                }
            } else {
                prop_assert!(included.is_empty());
            }
            for it in found.filter(|it| !it.included) {
                prop_assert!(!it.reason.is_empty());
            }
        }
    }
}

/// The rules match, and the kernel forwards nothing from an address of the link.
#[test]
fn a_node_port_at_an_address_of_the_link() {
    let events = [
        service("web fd00:10::1 http:80@30080"),
        node("node-a fd00:168::1"),
    ];
    let events = events
        .into_iter()
        .chain(endpoints("web:http", "[fd00:244::5]:8080@node-b"));
    let settings = Settings {
        node_ports: NodePortAddresses::Within(Vec::new()),
        ..here()
    };
    let planner = planner(settings, events);
    let mut host = host();
    host.insert("fe80::1".parse().unwrap());
    let verdict = |to: &str| {
        let packet = packet(&format!("2001:db8::9 > {to} via eth0"));
        explain(&planner, &packet, &host).reason
    };
    assert_eq!(verdict("[fd00:168::1]:30080"), "balance over 1 endpoint");
    let reason = verdict("[fe80::1]:30080");
    assert!(reason.starts_with("balance over 1 endpoint, but the kernel refuses: "));
}
