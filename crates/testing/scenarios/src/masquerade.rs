//! Which clients of a ClusterIP are masqueraded.

use ipnet::IpNet;
use sluice_plan::settings::{LocalDetector, Settings};

use super::Scenario;
use super::check::{Seen, answers, masqueraded, seen};
use super::manifest::service;
use sluice_lab::{CLUSTER_CIDR_V4, CLUSTER_CIDR_V6};

const ALL: &str = "web-1 web-2 web-3 web-4";

/// The operator says which addresses pods have: `--cluster-cidr`.
pub(super) fn pods_by_cidr(settings: &mut Settings) {
    let cidrs = vec![CLUSTER_CIDR_V4.into(), CLUSTER_CIDR_V6.into()];
    settings.local_detector = LocalDetector::ClusterCidrs(cidrs);
}

fn detected_by(about: &'static str, detector: LocalDetector) -> Scenario {
    Scenario::about(about)
        .settings(|it| it.local_detector = detector)
        .apply([service("web").tcp(80).udp_too().endpoints(ALL)])
}

pub(super) fn no_client_without_a_detector() -> Scenario {
    Scenario::about(
        "A proxy that cannot tell pods from others masquerades nobody: the endpoint sees the \
         client, and has to know the way back.",
    )
    .apply([
        service("web").tcp(80).endpoints(ALL),
        service("api").tcp(80).endpoints("web-1 web-2"),
    ])
    .check("cli-a node-a", "web:80/tcp", answers(ALL))
    .check("client", "api:80/tcp", answers("web-1 web-2"))
}

pub(super) fn cluster_cidr() -> Scenario {
    let cidrs = vec![CLUSTER_CIDR_V4.into(), CLUSTER_CIDR_V6.into()];
    detected_by(
        "With the pods' address range known, everybody else is masqueraded, so that answers of \
         any endpoint come back through this node.",
        LocalDetector::ClusterCidrs(cidrs),
    )
    .check("cli-a", "web:80/tcp+udp", answers(ALL))
    .check("client node-a", "web:80/tcp+udp", masqueraded(ALL))
}

pub(super) fn only_the_first_cidr_counts() -> Scenario {
    let nets = [
        "10.244.1.0/24",
        "10.244.0.0/16",
        "fd00:10:244:1::/64",
        "fd00:10:244::/56",
    ];
    let nets = nets.map(|it| it.parse::<IpNet>().expect("the constant is a prefix"));
    detected_by(
        "Of several pod ranges of one family only the first counts, as in kube-proxy.",
        LocalDetector::ClusterCidrs(nets.to_vec()),
    )
    .check("cli-a", "web:80/tcp", masqueraded(ALL))
}

pub(super) fn cidr_of_one_family() -> Scenario {
    detected_by(
        "A family without a pod range is treated as if there were no detector.",
        LocalDetector::ClusterCidrs(vec![CLUSTER_CIDR_V4.into()]),
    )
    .check("client node-a", "web:80/tcp4", masqueraded(ALL))
    .check("cli-a", "web:80/tcp", answers(ALL))
    .check("node-a", "web:80/tcp6", answers(ALL))
}

pub(super) fn node_cidr() -> Scenario {
    detected_by(
        "The node's own pod range, from the Node object, tells its pods from all other clients.",
        LocalDetector::NodeCidr,
    )
    .check("cli-a", "web:80/tcp+udp", answers(ALL))
    .check("client node-a", "web:80/tcp+udp", masqueraded(ALL))
}

pub(super) fn node_cidr_without_a_node() -> Scenario {
    let services = service("web").tcp(80).endpoints("web-1 web-2").to_string();
    Scenario::about("Without a Node object there is no node range, and nobody is masqueraded.")
        .settings(|it| it.local_detector = LocalDetector::NodeCidr)
        .apply_text(&services)
        .check("cli-a node-a client", "web:80/tcp", answers("web-1 web-2"))
}

pub(super) fn bridge() -> Scenario {
    detected_by(
        "Packets of pods arrive through the bridge; the node's own packets arrive nowhere.",
        LocalDetector::Bridge("cni0".into()),
    )
    .bridged()
    .check("cli-a", "web:80/tcp+udp", answers(ALL))
    .check("client node-a", "web:80/tcp+udp", masqueraded(ALL))
}

pub(super) fn interface_prefix() -> Scenario {
    detected_by(
        "Packets of pods arrive through interfaces whose names have the configured prefix.",
        LocalDetector::InterfacePrefix("veth".into()),
    )
    .check("cli-a", "web:80/tcp+udp", answers(ALL))
    .check("client node-a", "web:80/tcp+udp", masqueraded(ALL))
}

pub(super) fn all_clients() -> Scenario {
    Scenario::about("--masquerade-all hides every client of a ClusterIP behind the node.")
        .settings(|it| it.masquerade_all = true)
        .apply([service("web").tcp(80).udp_too().endpoints(ALL)])
        .check("cli-a node-a client", "web:80/tcp+udp", masqueraded(ALL))
}

pub(super) fn all_clients_despite_a_detector() -> Scenario {
    Scenario::about("--masquerade-all takes precedence over knowing the pods.")
        .settings(pods_by_cidr)
        .settings(|it| it.masquerade_all = true)
        .apply([service("web").tcp(80).endpoints(ALL)])
        .check("cli-a node-a client", "web:80/tcp", masqueraded(ALL))
}

pub(super) fn hairpin_with_a_detector() -> Scenario {
    Scenario::about("A pod of this node keeps its address, except when it reaches itself.")
        .settings(pods_by_cidr)
        .apply([service("web")
            .tcp(80)
            .udp_too()
            .endpoints("web-1 web-2 web-3")])
        .check(
            "web-1 web-2",
            "web:80/tcp+udp",
            seen("web-1 web-2 web-3", Seen::ClientUnlessItself),
        )
}

pub(super) fn another_mark() -> Scenario {
    Scenario::about("The mark bit that means \"masquerade\" is the operator's choice.")
        .settings(pods_by_cidr)
        .settings(|it| it.masquerade_mark = 1 << 20)
        .apply([service("web").tcp(80).endpoints(ALL)])
        .check("cli-a", "web:80/tcp", answers(ALL))
        .check("client", "web:80/tcp", masqueraded(ALL))
}
