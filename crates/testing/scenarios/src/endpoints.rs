//! Which endpoints are used: conditions, duplicates, and Services of other proxies.

use super::Scenario;
use super::check::{Expect, answers, masqueraded, untouched};
use super::manifest::service;

/// A TCP Service with these endpoints, and requests from a pod and from the node.
fn with_endpoints(about: &'static str, endpoints: &'static str, expect: Expect) -> Scenario {
    Scenario::about(about)
        .apply([service("web").tcp(80).endpoints(endpoints)])
        .check("cli-a node-a", "web:80/tcp", expect)
}

pub(super) fn not_ready() -> Scenario {
    with_endpoints(
        "A pod that is not ready gets no connections.",
        "web-1 web-2:starting web-3 web-4:starting",
        answers("web-1 web-3"),
    )
}

pub(super) fn none_ready() -> Scenario {
    with_endpoints(
        "While all pods are still starting, the Service refuses.",
        "web-1:starting web-3:starting",
        Expect::Refused,
    )
}

pub(super) fn ready_by_default() -> Scenario {
    with_endpoints(
        "A slice that says nothing about readiness means ready.",
        "web-1 web-2:ready web-3",
        answers("web-1 web-2 web-3"),
    )
}

pub(super) fn terminating_beside_ready() -> Scenario {
    with_endpoints(
        "A pod that is shutting down gets nothing new while another one is ready.",
        "web-1:terminating web-2 web-3:terminating",
        answers("web-2"),
    )
}

pub(super) fn only_terminating() -> Scenario {
    with_endpoints(
        "When every pod is shutting down, those that still serve are used.",
        "web-1:terminating web-2:dying web-3:terminating",
        answers("web-1 web-3"),
    )
}

pub(super) fn terminating_beside_starting() -> Scenario {
    with_endpoints(
        "A pod that is not ready yet does not keep the terminating ones from serving.",
        "web-1:terminating web-3:starting",
        answers("web-1"),
    )
}

pub(super) fn only_dying() -> Scenario {
    with_endpoints(
        "Pods that are shutting down and no longer serve get no connections.",
        "web-1:dying web-3:dying",
        Expect::Refused,
    )
}

pub(super) fn published_though_not_ready() -> Scenario {
    with_endpoints(
        "With publishNotReadyAddresses the controller writes ready, and the proxy follows it.",
        "web-1:published web-3:published",
        answers("web-1 web-3"),
    )
}

pub(super) fn duplicates_across_slices() -> Scenario {
    Scenario::about("An endpoint that two slices name, as while it moves, is one endpoint.")
        .apply([service("web")
            .tcp(80)
            .slice("a", "web-1 web-2")
            .slice("b", "web-2 web-3")])
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-2 web-3"))
}

pub(super) fn terminating_duplicate() -> Scenario {
    Scenario::about("Of two statements about an endpoint, \"terminating\" never beats \"alive\".")
        .apply([
            service("web")
                .tcp(80)
                .slice("a", "web-1")
                .slice("b", "web-1:terminating web-3"),
            service("api")
                .tcp(80)
                .slice("a", "web-1:terminating web-3")
                .slice("b", "web-1"),
        ])
        .check("cli-a", "web:80/tcp", answers("web-1 web-3"))
        .check("cli-a", "api:80/tcp", answers("web-1 web-3"))
}

pub(super) fn slices_of_both_nodes() -> Scenario {
    Scenario::about("The endpoints of a Service are those of all its slices.")
        .apply([service("web")
            .tcp(80)
            .slice("a", "web-1")
            .slice("b", "web-3")
            .slice("c", "web-4")])
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-3 web-4"))
}

pub(super) fn headless_slices() -> Scenario {
    Scenario::about("A slice with the label service.kubernetes.io/headless is not for proxies.")
        .apply([service("web")
            .tcp(80)
            .slice("a", "web-1")
            .slice("b", "web-3")
            .slice_label("service.kubernetes.io/headless: \"\"")])
        .check("cli-a", "web:80/tcp", answers("web-1"))
}

pub(super) fn headless_service() -> Scenario {
    Scenario::about("A headless Service has no virtual IP: clients dial the pods themselves.")
        .apply([service("web")
            .cluster_ips("[None]")
            .tcp(80)
            .endpoints("web-1 web-3")])
        .check("cli-a", "web:80/tcp", Expect::Dropped)
        .check("cli-a", "web-3:8080/tcp", untouched("web-3"))
}

pub(super) fn external_name() -> Scenario {
    Scenario::about("An ExternalName Service is a DNS alias; there is nothing to program.")
        .apply([service("web")
            .kind("ExternalName")
            .tcp(80)
            .endpoints("web-1")])
        .check("cli-a", "web:80/tcp", Expect::Dropped)
}

pub(super) fn of_another_proxy() -> Scenario {
    Scenario::about("A Service with the label service-proxy-name belongs to another proxy.")
        .apply([
            service("web")
                .label("service.kubernetes.io/service-proxy-name: other")
                .tcp(80)
                .node_port(30080)
                .external_ips()
                .endpoints("web-1"),
            service("api").tcp(80).node_port(30081).endpoints("web-1"),
        ])
        .check("cli-a", "web:80/tcp", Expect::Dropped)
        .check("client", "node-a:30080/tcp", untouched("node-a"))
        .check("client", "web.ext:80/tcp", untouched("router"))
        .check("client", "node-a:30081/tcp", masqueraded("web-1"))
}
