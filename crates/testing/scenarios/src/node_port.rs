//! NodePorts: a port of the node itself.

use std::net::IpAddr;

use ipnet::IpNet;
use sluice_plan::settings::NodePortAddresses;

use super::check::{Expect, Then, answers, masqueraded, untouched};
use super::manifest::{ServiceYaml, service};
use super::{Scenario, world};

const ALL: &str = "web-1 web-2 web-3 web-4";

/// TCP and UDP on NodePort 30080, on every pod.
fn web() -> ServiceYaml {
    service("web")
        .tcp(80)
        .node_port(30080)
        .udp_too()
        .endpoints(ALL)
}

fn within(nets: &[&str]) -> NodePortAddresses {
    let nets = nets.iter().map(|it| it.parse::<IpNet>());
    let nets: Result<_, _> = nets.collect();
    NodePortAddresses::Within(nets.expect("the constants are prefixes"))
}

pub(super) fn from_everywhere() -> Scenario {
    Scenario::about("A NodePort answers on the node's primary address, and hides the client.")
        .apply([web()])
        .check(
            "client node-a cli-a cli-b node-b",
            "node-a:30080/tcp+udp",
            masqueraded(ALL),
        )
        .check("cli-a", "web:80/tcp+udp", answers(ALL))
}

pub(super) fn through_a_bridge() -> Scenario {
    Scenario::about("NodePorts lead to pods on a bridge, too.")
        .bridged()
        .apply([web()])
        .check(
            "client node-a cli-a",
            "node-a:30080/tcp+udp",
            masqueraded(ALL),
        )
}

pub(super) fn hairpin() -> Scenario {
    Scenario::about("A pod reaches itself through the NodePort of its own node.")
        .apply([web()])
        .check("web-1", "node-a:30080/tcp+udp", masqueraded(ALL))
}

pub(super) fn only_the_primary_address() -> Scenario {
    Scenario::about("Other addresses of the node do not answer on NodePorts by default.")
        .node_address("node-a.extra")
        .apply([web()])
        .check("client", "node-a:30080/tcp", masqueraded(ALL))
        .check(
            "client cli-a node-a",
            "node-a.extra:30080/tcp",
            untouched("node-a"),
        )
}

pub(super) fn addresses_within_a_range() -> Scenario {
    Scenario::about("--nodeport-addresses chooses the addresses that answer.")
        .node_address("node-a.extra")
        .settings(|it| it.node_ports = within(&["192.168.100.192/26", "fd00:100::c0/122"]))
        .apply([web()])
        .check(
            "client cli-a node-a",
            "node-a.extra:30080/tcp+udp",
            masqueraded(ALL),
        )
        .check(
            "client cli-a node-a",
            "node-a:30080/tcp",
            untouched("node-a"),
        )
}

pub(super) fn range_that_covers_other_machines() -> Scenario {
    Scenario::about("A range may cover addresses that are not the node's: those stay untouched.")
        .settings(|it| it.node_ports = within(&["192.168.100.0/24", "fd00:100::/64"]))
        .apply([web()])
        .check("client cli-a node-a", "node-a:30080/tcp", masqueraded(ALL))
        .check(
            "cli-a node-a",
            "node-b:30080/tcp",
            Expect::Untouched(Then::Refused),
        )
}

pub(super) fn any_address() -> Scenario {
    Scenario::about("Without a range in a family, every address of the node in it answers.")
        .node_address("node-a.extra")
        .settings(|it| it.node_ports = within(&[]))
        .apply([web()])
        .check("client cli-a node-a", "node-a:30080/tcp", masqueraded(ALL))
        .check(
            "client cli-a node-a",
            "node-a.extra:30080/tcp",
            masqueraded(ALL),
        )
}

pub(super) fn zero_length_range() -> Scenario {
    Scenario::about("A range of length zero means every address of the node in its family.")
        .node_address("node-a.extra")
        .settings(|it| it.node_ports = within(&["0.0.0.0/0", "::/0"]))
        .apply([web()])
        .check("client node-a", "node-a.extra:30080/tcp", masqueraded(ALL))
        .check("client", "node-a:30080/tcp", masqueraded(ALL))
}

pub(super) fn range_of_one_family() -> Scenario {
    Scenario::about("A range narrows its own family only.")
        .node_address("node-a.extra")
        .settings(|it| it.node_ports = within(&["192.168.100.200/32"]))
        .apply([web()])
        .check("client", "node-a.extra:30080/tcp", masqueraded(ALL))
        .check("client", "node-a:30080/tcp4", untouched("node-a"))
        .check("client", "node-a:30080/tcp6", masqueraded(ALL))
}

pub(super) fn never_loopback() -> Scenario {
    Scenario::about("A NodePort never answers on the loopback address.")
        .settings(|it| it.node_ports = within(&["0.0.0.0/0", "::/0"]))
        .apply([web()])
        .check("node-a", "localhost:30080/tcp", untouched("node-a"))
        .check("node-a", "node-a:30080/tcp", masqueraded(ALL))
}

pub(super) fn of_another_node() -> Scenario {
    Scenario::about("The proxy leaves NodePorts of other nodes alone.")
        .apply([web()])
        .check(
            "cli-a node-a",
            "node-b:30080/tcp",
            Expect::Untouched(Then::Refused),
        )
        .check("cli-a node-a", "node-a:30080/tcp", masqueraded(ALL))
}

pub(super) fn not_on_the_cluster_ip() -> Scenario {
    Scenario::about("NodePort and port are two numbers, each for its own kind of address.")
        .apply([web()])
        .check("cli-a", "web:30080/tcp", Expect::Refused)
        .check("client", "node-a:80/tcp", untouched("node-a"))
}

pub(super) fn refused_without_endpoints() -> Scenario {
    Scenario::about("A NodePort without endpoints refuses.")
        .apply([service("web").tcp(80).node_port(30080).udp_too()])
        .check(
            "client cli-a node-a",
            "node-a:30080/tcp+udp",
            Expect::Refused,
        )
}

pub(super) fn without_a_node_object() -> Scenario {
    let own: Vec<IpAddr> = world::addresses(world::NODE_A);
    Scenario::about("Until the Node object is known, the addresses found on the machine serve.")
        .settings(|it| it.fallback_node_ips = own)
        .apply_text(&web().to_string())
        .check("client node-a", "node-a:30080/tcp", masqueraded(ALL))
}

pub(super) fn without_any_address() -> Scenario {
    Scenario::about("A node that knows no address of its own has no NodePorts, but ClusterIPs.")
        .apply_text(&web().to_string())
        .check("client", "node-a:30080/tcp", untouched("node-a"))
        .check("cli-a", "web:80/tcp", answers(ALL))
}

pub(super) fn host_network_endpoint() -> Scenario {
    Scenario::about(
        "A NodePort may lead to a pod with the node's own network, which sees the client: what is \
         delivered here never passes the point where masquerading happens.",
    )
    .apply([service("web")
        .tcp(80)
        .node_port(30080)
        .udp_too()
        .endpoints("host-a")])
    .check("client cli-a", "node-a:30080/tcp+udp", answers("host-a"))
    .check("node-a", "node-a:30080/tcp+udp", masqueraded("host-a"))
}

pub(super) fn two_services() -> Scenario {
    Scenario::about("Each NodePort leads to its own Service.")
        .apply([
            service("web")
                .tcp(80)
                .node_port(30080)
                .endpoints("web-1 web-3"),
            service("api").tcp(80).node_port(30081).endpoints("web-2"),
        ])
        .check(
            "client cli-a",
            "node-a:30080/tcp",
            masqueraded("web-1 web-3"),
        )
        .check("client cli-a", "node-a:30081/tcp", masqueraded("web-2"))
}
