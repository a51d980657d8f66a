//! internalTrafficPolicy: Local.

use super::Scenario;
use super::check::{Expect, Seen, answers, masqueraded, seen};
use super::manifest::{ServiceYaml, service};

/// TCP and UDP with the policy.
fn local() -> ServiceYaml {
    service("web")
        .spec("internalTrafficPolicy: Local")
        .tcp(80)
        .udp_too()
}

pub(super) fn stays_on_the_node() -> Scenario {
    Scenario::about("With internalTrafficPolicy Local a ClusterIP uses the node's endpoints only.")
        .apply([local().endpoints("web-1 web-2 web-3 web-4")])
        .check(
            "cli-a node-a client",
            "web:80/tcp+udp",
            answers("web-1 web-2"),
        )
}

pub(super) fn dropped_when_all_are_elsewhere() -> Scenario {
    Scenario::about(
        "When endpoints exist, but none here, packets are dropped: others may have one.",
    )
    .apply([local().endpoints("web-3 web-4")])
    .check("cli-a node-a client", "web:80/tcp+udp", Expect::Dropped)
}

pub(super) fn refused_when_there_are_none() -> Scenario {
    Scenario::about("When there is no endpoint anywhere, a Local ClusterIP refuses.")
        .apply([local()])
        .check("cli-a node-a client", "web:80/tcp+udp", Expect::Refused)
}

pub(super) fn dropped_while_the_local_one_starts() -> Scenario {
    Scenario::about("An endpoint here that is not ready is none.")
        .apply([local().endpoints("web-1:starting web-3")])
        .check("cli-a node-a", "web:80/tcp", Expect::Dropped)
}

pub(super) fn refused_without_serving_endpoints() -> Scenario {
    Scenario::about("Endpoints that serve nowhere are no endpoints: refused, not dropped.")
        .apply([local().endpoints("web-1:starting web-3:dying")])
        .check("cli-a node-a", "web:80/tcp", Expect::Refused)
}

pub(super) fn external_traffic_goes_anywhere() -> Scenario {
    Scenario::about("The internal policy says nothing about NodePorts.")
        .apply([local().node_port(30080).endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:80/tcp", answers("web-1"))
        .check(
            "client cli-a",
            "node-a:30080/tcp",
            masqueraded("web-1 web-3"),
        )
}

pub(super) fn local_and_remote_fall_back_apart() -> Scenario {
    Scenario::about(
        "The node's own list falls back to terminating endpoints though another node has a ready \
         one.",
    )
    .apply([local()
        .node_port(30080)
        .endpoints("web-1:terminating web-3")])
    .check("cli-a node-a", "web:80/tcp", answers("web-1"))
    .check("client", "node-a:30080/tcp", masqueraded("web-3"))
}

pub(super) fn hairpin() -> Scenario {
    Scenario::about("An endpoint finds itself through a Local ClusterIP.")
        .apply([local().endpoints("web-1 web-2 web-3")])
        .check(
            "web-1",
            "web:80/tcp",
            seen("web-1 web-2", Seen::ClientUnlessItself),
        )
}

pub(super) fn undefined_port() -> Scenario {
    Scenario::about("The policy is about endpoints; ports that do not exist are refused as ever.")
        .apply([local().endpoints("web-3")])
        .check("cli-a", "web:81/tcp", Expect::Refused)
}

pub(super) fn connections_survive() -> Scenario {
    Scenario::about(
        "When the endpoint here is no longer ready, new connections are dropped, and those that \
         are open go on.",
    )
    .apply([local().endpoints("web-1 web-3")])
    .hold("cli-a", "web:80/tcp")
    .hold("node-a", "web:80/tcp")
    .hold("client", "web:80/tcp")
    .apply([local().endpoints("web-1:starting web-3")])
    .check("cli-a node-a client", "web:80/tcp+udp", Expect::Dropped)
    .restart()
    .apply([local().endpoints("web-1:starting web-3:starting")])
    .check("cli-a node-a", "web:80/tcp", Expect::Refused)
    .apply([local().endpoints("web-1:starting web-3")])
    .check("cli-a node-a", "web:80/tcp", Expect::Dropped)
    .apply([local().endpoints("web-2 web-3")])
    .check("cli-a node-a", "web:80/tcp", answers("web-2"))
}
