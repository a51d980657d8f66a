//! Topology hints: endpoints near the client first.

use super::Scenario;
use super::check::{Expect, answers, masqueraded};
use super::manifest::{cluster, service};

/// A TCP Service with hinted endpoints, and requests from a pod and from the node in zone-a.
fn hinted(about: &'static str, endpoints: &'static str, expect: Expect) -> Scenario {
    Scenario::about(about)
        .apply([service("web").tcp(80).endpoints(endpoints)])
        .check("cli-a node-a", "web:80/tcp", expect)
}

pub(super) fn same_zone() -> Scenario {
    hinted(
        "When hints divide the endpoints among zones, a node uses those for its own zone.",
        "web-1:zone-a web-2:zone-a web-3:zone-b",
        answers("web-1 web-2"),
    )
}

pub(super) fn hints_are_not_locations() -> Scenario {
    hinted(
        "A hint says for which zone an endpoint is, not where it runs.",
        "web-1:zone-b web-3:zone-a",
        answers("web-3"),
    )
}

pub(super) fn several_zones() -> Scenario {
    hinted(
        "An endpoint may be for several zones.",
        "web-1:zone-b web-2:zone-c web-3:zone-b,zone-a",
        answers("web-3"),
    )
}

pub(super) fn node_beats_zone() -> Scenario {
    hinted(
        "Hints for nodes are closer than hints for zones.",
        "web-1:node-a,zone-b web-2:node-b,zone-a web-3:node-b,zone-a",
        answers("web-1"),
    )
}

pub(super) fn node_hints_for_others() -> Scenario {
    hinted(
        "When no node hint names this node, the zone hints count.",
        "web-1:node-b,zone-b web-3:node-b,zone-a",
        answers("web-3"),
    )
}

pub(super) fn one_without_hint() -> Scenario {
    hinted(
        "One ready endpoint without a hint makes all hints void: they would be out of date.",
        "web-1:zone-a web-2 web-3:zone-b",
        answers("web-1 web-2 web-3"),
    )
}

pub(super) fn none_for_us() -> Scenario {
    hinted(
        "When no hint names this zone, all endpoints are used rather than none.",
        "web-1:zone-b web-3:zone-c",
        answers("web-1 web-3"),
    )
}

pub(super) fn unready_without_hint() -> Scenario {
    hinted(
        "Only the hints of ready endpoints count.",
        "web-1:zone-a web-2:starting web-3:zone-b web-4:terminating",
        answers("web-1"),
    )
}

pub(super) fn unready_with_our_hint() -> Scenario {
    hinted(
        "A hint for us on an endpoint that is not ready does not count.",
        "web-1:starting,zone-a web-2:zone-b web-3:zone-b",
        answers("web-2 web-3"),
    )
}

pub(super) fn fallback_ignores_hints() -> Scenario {
    hinted(
        "When all endpoints are terminating, hints no longer matter.",
        "web-1:terminating,zone-a web-3:terminating,zone-b",
        answers("web-1 web-3"),
    )
}

pub(super) fn external_traffic() -> Scenario {
    Scenario::about("Hints narrow the choice for external traffic, too.")
        .apply([service("web")
            .tcp(80)
            .node_port(30080)
            .endpoints("web-1:zone-b web-3:zone-a")])
        .check("client", "node-a:30080/tcp", masqueraded("web-3"))
}

pub(super) fn local_policy_ignores_hints() -> Scenario {
    Scenario::about("A Local policy depends on where endpoints run, and ignores hints.")
        .apply([service("web")
            .spec("externalTrafficPolicy: Local")
            .tcp(80)
            .node_port(30080)
            .endpoints("web-1:zone-b web-3:zone-a")])
        .check("client", "node-a:30080/tcp", answers("web-1"))
        .check("cli-a", "web:80/tcp", answers("web-3"))
}

pub(super) fn node_changes_zone() -> Scenario {
    let manifests = cluster([service("web")
        .tcp(80)
        .endpoints("web-1:zone-a web-3:zone-c")]);
    let zone = "topology.kubernetes.io/zone: zone-a";
    let moved = manifests.replace(zone, "topology.kubernetes.io/zone: zone-c");
    let nowhere = manifests.replace(zone, "kubernetes.io/os: linux");
    Scenario::about("The node's zone is a label that may come, change and go.")
        .apply_text(&manifests)
        .check("cli-a", "web:80/tcp", answers("web-1"))
        .apply_text(&moved)
        .check("cli-a", "web:80/tcp", answers("web-3"))
        .apply_text(&nowhere)
        .check("cli-a", "web:80/tcp", answers("web-1 web-3"))
}
