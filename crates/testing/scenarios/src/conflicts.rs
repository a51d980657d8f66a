//! Several Services that claim one address and port.

use super::Scenario;
use super::check::{Expect, answers, masqueraded};
use super::manifest::{ServiceYaml, service};
use super::masquerade::pods_by_cidr;

const EARLIER: &str = "2024-01-01T00:00:00Z";
const LATER: &str = "2025-01-01T00:00:00Z";

fn old() -> ServiceYaml {
    service("old")
        .tcp(80)
        .node_port(30080)
        .endpoints("web-1 web-3")
}

fn new() -> ServiceYaml {
    service("new")
        .tcp(80)
        .node_port(30080)
        .endpoints("web-2 web-4")
}

pub(super) fn the_older_wins() -> Scenario {
    Scenario::about("Of two Services with one NodePort the older keeps it.")
        .apply([old().created(EARLIER), new().created(LATER)])
        .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
        .check("cli-a", "new:80/tcp", answers("web-2 web-4"))
        .check("cli-a", "old:80/tcp", answers("web-1 web-3"))
}

pub(super) fn else_the_first_by_name() -> Scenario {
    Scenario::about("Without creation times, the first by name keeps it.")
        .apply([old(), new()])
        .check("client", "node-a:30080/tcp", masqueraded("web-2 web-4"))
}

pub(super) fn a_date_beats_none() -> Scenario {
    Scenario::about("A Service with a creation time comes before one without.")
        .apply([old().created(LATER), new()])
        .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
}

pub(super) fn the_loser_takes_over() -> Scenario {
    Scenario::about("When the winner is deleted, the loser gets the contested NodePort.")
        .apply([old().created(EARLIER), new().created(LATER)])
        .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
        .apply([new().created(LATER)])
        .check("client", "node-a:30080/tcp", masqueraded("web-2 web-4"))
        .apply([old().created(EARLIER), new().created(LATER)])
        .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
}

pub(super) fn the_later_arrival_may_be_senior() -> Scenario {
    Scenario::about("Seniority decides, not who was seen first.")
        .apply([new().created(LATER)])
        .check("client", "node-a:30080/tcp", masqueraded("web-2 web-4"))
        .apply([new().created(LATER), old().created(EARLIER)])
        .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
}

pub(super) fn external_ip() -> Scenario {
    let shared = "externalIPs: [198.51.100.10, \"2001:db8:2::a\"]";
    let web = |name, time| service(name).created(time).spec(shared).tcp(80);
    Scenario::about("An external IP that two Services claim goes to the older one, port by port.")
        .apply([
            web("old", EARLIER).endpoints("web-1"),
            web("new", LATER).endpoints("web-2"),
            service("api")
                .created(LATER)
                .spec(shared)
                .tcp(81)
                .endpoints("web-3"),
        ])
        .check("client cli-a", "web.ext:80/tcp", masqueraded("web-1"))
        .check("client cli-a", "web.ext:81/tcp", masqueraded("web-3"))
}

pub(super) fn external_ip_cannot_take_a_cluster_ip() -> Scenario {
    let thief = || {
        service("new")
            .created(EARLIER)
            .spec("externalIPs: [10.96.0.10, \"fd00:10:96::a\"]")
            .tcp(80)
            .named("http")
            .tcp(81)
            .named("more")
            .endpoints("web-2")
    };
    let web = || service("web").created(LATER).tcp(80).endpoints("web-1");
    Scenario::about(
        "A ClusterIP with all its ports belongs to its Service, however old the others.",
    )
    .apply([thief()])
    .apply([thief(), web()])
    .check("cli-a node-a client", "web:80/tcp", answers("web-1"))
    .check("cli-a node-a", "web:81/tcp", Expect::Refused)
    .check("cli-a", "new:81/tcp", answers("web-2"))
}

pub(super) fn shared_cluster_ip() -> Scenario {
    let shared = "[10.96.0.10, \"fd00:10:96::a\"]";
    Scenario::about("Two Services with one ClusterIP both work on ports that differ.")
        .apply([
            service("old")
                .cluster_ips(shared)
                .tcp(80)
                .endpoints("web-1"),
            service("new")
                .cluster_ips(shared)
                .tcp(81)
                .endpoints("web-2"),
        ])
        .check("cli-a node-a", "web:80/tcp", answers("web-1"))
        .check("cli-a node-a", "web:81/tcp", answers("web-2"))
        .check("cli-a node-a", "web:82/tcp", Expect::Refused)
        .apply([service("old")
            .cluster_ips(shared)
            .tcp(80)
            .endpoints("web-1")])
        .check("cli-a node-a", "web:80/tcp", answers("web-1"))
        .check("cli-a node-a", "web:81/tcp", Expect::Refused)
}

pub(super) fn virtual_ip_before_node_port() -> Scenario {
    Scenario::about("An external IP that is the node's address comes before a NodePort there.")
        .apply([
            service("old").tcp(80).node_port(30080).endpoints("web-1"),
            service("new")
                .spec("externalIPs: [192.168.100.10, \"fd00:100::a\"]")
                .tcp(30080)
                .endpoints("web-2"),
        ])
        .check(
            "client cli-a node-a",
            "node-a:30080/tcp",
            masqueraded("web-2"),
        )
}

pub(super) fn virtual_ip_before_local_node_port() -> Scenario {
    let node_port = || {
        service("old")
            .spec("externalTrafficPolicy: Local")
            .tcp(80)
            .node_port(30080)
    };
    let external_ip = || {
        service("new")
            .spec("externalIPs: [192.168.100.10, \"fd00:100::a\"]")
            .tcp(30080)
    };
    let local = || external_ip().spec("externalTrafficPolicy: Local");
    Scenario::about("What the NodePort's policy says is nothing that the external IP heeds.")
        .settings(pods_by_cidr)
        .apply([
            node_port().endpoints("web-3"),
            external_ip().endpoints("web-2"),
        ])
        .check(
            "client cli-a node-a",
            "node-a:30080/tcp",
            masqueraded("web-2"),
        )
        .apply([
            node_port().endpoints("web-1 web-3"),
            local().endpoints("web-2 web-4"),
        ])
        .check("client", "node-a:30080/tcp", answers("web-2"))
        .check("cli-a", "node-a:30080/tcp", answers("web-2 web-4"))
        .apply([node_port().endpoints("web-1 web-3")])
        .check("client", "node-a:30080/tcp", answers("web-1"))
        .check("cli-a", "node-a:30080/tcp", answers("web-1 web-3"))
}
