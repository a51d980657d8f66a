//! Outcomes of probes through nftables rules in a node.

use std::{net::SocketAddr, time::Duration};

use sluice_lab::{Attach, Cluster, Errno, Outcome, Probe, probe_many, require_netns};

use crate::common::{BOTH, PORT, assert_answers, nft, serve};

const SERVICE_V4: ([u8; 4], u16) = ([10, 96, 0, 10], 80);
const SERVICE_V6: ([u16; 8], u16) = ([0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0xa], 80);

fn cluster(attach: Attach) -> Cluster {
    let plan = Cluster::builder()
        .attach(attach)
        .node("node-a")
        .node("node-b");
    plan.pod("web-1", "node-a")
        .pod("web-2", "node-b")
        .client("client")
        .build()
        .unwrap()
}

#[test]
fn dropped_rejected_and_refused_have_different_outcomes() {
    require_netns!();
    let cluster = cluster(Attach::Routed);
    let (client, pod) = (cluster.client("client"), cluster.pod("web-1"));
    let _servers = serve(pod.netns(), "web-1");
    nft(
        cluster.node("node-a").netns(),
        "table inet lab { chain forward { type filter hook forward priority 0;
            meta l4proto { tcp, udp } th dport 1001 drop
            meta l4proto { tcp, udp } th dport 1002 reject
            meta l4proto { tcp, udp } th dport 1003 reject with icmpx type host-unreachable
        }
        }",
    );
    for protocol in BOTH {
        for ip in [pod.ipv4().into(), pod.ipv6().into()] {
            let probe = |port| Probe::new(SocketAddr::new(ip, port), protocol).from(client.netns());
            let dropped =
                Probe::new(SocketAddr::new(ip, 1001), protocol).timeout(Duration::from_millis(50));
            assert_eq!(
                dropped.from(client.netns()),
                Outcome::TimedOut,
                "{protocol:?} {ip}"
            );
            assert_eq!(probe(1002), Outcome::Refused, "{protocol:?} {ip}");
            assert_eq!(
                probe(1003),
                Outcome::Unreachable(Errno::EHOSTUNREACH),
                "{protocol:?} {ip}"
            );
            assert_eq!(probe(1004), Outcome::Refused, "{protocol:?} {ip}");
            assert_eq!(probe(PORT).name(), Some("web-1"), "{protocol:?} {ip}");
        }
    }
}

/// Balances a service over the one pod `web-1` on its node, and masquerades what `web-1` sends itself.
fn hairpin(cluster: &Cluster) {
    let (v4, v6) = (cluster.pod("web-1").ipv4(), cluster.pod("web-1").ipv6());
    nft(
        cluster.node("node-a").netns(),
        &format!(
            "table inet lab {{
                chain nat {{ type nat hook prerouting priority dstnat;
                    ip daddr 10.96.0.10 meta l4proto {{ tcp, udp }} th dport 80 dnat ip to {v4}:{PORT}
                    ip6 daddr fd00:10:96::a meta l4proto {{ tcp, udp }} th dport 80 dnat ip6 to [{v6}]:{PORT}
                }}
                chain post {{ type nat hook postrouting priority srcnat;
                    ip saddr {v4} ip daddr {v4} masquerade
                    ip6 saddr {v6} ip6 daddr {v6} masquerade
                }}
            }}"
        ),
    );
}

#[test]
fn a_routed_pod_reaches_itself_through_a_service() {
    require_netns!();
    let cluster = cluster(Attach::Routed);
    let (node, pod) = (cluster.node("node-a"), cluster.pod("web-1"));
    let _servers = serve(pod.netns(), "web-1");
    hairpin(&cluster);
    assert_answers(pod.netns(), SERVICE_V4.into(), "web-1", node.ipv4());
    assert_answers(pod.netns(), SERVICE_V6.into(), "web-1", node.ipv6());
}

#[test]
fn a_bridged_pod_reaches_itself_through_a_service() {
    require_netns!();
    let cluster = cluster(Attach::Bridged);
    let pod = cluster.pod("web-1");
    let _servers = serve(pod.netns(), "web-1");
    hairpin(&cluster);
    // The packet leaves through cni0, so it carries the address of cni0.
    assert_answers(
        pod.netns(),
        SERVICE_V4.into(),
        "web-1",
        std::net::Ipv4Addr::new(10, 244, 0, 1),
    );
    let gateway_v6: std::net::Ipv6Addr = "fd00:10:244::1".parse().unwrap();
    assert_answers(pod.netns(), SERVICE_V6.into(), "web-1", gateway_v6);
}

#[test]
fn bridged_packets_between_pods_of_a_node_pass_its_rules() {
    require_netns!();
    let mut cluster = cluster(Attach::Bridged);
    cluster.add_pod("web-3", "node-a").unwrap();
    let (pod, other) = (cluster.pod("web-1"), cluster.pod("web-3"));
    let _servers = serve(pod.netns(), "web-1");
    assert_answers(
        other.netns(),
        (pod.ipv4(), PORT).into(),
        "web-1",
        other.ipv4(),
    );
    hairpin(&cluster);
    // The reply goes from pod to pod over the bridge, where only bridge-nf-call sees it.
    assert_answers(other.netns(), SERVICE_V4.into(), "web-1", other.ipv4());
    assert_answers(other.netns(), SERVICE_V6.into(), "web-1", other.ipv6());
}

#[test]
fn clients_and_nodes_reach_services_through_the_chosen_node() {
    require_netns!();
    let cluster = cluster(Attach::Routed);
    let (client, a, b) = (
        cluster.client("client"),
        cluster.node("node-a"),
        cluster.node("node-b"),
    );
    let _one = serve(cluster.pod("web-1").netns(), "web-1");
    let _two = serve(cluster.pod("web-2").netns(), "web-2");
    for (node, pod) in [(a, "web-1"), (b, "web-2")] {
        let ip = cluster.pod(pod).ipv4();
        nft(
            node.netns(),
            &format!(
                "table ip lab {{
                    chain service {{ meta l4proto {{ tcp, udp }} th dport 80 dnat ip to {ip}:{PORT}; }}
                    chain pre {{ type nat hook prerouting priority dstnat; ip daddr 10.96.0.10 jump service; }}
                    chain out {{ type nat hook output priority -100; ip daddr 10.96.0.10 jump service; }}
                }}"
            ),
        );
    }
    assert_answers(client.netns(), SERVICE_V4.into(), "web-1", client.ipv4());
    client
        .route_via("10.96.0.0/16".parse().unwrap(), b)
        .unwrap();
    assert_answers(client.netns(), SERVICE_V4.into(), "web-2", client.ipv4());
    assert_answers(b.netns(), SERVICE_V4.into(), "web-2", b.ipv4());
}

#[test]
fn a_spread_counts_who_answered() {
    require_netns!();
    let cluster = cluster(Attach::Routed);
    let (one, two) = (cluster.pod("web-1"), cluster.pod("web-2"));
    let _servers = [serve(one.netns(), "web-1"), serve(two.netns(), "web-2")];
    nft(
        cluster.node("node-a").netns(),
        &format!(
            "table ip lab {{ chain pre {{ type nat hook prerouting priority dstnat;
                ip daddr 10.96.0.10 meta l4proto {{ tcp, udp }} dnat ip to \
                    numgen inc mod 2 map {{ 0 : {} . {PORT}, 1 : {} . {PORT} }}
            }}
            chain post {{ type nat hook postrouting priority srcnat; ct status dnat masquerade; }}
            }}",
            one.ipv4(),
            two.ipv4()
        ),
    );
    for protocol in BOTH {
        let client = cluster.client("client").netns();
        let spread = probe_many(client, Probe::new(SERVICE_V4.into(), protocol), 40);
        assert_eq!(
            (spread.of("web-1"), spread.of("web-2"), spread.failures()),
            (20, 20, 0),
            "{spread}"
        );
        assert!(
            spread.to_string().starts_with("web-1  ████████████  50%\n"),
            "{spread}"
        );
    }
}
