//! externalTrafficPolicy: Local.

use super::Scenario;
use super::check::{Expect, Seen, answers, masqueraded, seen};
use super::manifest::{ServiceYaml, service};
use super::masquerade::pods_by_cidr;

/// TCP and UDP on every kind of external address, with the policy.
fn local() -> ServiceYaml {
    service("web")
        .load_balancer("VIP")
        .external_ips()
        .spec("externalTrafficPolicy: Local")
        .tcp(80)
        .node_port(30080)
        .udp_too()
}

pub(super) fn keeps_the_source() -> Scenario {
    Scenario::about(
        "With externalTrafficPolicy Local only endpoints of this node answer, and they see who \
         the client is.",
    )
    .apply([local().endpoints("web-1 web-2 web-3")])
    .check(
        "client node-b",
        "node-a:30080/tcp+udp",
        answers("web-1 web-2"),
    )
    .check("client", "web.lb:80/tcp+udp", answers("web-1 web-2"))
    .check("client", "web.ext:80/tcp+udp", answers("web-1 web-2"))
}

pub(super) fn keeps_the_source_through_a_bridge() -> Scenario {
    Scenario::about("Pods on a bridge see the external client, too.")
        .bridged()
        .apply([local().endpoints("web-1 web-2 web-3")])
        .check("client", "node-a:30080/tcp+udp", answers("web-1 web-2"))
        .check("client", "web.lb:80/tcp", answers("web-1 web-2"))
}

pub(super) fn cluster_ip_goes_anywhere() -> Scenario {
    Scenario::about("The external policy says nothing about the ClusterIP.")
        .apply([local().endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:80/tcp+udp", answers("web-1 web-3"))
}

pub(super) fn node_goes_anywhere() -> Scenario {
    Scenario::about(
        "The node itself is inside: through external addresses it reaches endpoints anywhere, \
         masqueraded.",
    )
    .apply([local().endpoints("web-1 web-3")])
    .check("node-a", "node-a:30080/tcp+udp", masqueraded("web-1 web-3"))
    .check("node-a", "web.lb:80/tcp", masqueraded("web-1 web-3"))
    .check("node-a", "web.ext:80/tcp", masqueraded("web-1 web-3"))
}

pub(super) fn pods_go_anywhere() -> Scenario {
    Scenario::about("Pods that are known as such are inside: endpoints anywhere, address kept.")
        .settings(pods_by_cidr)
        .apply([local().endpoints("web-1 web-3")])
        .check("cli-a", "node-a:30080/tcp+udp", answers("web-1 web-3"))
        .check("cli-a", "web.lb:80/tcp", answers("web-1 web-3"))
        .check("cli-a", "web.ext:80/tcp", answers("web-1 web-3"))
}

pub(super) fn unknown_pods_are_far() -> Scenario {
    Scenario::about("A proxy that cannot tell pods from others treats them like the world outside.")
        .apply([local().endpoints("web-1 web-3")])
        .check("cli-a", "node-a:30080/tcp", answers("web-1"))
        .check("cli-a", "web.lb:80/tcp", answers("web-1"))
}

pub(super) fn dropped_without_a_local_endpoint() -> Scenario {
    Scenario::about(
        "Without an endpoint here the outside is dropped, so that load balancers choose another \
         node; pods and the node itself are served.",
    )
    .settings(pods_by_cidr)
    .apply([local().endpoints("web-3 web-4")])
    .check("client", "node-a:30080/tcp+udp", Expect::Dropped)
    .check("client", "web.lb:80/tcp+udp", Expect::Dropped)
    .check("client", "web.ext:80/tcp", Expect::Dropped)
    .check("cli-a", "web.lb:80/tcp", answers("web-3 web-4"))
    .check("node-a", "web.lb:80/tcp", masqueraded("web-3 web-4"))
    .check("node-a", "node-a:30080/tcp", masqueraded("web-3 web-4"))
}

pub(super) fn refused_without_any_endpoint() -> Scenario {
    Scenario::about("Without an endpoint anywhere there is no other node to try: refused.")
        .apply([local()])
        .check(
            "client cli-a node-a",
            "node-a:30080/tcp+udp",
            Expect::Refused,
        )
        .check("client cli-a node-a", "web.lb:80/tcp", Expect::Refused)
        .check("client cli-a node-a", "web.ext:80/tcp", Expect::Refused)
}

pub(super) fn local_terminating_fallback() -> Scenario {
    Scenario::about(
        "The last endpoint here serves the outside until it is gone, though other nodes have \
         ready ones: no connection is lost in a rolling update.",
    )
    .apply([local().endpoints("web-1:terminating web-3")])
    .check("client", "node-a:30080/tcp", answers("web-1"))
    .check("client", "web.lb:80/tcp", answers("web-1"))
    .check("node-a", "web.lb:80/tcp", masqueraded("web-3"))
    .check("cli-a", "web:80/tcp", answers("web-3"))
}

pub(super) fn terminating_beside_a_ready_local() -> Scenario {
    Scenario::about("Beside a ready endpoint here, the terminating ones get nothing new.")
        .apply([local().endpoints("web-1:terminating web-2 web-3")])
        .check("client", "node-a:30080/tcp", answers("web-2"))
}

pub(super) fn only_terminating_elsewhere() -> Scenario {
    Scenario::about("Terminating endpoints of other nodes serve this node's own clients only.")
        .settings(pods_by_cidr)
        .apply([local().endpoints("web-3:terminating web-4:dying")])
        .check("client", "node-a:30080/tcp", Expect::Dropped)
        .check("cli-a", "web.lb:80/tcp", answers("web-3"))
        .check("node-a", "web.lb:80/tcp", masqueraded("web-3"))
}

pub(super) fn both_policies() -> Scenario {
    Scenario::about("Both policies together: ClusterIP and outside each use this node only.")
        .settings(pods_by_cidr)
        .apply([local()
            .spec("internalTrafficPolicy: Local")
            .endpoints("web-1 web-3")])
        .check("cli-a", "web:80/tcp", answers("web-1"))
        .check("client", "web.lb:80/tcp", answers("web-1"))
        .check("cli-a", "web.lb:80/tcp", answers("web-1 web-3"))
}

pub(super) fn hairpin() -> Scenario {
    Scenario::about("A pod reaches itself through a Local external address, and sees the node.")
        .settings(pods_by_cidr)
        .apply([local().endpoints("web-1 web-2 web-3")])
        .check(
            "web-1",
            "node-a:30080/tcp",
            seen("web-1 web-2 web-3", Seen::ClientUnlessItself),
        )
        .check(
            "web-1",
            "web.lb:80/tcp",
            seen("web-1 web-2 web-3", Seen::ClientUnlessItself),
        )
}

pub(super) fn with_source_ranges() -> Scenario {
    Scenario::about("Source ranges and the Local policy work together.")
        .apply([local()
            .spec("loadBalancerSourceRanges: [192.168.100.100/32, \"fd00:100::64/128\"]")
            .endpoints("web-1 web-3")])
        .check("client", "web.lb:80/tcp", answers("web-1"))
        .check("node-a cli-a", "web.lb:80/tcp", Expect::Dropped)
        .check("node-a", "node-a:30080/tcp", masqueraded("web-1 web-3"))
}

pub(super) fn external_ip_of_a_cluster_ip_service() -> Scenario {
    Scenario::about("The policy holds for external IPs of a ClusterIP Service as well.")
        .apply([service("web")
            .external_ips()
            .spec("externalTrafficPolicy: Local")
            .tcp(80)
            .endpoints("web-1 web-3")])
        .check("client", "web.ext:80/tcp", answers("web-1"))
}

pub(super) fn node_with_the_address() -> Scenario {
    Scenario::about(
        "A node that has the virtual IP uses it as source; masquerading gives it one that \
         endpoints elsewhere can answer to.",
    )
    .node_address("web.lb")
    .apply([local().endpoints("web-1 web-3")])
    .check("node-a", "web.lb:80/tcp+udp", masqueraded("web-1 web-3"))
    .check("client", "web.lb:80/tcp+udp", answers("web-1"))
}

pub(super) fn connections_survive() -> Scenario {
    Scenario::about(
        "Open connections, near or far, go on whether or not this node has an endpoint.",
    )
    .settings(pods_by_cidr)
    .apply([local().endpoints("web-3")])
    .hold("cli-a", "web.lb:80/tcp")
    .hold("node-a", "node-a:30080/tcp")
    .apply([local().endpoints("web-1 web-4")])
    .hold("cli-a", "node-a:30080/tcp")
    .hold("node-a", "web.ext:80/tcp")
    .hold("client", "web.lb:80/tcp")
    .apply([local().endpoints("web-1")])
    .check("cli-a client", "web.lb:80/tcp", answers("web-1"))
    .hold("cli-a", "web.ext:80/tcp")
    .apply([local().endpoints("web-3 web-4")])
    .check("client", "web.lb:80/tcp", Expect::Dropped)
    .check("cli-a", "web.lb:80/tcp", answers("web-3 web-4"))
    .restart()
    .apply([local().endpoints("web-1:starting web-3:starting")])
    .check("cli-a node-a client", "web.lb:80/tcp", Expect::Refused)
    .restart()
    .apply([local().endpoints("web-2 web-3")])
    .check("client", "web.lb:80/tcp", answers("web-2"))
    .check("cli-a", "node-a:30080/tcp+udp", answers("web-2 web-3"))
}
