//! Ports: several of one Service, names, numbers, protocols.

use super::Scenario;
use super::check::{Expect, answers, masqueraded, stays};
use super::manifest::service;

pub(super) fn two_ports() -> Scenario {
    Scenario::about("Each port of a Service leads to its own port of the pods.")
        .apply([service("web")
            .tcp(80)
            .named("http")
            .tcp(81)
            .named("admin")
            .target(8081)
            .endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-3"))
        .check(
            "cli-a node-a",
            "web:81/tcp",
            answers("web-1:8081 web-3:8081"),
        )
        .check("cli-a", "web:82/tcp", Expect::Refused)
}

pub(super) fn one_number_two_protocols() -> Scenario {
    Scenario::about("TCP and UDP with one port number, as DNS has them, are two ports.")
        .apply([service("dns")
            .tcp(53)
            .named("dns-tcp")
            .target(8081)
            .udp(53)
            .named("dns")
            .endpoints("web-1 web-3")])
        .check(
            "cli-a node-a",
            "dns:53/tcp",
            answers("web-1:8081 web-3:8081"),
        )
        .check("cli-a node-a", "dns:53/udp", answers("web-1 web-3"))
}

pub(super) fn one_node_port_two_protocols() -> Scenario {
    Scenario::about("TCP and UDP may share the number of a NodePort.")
        .apply([service("dns")
            .tcp(53)
            .named("dns-tcp")
            .node_port(30053)
            .udp(53)
            .named("dns")
            .node_port(30053)
            .target(8081)
            .endpoints("web-1 web-3")])
        .check("client", "node-a:30053/tcp", masqueraded("web-1 web-3"))
        .check(
            "client",
            "node-a:30053/udp",
            masqueraded("web-1:8081 web-3:8081"),
        )
}

pub(super) fn one_name_two_numbers() -> Scenario {
    Scenario::about(
        "A named port may have another number in each slice, as while a Deployment changes it.",
    )
    .apply([service("web")
        .tcp(80)
        .named("http")
        .slice("a", "web-1 web-3")
        .slice("b", "web-2")
        .on(&[8081])])
    .check(
        "cli-a node-a",
        "web:80/tcp",
        answers("web-1 web-2:8081 web-3"),
    )
}

pub(super) fn one_port_without_endpoints() -> Scenario {
    Scenario::about("A port that no slice has is refused; the other ports of the Service answer.")
        .apply([service("web")
            .tcp(80)
            .named("http")
            .tcp(81)
            .named("admin")
            .slice("a", "web-1 web-3")
            .on(&[8080, 0])])
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-3"))
        .check("cli-a node-a", "web:81/tcp", Expect::Refused)
}

pub(super) fn ports_on_different_pods() -> Scenario {
    Scenario::about("Two ports of one Service may be served by different pods.")
        .apply([service("web")
            .tcp(80)
            .named("http")
            .udp(80)
            .named("quic")
            .slice("a", "web-1 web-2")
            .on(&[8080, 0])
            .slice("b", "web-3")
            .on(&[0, 8080])])
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-2"))
        .check("cli-a node-a", "web:80/udp", answers("web-3"))
}

pub(super) fn same_number_on_both_sides() -> Scenario {
    Scenario::about("The port of a Service may be the port of its pods.")
        .apply([service("web").tcp(8080).endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:8080/tcp", answers("web-1 web-3"))
        .check("cli-a", "web:80/tcp", Expect::Refused)
}

pub(super) fn sctp() -> Scenario {
    Scenario::about("SCTP is balanced like TCP and UDP, and apart from them.")
        .apply([service("web")
            .sctp(80)
            .named("sctp")
            .node_port(30080)
            .tcp(80)
            .named("http")
            .node_port(30080)
            .endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:80/sctp", answers("web-1 web-3"))
        .check("client", "node-a:30080/sctp", masqueraded("web-1 web-3"))
        .check("cli-a", "web:80/tcp", answers("web-1 web-3"))
        .check("cli-a", "web:81/sctp", Expect::Refused)
}

pub(super) fn sctp_with_everything() -> Scenario {
    Scenario::about("An SCTP Service can have policies, affinity and a load balancer as well.")
        .apply([service("web")
            .load_balancer("VIP")
            .external_ips()
            .spec("externalTrafficPolicy: Local")
            .spec("sessionAffinity: ClientIP")
            .sctp(80)
            .node_port(30080)
            .endpoints("web-1 web-3")])
        .check("client", "web.lb:80/sctp", answers("web-1"))
        .check("client", "web.ext:80/sctp", answers("web-1"))
        .check("node-a", "node-a:30080/sctp", stays("web-1 web-3"))
        .check("cli-a", "web:80/tcp", Expect::Refused)
}
