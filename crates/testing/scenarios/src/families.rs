//! IPv4 and IPv6 of one Service.

use sluice_model::IpFamily;

use super::Scenario;
use super::check::{Expect, answers, masqueraded};
use super::manifest::service;

pub(super) fn other_endpoints_per_family() -> Scenario {
    Scenario::about("Each family has its own slices, so it may have its own endpoints.")
        .apply([service("web")
            .tcp(80)
            .udp_too()
            .slice("a", "web-1 web-3")
            .slice_only(IpFamily::V4)
            .slice("b", "web-2 web-4")
            .slice_only(IpFamily::V6)])
        .check("cli-a node-a", "web:80/tcp4+udp4", answers("web-1 web-3"))
        .check("cli-a node-a", "web:80/tcp6+udp6", answers("web-2 web-4"))
}

pub(super) fn ipv6_without_endpoints() -> Scenario {
    Scenario::about("A family without endpoints refuses while the other one answers.")
        .apply([service("web")
            .tcp(80)
            .node_port(30080)
            .slice("a", "web-1 web-3")
            .slice_only(IpFamily::V4)])
        .check("cli-a node-a", "web:80/tcp4", answers("web-1 web-3"))
        .check("cli-a node-a client", "web:80/tcp6", Expect::Refused)
        .check("client", "node-a:30080/tcp4", masqueraded("web-1 web-3"))
        .check("client", "node-a:30080/tcp6", Expect::Refused)
}

pub(super) fn ipv4_without_endpoints() -> Scenario {
    Scenario::about("IPv6 answers also while IPv4 has no endpoint.")
        .apply([service("web")
            .tcp(80)
            .node_port(30080)
            .slice("a", "web-1 web-3")
            .slice_only(IpFamily::V6)])
        .check("cli-a node-a", "web:80/tcp6", answers("web-1 web-3"))
        .check("cli-a node-a client", "web:80/tcp4", Expect::Refused)
        .check("client", "node-a:30080/tcp6", masqueraded("web-1 web-3"))
}

pub(super) fn only_ipv4() -> Scenario {
    Scenario::about("A single-stack Service has no address in the other family.")
        .apply([service("web")
            .only(IpFamily::V4)
            .tcp(80)
            .endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:80/tcp4", answers("web-1 web-3"))
        .check("cli-a node-a", "web:80/tcp6", Expect::Dropped)
}

pub(super) fn only_ipv6() -> Scenario {
    Scenario::about("A Service may exist in IPv6 alone.")
        .apply([service("web")
            .only(IpFamily::V6)
            .tcp(80)
            .udp_too()
            .endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:80/tcp6+udp6", answers("web-1 web-3"))
        .check("cli-a node-a", "web:80/tcp4", Expect::Dropped)
}

pub(super) fn ipv6_first() -> Scenario {
    Scenario::about("Which family a Service prefers makes no difference to its packets.")
        .apply([service("web")
            .cluster_ips("[\"fd00:10:96::a\", 10.96.0.10]")
            .tcp(80)
            .endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-3"))
}
