use super::*;
use sluice_xtables::parse::parse;

/// One ClusterIP with two endpoints, one behind a NodePort with one endpoint, one without any, one
/// with a firewall: as kube-proxy lays them out.
const RULES: &str = "
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
-A INPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A FORWARD -j KUBE-FORWARD
-A OUTPUT -m conntrack --ctstate NEW -j KUBE-SERVICES
-A KUBE-SERVICES -m comment --comment \"ns/empty has no endpoints\" -m tcp -p tcp -d 172.30.0.9 --dport 80 -j REJECT
-A KUBE-PROXY-FIREWALL -m tcp -p tcp -d 192.168.0.1 --dport 99 -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -m nfacct --nfacct-name invalid -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A FORWARD -m conntrack ! --ctstate DNAT -d 203.0.113.0/24 -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-SERVICES -m tcp -p tcp -d 172.30.0.1 --dport 80 -j KUBE-SVC-A
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -m udp -p udp -d 127.0.0.0/8 --dport 30000 -m nfacct --nfacct-name local -j KUBE-EXT-B
-A KUBE-NODEPORTS -m udp -p udp -d 192.168.0.0/16 --dport 30000 -j KUBE-EXT-B
-A KUBE-EXT-B -j KUBE-MARK-MASQ
-A KUBE-EXT-B -j KUBE-SEP-B1
-A KUBE-SVC-A -m tcp -p tcp -d 172.30.0.1 --dport 80 ! -s 10.0.0.0/8 -j KUBE-MARK-MASQ
-A KUBE-SVC-A -m recent --name KUBE-SEP-A1 --rcheck --seconds 10 --reap -j KUBE-MARK-DROP
-A KUBE-SVC-A -m statistic --mode random --probability 0.5 -j KUBE-SEP-A1
-A KUBE-SVC-A -j KUBE-SEP-A2
-A KUBE-SEP-A1 -s 10.0.0.1 -j KUBE-MARK-MASQ
-A KUBE-SEP-A1 -m tcp -p tcp -j DNAT --to-destination 10.0.0.1:8080
-A KUBE-SEP-A2 -s 10.0.0.2 -j KUBE-MARK-MASQ
-A KUBE-SEP-A2 -m recent --name KUBE-SEP-A2 --set -m tcp -p tcp -j DNAT --to-destination 10.0.0.2:8080
-A KUBE-SEP-B1 -m udp -p udp -j DNAT --to-destination 192.168.0.1:53
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
COMMIT
";

fn seen(rules: &str, packet: &str) -> Vec<Outcome> {
    seen_with(rules, packet, NO_SETS)
}

/// A packet as `SOURCE DESTINATION PROTOCOL INTERFACE`, `-` for none.
fn seen_with(rules: &str, packet: &str, members: Members<'_>) -> Vec<Outcome> {
    let rules = parse(rules);
    let host = ["192.168.0.1", "127.0.0.1"]
        .map(|it| it.parse().unwrap())
        .into();
    let words: Vec<&str> = packet.split(' ').collect();
    let destination: SocketAddr = words[1].parse().unwrap();
    let packet = Packet {
        source: words[0].parse().unwrap(),
        destination: destination.ip(),
        protocol: words[2].parse().unwrap(),
        port: destination.port(),
        interface: Some(words[3]).filter(|it| *it != "-").map(Into::into),
    };
    let world = World {
        rules: &rules,
        host: &host,
        members,
    };
    outcomes(world, &packet).into_iter().collect()
}

fn to(endpoint: &str, masqueraded: bool) -> Outcome {
    let to = endpoint.parse().unwrap();
    Outcome::Translated { to, masqueraded }
}

#[test]
fn packets_go_where_netfilter_sends_them() {
    use Outcome::{Dropped, Rejected, Untouched};
    let (a1, a2) = ("10.0.0.1:8080", "10.0.0.2:8080");
    for (packet, expected) in [
        (
            "10.0.9.9 172.30.0.1:80 TCP eth0",
            vec![to(a1, false), to(a2, false)],
        ),
        (
            "8.8.8.8 172.30.0.1:80 TCP eth0",
            vec![to(a1, true), to(a2, true)],
        ),
        // The endpoint reaches itself.
        (
            "10.0.0.1 172.30.0.1:80 TCP veth1",
            vec![to(a1, true), to(a2, false)],
        ),
        (
            "192.168.0.1 172.30.0.1:80 TCP -",
            vec![to(a1, true), to(a2, true)],
        ),
        ("10.0.9.9 172.30.0.1:81 TCP eth0", vec![Untouched]),
        ("10.0.9.9 172.30.0.1:80 UDP eth0", vec![Untouched]),
        ("10.0.9.9 172.30.0.9:80 TCP eth0", vec![Rejected]),
        ("192.168.0.1 172.30.0.9:80 TCP -", vec![Rejected]),
        // An endpoint on the node itself: packets to it never pass postrouting.
        (
            "8.8.8.8 192.168.0.1:30000 UDP eth0",
            vec![to("192.168.0.1:53", false)],
        ),
        (
            "192.168.0.1 192.168.0.1:30000 UDP -",
            vec![to("192.168.0.1:53", true)],
        ),
        (
            "127.0.0.1 127.0.0.7:30000 UDP -",
            vec![to("192.168.0.1:53", true)],
        ),
        ("8.8.8.8 192.168.0.1:99 TCP eth0", vec![Dropped]),
        ("192.168.0.1 192.168.0.1:99 TCP -", vec![Dropped]),
        ("8.8.8.8 203.0.113.5:1 TCP eth0", vec![Dropped]),
    ] {
        assert_eq!(seen(RULES, packet), expected, "{packet}");
    }
}

#[test]
fn every_condition_can_fail() {
    for (condition, packet, holds) in [
        ("-i eth+", "1.1.1.1 2.2.2.2:1 TCP eth7", true),
        ("-i eth+", "1.1.1.1 2.2.2.2:1 TCP veth7", false),
        ("! -i eth0", "1.1.1.1 2.2.2.2:1 TCP eth0", false),
        (
            "-m addrtype --src-type LOCAL",
            "192.168.0.1 2.2.2.2:1 TCP eth0",
            true,
        ),
        (
            "-m addrtype ! --src-type LOCAL",
            "192.168.0.1 2.2.2.2:1 TCP eth0",
            false,
        ),
        (
            "-m statistic --mode random --probability 0",
            "1.1.1.1 2.2.2.2:1 TCP e",
            false,
        ),
        (
            "-m statistic --mode random --probability 1",
            "1.1.1.1 2.2.2.2:1 TCP e",
            true,
        ),
        ("-m ipvs --ipvs", "1.1.1.1 2.2.2.2:1 TCP e", false),
        ("-m recent --name X --set", "1.1.1.1 2.2.2.2:1 TCP e", true),
        ("-m mark --mark 0", "1.1.1.1 2.2.2.2:1 TCP e", true),
        (
            "-m conntrack --ctstate NEW",
            "1.1.1.1 2.2.2.2:1 TCP e",
            true,
        ),
        (
            "-m conntrack --ctstate ESTABLISHED",
            "1.1.1.1 2.2.2.2:1 TCP e",
            false,
        ),
        ("-m multiport --dports 1", "1.1.1.1 2.2.2.2:1 TCP e", false),
        ("! -d 2.2.0.0/16", "1.1.1.1 2.2.2.2:1 TCP e", false),
    ] {
        let rules = format!("*mangle\n-A PREROUTING {condition} -j DROP\nCOMMIT\n");
        let expected = if holds {
            Outcome::Dropped
        } else {
            Outcome::Untouched
        };
        assert_eq!(seen(&rules, packet), [expected], "{condition}");
    }
}

#[test]
fn ipsets_are_looked_up_with_the_sides_of_the_rule() {
    let rules = "*nat\n-A PREROUTING -m set --match-set VIPS dst,dst -j SET --map-set VIPS dst,dst --map-mark\n\
                 -A PREROUTING -m mark --mark 0x7 -j DROP\nCOMMIT\n";
    let members: Members<'_> = &|set, sides, flow| {
        let is_member = set == "VIPS"
            && sides == [Side::Dst, Side::Dst]
            && flow.destination == "2.2.2.2:1".parse().unwrap();
        is_member.then_some(7)
    };
    for (packet, expected) in [
        ("1.1.1.1 2.2.2.2:1 TCP e", Outcome::Dropped),
        ("1.1.1.1 2.2.2.2:2 TCP e", Outcome::Untouched),
    ] {
        assert_eq!(seen_with(rules, packet, members), [expected]);
    }
}

#[test]
fn loops_end() {
    let rules =
        "*nat\n-A PREROUTING -j A\n-A A -j B\n-A B -j A\n-A B -j GONE\n-A B -j DROP\nCOMMIT\n";
    assert_eq!(seen(rules, "1.1.1.1 2.2.2.2:1 TCP e"), [Outcome::Dropped]);
}
