//! Addresses from outside: load balancers, external IPs, and the clients that may use them.

use super::Scenario;
use super::check::{Expect, answers, masqueraded, untouched};
use super::manifest::{ServiceYaml, service};

const ALL: &str = "web-1 web-2 web-3 web-4";

/// TCP and UDP, with a load balancer's addresses, on every pod.
fn web() -> ServiceYaml {
    service("web")
        .load_balancer("VIP")
        .tcp(80)
        .udp_too()
        .endpoints(ALL)
}

fn with_ranges(about: &'static str, ranges: &str) -> Scenario {
    let line = format!("loadBalancerSourceRanges: [{ranges}]");
    Scenario::about(about).apply([web().spec(line)])
}

pub(super) fn status_address() -> Scenario {
    Scenario::about(
        "The node itself answers for the load balancer's address, so that packets need not leave \
         the cluster.",
    )
    .apply([web()])
    .check("client cli-a node-a", "web.lb:80/tcp+udp", masqueraded(ALL))
    .check("cli-a", "web:80/tcp", answers(ALL))
}

pub(super) fn proxy_mode() -> Scenario {
    Scenario::about("With ipMode Proxy packets must go to the load balancer: no short cut.")
        .apply([service("web").load_balancer("Proxy").tcp(80).endpoints(ALL)])
        .check("client cli-a node-a", "web.lb:80/tcp", untouched("router"))
        .check("cli-a", "web:80/tcp", answers(ALL))
}

pub(super) fn hairpin() -> Scenario {
    Scenario::about("A pod reaches itself through the load balancer's address.")
        .apply([web()])
        .check("web-1", "web.lb:80/tcp+udp", masqueraded(ALL))
}

pub(super) fn other_ports() -> Scenario {
    Scenario::about("The proxy leaves other ports of a load balancer's address alone.")
        .apply([web().external_ips()])
        .check("client cli-a", "web.lb:81/tcp", untouched("router"))
        .check("client cli-a", "web.ext:81/tcp", untouched("router"))
        .check("client cli-a", "web.lb:80/tcp", masqueraded(ALL))
        .check("client cli-a", "web.ext:80/tcp", masqueraded(ALL))
}

pub(super) fn refused_without_endpoints() -> Scenario {
    Scenario::about("Load balancer and external IPs without endpoints refuse at once.")
        .apply([service("web")
            .load_balancer("VIP")
            .external_ips()
            .tcp(80)
            .udp_too()])
        .check("client cli-a node-a", "web.lb:80/tcp+udp", Expect::Refused)
        .check("client cli-a node-a", "web.ext:80/tcp+udp", Expect::Refused)
}

pub(super) fn external_ips() -> Scenario {
    Scenario::about("An external IP answers wherever the operator routes it to a node.")
        .apply([service("web")
            .external_ips()
            .tcp(80)
            .udp_too()
            .endpoints(ALL)])
        .check(
            "client cli-a node-a",
            "web.ext:80/tcp+udp",
            masqueraded(ALL),
        )
}

pub(super) fn external_ip_hairpin() -> Scenario {
    Scenario::about("A pod reaches itself through an external IP.")
        .apply([service("web").external_ips().tcp(80).endpoints("web-1")])
        .check("web-1", "web.ext:80/tcp", masqueraded("web-1"))
}

pub(super) fn address_bound_to_the_node() -> Scenario {
    Scenario::about("A virtual IP works also when it is an address of the node, as with MetalLB.")
        .node_address("web.lb")
        .apply([web()])
        .check("client cli-a node-a", "web.lb:80/tcp+udp", masqueraded(ALL))
}

pub(super) fn ranges_admit_a_client() -> Scenario {
    with_ranges(
        "loadBalancerSourceRanges admits clients inside and drops all others, pods and the node \
         included.",
        "192.168.100.100/32, \"fd00:100::64/128\"",
    )
    .check("client", "web.lb:80/tcp+udp", masqueraded(ALL))
    .check("cli-a node-a", "web.lb:80/tcp+udp", Expect::Dropped)
}

pub(super) fn ranges_admit_pods() -> Scenario {
    with_ranges(
        "Source ranges may name the pods; all other clients are dropped.",
        "10.244.0.0/16, \"fd00:10:244::/56\"",
    )
    .check("cli-a web-1", "web.lb:80/tcp", masqueraded(ALL))
    .check("client node-a", "web.lb:80/tcp", Expect::Dropped)
}

pub(super) fn ranges_admit_the_node() -> Scenario {
    with_ranges(
        "The node is a client like any other: inside a range it is admitted.",
        "192.168.100.10/32, \"fd00:100::a/128\"",
    )
    .check("node-a", "web.lb:80/tcp", masqueraded(ALL))
    .check("client cli-a", "web.lb:80/tcp", Expect::Dropped)
}

pub(super) fn several_ranges() -> Scenario {
    with_ranges(
        "Several ranges may overlap; being inside one of them is enough.",
        "10.244.0.0/24, 10.244.0.0/16, 192.168.100.64/26, \"fd00:10:244::/64\", \"fd00:100::/64\"",
    )
    .check("client cli-a", "web.lb:80/tcp", masqueraded(ALL))
    .check("node-a", "web.lb:80/tcp4", Expect::Dropped)
    .check("node-a", "web.lb:80/tcp6", masqueraded(ALL))
}

pub(super) fn ranges_and_the_address_as_source() -> Scenario {
    with_ranges(
        "A node that has the load balancer's address uses it as source; it is admitted when the \
         node is.",
        "192.168.100.10/32, \"fd00:100::a/128\"",
    )
    .node_address("web.lb")
    .check("node-a", "web.lb:80/tcp", masqueraded(ALL))
    .check("client", "web.lb:80/tcp", Expect::Dropped)
}

pub(super) fn ranges_without_the_node() -> Scenario {
    with_ranges(
        "Having the load balancer's address does not admit a node that is outside the ranges.",
        "192.168.100.100/32, \"fd00:100::64/128\"",
    )
    .node_address("web.lb")
    .check("client", "web.lb:80/tcp", masqueraded(ALL))
    .check("node-a", "web.lb:80/tcp", Expect::Dropped)
}

pub(super) fn ranges_of_one_family() -> Scenario {
    with_ranges(
        "Ranges of one family do not close the other.",
        "192.168.100.100/32",
    )
    .check("client", "web.lb:80/tcp", masqueraded(ALL))
    .check("cli-a node-a", "web.lb:80/tcp4", Expect::Dropped)
    .check("cli-a node-a", "web.lb:80/tcp6", masqueraded(ALL))
}

pub(super) fn range_for_everyone() -> Scenario {
    with_ranges(
        "A range of length zero admits everyone, whatever other ranges say.",
        "10.0.0.0/8, 0.0.0.0/0, \"::/0\"",
    )
    .check("client cli-a node-a", "web.lb:80/tcp", masqueraded(ALL))
}

pub(super) fn ranges_guard_only_the_load_balancer() -> Scenario {
    Scenario::about("Source ranges do not guard the ClusterIP, NodePort or external IP.")
        .apply([service("web")
            .load_balancer("VIP")
            .external_ips()
            .spec("loadBalancerSourceRanges: [192.0.2.0/24, \"2001:db8:ffff::/48\"]")
            .tcp(80)
            .node_port(30080)
            .endpoints("web-1 web-3")])
        .check("client cli-a node-a", "web.lb:80/tcp", Expect::Dropped)
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-3"))
        .check(
            "client cli-a node-a",
            "web.ext:80/tcp",
            masqueraded("web-1 web-3"),
        )
        .check(
            "client cli-a node-a",
            "node-a:30080/tcp",
            masqueraded("web-1 web-3"),
        )
}

pub(super) fn ranges_without_endpoints() -> Scenario {
    Scenario::about(
        "Source ranges come first: a client outside them is dropped, also without endpoints.",
    )
    .apply([service("web")
        .load_balancer("VIP")
        .spec("loadBalancerSourceRanges: [192.168.100.100/32, \"fd00:100::64/128\"]")
        .tcp(80)])
    .check("client", "web.lb:80/tcp", Expect::Refused)
    .check("cli-a node-a", "web.lb:80/tcp", Expect::Dropped)
}

pub(super) fn ranges_of_one_service() -> Scenario {
    Scenario::about("The ranges of one Service leave the next one open.")
        .apply([
            web().spec("loadBalancerSourceRanges: [192.0.2.0/24, \"2001:db8:ffff::/48\"]"),
            service("api")
                .load_balancer("VIP")
                .tcp(80)
                .endpoints("web-2 web-3"),
        ])
        .check("client cli-a", "web.lb:80/tcp", Expect::Dropped)
        .check(
            "client cli-a node-a",
            "api.lb:80/tcp",
            masqueraded("web-2 web-3"),
        )
}

pub(super) fn bound_address_without_endpoints() -> Scenario {
    Scenario::about(
        "A virtual IP that is an address of the node goes through its rules, not to its sockets.",
    )
    .node_address("web.lb")
    .node_address("api.lb")
    .apply([
        service("web")
            .load_balancer("VIP")
            .spec("externalTrafficPolicy: Local")
            .tcp(80)
            .udp_too()
            .endpoints("web-3"),
        service("api").load_balancer("VIP").tcp(80).udp_too(),
    ])
    .check("client cli-a", "web.lb:80/tcp+udp", Expect::Dropped)
    .check("node-a", "web.lb:80/tcp", masqueraded("web-3"))
    .check("client cli-a node-a", "api.lb:80/tcp+udp", Expect::Refused)
}
