//! Changes while the proxy runs: objects come, change and go.

use super::Scenario;
use super::check::{Expect, Seen, answers, masqueraded, seen, stays_with, untouched};
use super::cluster_ip::{TWENTY, twenty};
use super::manifest::{ServiceYaml, cluster, service};

const ALL: &str = "web-1 web-2 web-3 web-4";

/// TCP and UDP.
fn web() -> ServiceYaml {
    service("web").tcp(80).udp_too()
}

pub(super) fn pool_grows_and_shrinks() -> Scenario {
    Scenario::about("Endpoints come and go, down to none and up again.")
        .apply([web().endpoints("web-1")])
        .check("cli-a node-a", "web:80/tcp+udp", answers("web-1"))
        .apply([web().endpoints("web-1 web-2 web-3")])
        .check(
            "cli-a node-a",
            "web:80/tcp+udp",
            answers("web-1 web-2 web-3"),
        )
        .apply([web().endpoints("web-2 web-3")])
        .check("cli-a node-a", "web:80/tcp+udp", answers("web-2 web-3"))
        .apply([web()])
        .check("cli-a node-a", "web:80/tcp+udp", Expect::Refused)
        .apply([web().endpoints(ALL)])
        .check("cli-a node-a", "web:80/tcp+udp", answers(ALL))
}

pub(super) fn every_member_leaves_once() -> Scenario {
    Scenario::about("Whichever endpoint leaves, the rest stay in use.")
        .apply([web().endpoints(ALL)])
        .apply([web().endpoints("web-2 web-3 web-4")])
        .check("cli-a", "web:80/tcp", answers("web-2 web-3 web-4"))
        .apply([web().endpoints("web-1 web-3 web-4")])
        .check("cli-a", "web:80/tcp", answers("web-1 web-3 web-4"))
        .apply([web().endpoints("web-1 web-2 web-4")])
        .check("cli-a", "web:80/tcp", answers("web-1 web-2 web-4"))
        .apply([web().endpoints("web-1 web-2 web-3")])
        .check("cli-a", "web:80/tcp", answers("web-1 web-2 web-3"))
}

pub(super) fn endpoint_replaced() -> Scenario {
    Scenario::about("In a rolling update one endpoint takes the place of another.")
        .apply([web().endpoints("web-1 web-2")])
        .check("cli-a node-a", "web:80/tcp+udp", answers("web-1 web-2"))
        .apply([web().endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:80/tcp+udp", answers("web-1 web-3"))
        .apply([web().endpoints("web-4 web-3")])
        .check("cli-a node-a", "web:80/tcp+udp", answers("web-3 web-4"))
}

pub(super) fn rolling_update_by_conditions() -> Scenario {
    Scenario::about("Starting, ready, terminating, gone: the life of a pod as slices tell it.")
        .apply([web().endpoints("web-1")])
        .apply([web().endpoints("web-1 web-3:starting")])
        .check("cli-a", "web:80/tcp", answers("web-1"))
        .apply([web().endpoints("web-1 web-3")])
        .check("cli-a", "web:80/tcp", answers("web-1 web-3"))
        .apply([web().endpoints("web-1:terminating web-3")])
        .check("cli-a", "web:80/tcp", answers("web-3"))
        .apply([web().endpoints("web-1:dying web-3:terminating")])
        .check("cli-a", "web:80/tcp", answers("web-3"))
        .apply([web().endpoints("web-3:dying")])
        .check("cli-a", "web:80/tcp", Expect::Refused)
}

pub(super) fn large_pool_comes_and_goes() -> Scenario {
    Scenario::about("A pool grows from one to twenty and shrinks again.")
        .apply([service("web").tcp(80).endpoints("web-1")])
        .check("cli-a", "web:80/tcp", answers("web-1"))
        .apply([twenty()])
        .check("cli-a", "web:80/tcp", answers(TWENTY))
        .apply([service("web").tcp(80).endpoints("web-2 web-4")])
        .check("cli-a", "web:80/tcp", answers("web-2 web-4"))
}

pub(super) fn service_deleted() -> Scenario {
    let all = |it: ServiceYaml| it.load_balancer("VIP").external_ips().node_port(30080);
    Scenario::about("A deleted Service leaves nothing behind, and can be created again.")
        .apply([all(web()).endpoints(ALL)])
        .check("cli-a", "web:80/tcp", answers(ALL))
        .check("client", "web.lb:80/tcp", masqueraded(ALL))
        .apply([])
        .check("cli-a node-a", "web:80/tcp+udp", Expect::Dropped)
        .check("client", "web.lb:80/tcp", untouched("router"))
        .check("client", "web.ext:80/tcp", untouched("router"))
        .check("client", "node-a:30080/tcp", untouched("node-a"))
        .apply([all(web()).endpoints("web-2 web-3")])
        .check("cli-a", "web:80/tcp+udp", answers("web-2 web-3"))
        .check("client", "web.lb:80/tcp", masqueraded("web-2 web-3"))
}

pub(super) fn slices_before_the_service() -> Scenario {
    let yaml = cluster([web().endpoints("web-1 web-3")]);
    let start = yaml
        .find("---\napiVersion: v1\nkind: Service\n")
        .expect("it has a Service");
    let end = start + 4 + yaml[start + 4..].find("---\n").expect("slices follow");
    let slices_only = format!("{}{}", &yaml[..start], &yaml[end..]);
    Scenario::about("Slices may arrive before their Service; together they work.")
        .apply_text(&slices_only)
        .check("cli-a", "web:80/tcp", Expect::Dropped)
        .apply_text(&yaml)
        .check("cli-a", "web:80/tcp+udp", answers("web-1 web-3"))
        .apply_text(&slices_only)
        .check("cli-a", "web:80/tcp", Expect::Dropped)
}

pub(super) fn type_changed() -> Scenario {
    Scenario::about(
        "A Service becomes a NodePort and a ClusterIP again without losing its address.",
    )
    .apply([web().endpoints("web-1 web-3")])
    .check("client", "node-a:30080/tcp", untouched("node-a"))
    .apply([web().node_port(30080).endpoints("web-1 web-3")])
    .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
    .check("cli-a", "web:80/tcp", answers("web-1 web-3"))
    .apply([web().endpoints("web-1 web-3")])
    .check("client", "node-a:30080/tcp", untouched("node-a"))
    .check("cli-a", "web:80/tcp", answers("web-1 web-3"))
}

pub(super) fn node_port_changed() -> Scenario {
    Scenario::about("When the NodePort changes, the new one answers and the old one is closed.")
        .apply([web().node_port(30080).endpoints("web-1 web-3")])
        .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
        .apply([web().node_port(30090).endpoints("web-1 web-3")])
        .check("client", "node-a:30090/tcp", masqueraded("web-1 web-3"))
        .check("client", "node-a:30080/tcp", untouched("node-a"))
}

pub(super) fn node_port_handed_over() -> Scenario {
    Scenario::about("A NodePort that one Service gives up can be taken by the next at once.")
        .apply([web().node_port(30080).endpoints("web-1")])
        .check("client", "node-a:30080/tcp", masqueraded("web-1"))
        .apply([service("api").tcp(80).node_port(30080).endpoints("web-2")])
        .check("client", "node-a:30080/tcp", masqueraded("web-2"))
        .check("cli-a", "web:80/tcp", Expect::Dropped)
}

pub(super) fn port_changed() -> Scenario {
    Scenario::about("When the port changes, the old one becomes undefined.")
        .apply([service("web").tcp(80).endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-3"))
        .apply([service("web").tcp(81).endpoints("web-1 web-3")])
        .check("cli-a node-a", "web:81/tcp", answers("web-1 web-3"))
        .check("cli-a node-a", "web:80/tcp", Expect::Refused)
}

pub(super) fn target_port_changed() -> Scenario {
    Scenario::about("The pods' port may change under a Service that stays as it is.")
        .apply([web().endpoints("web-1 web-3")])
        .check("cli-a", "web:80/tcp+udp", answers("web-1 web-3"))
        .apply([web().endpoints("web-1 web-3").on(&[8081, 8081])])
        .check("cli-a", "web:80/tcp+udp", answers("web-1:8081 web-3:8081"))
}

pub(super) fn cluster_ip_changed() -> Scenario {
    Scenario::about("A Service that was created anew may have another ClusterIP.")
        .apply([web().endpoints("web-1")])
        .check("cli-a", "web:80/tcp", answers("web-1"))
        .apply([web()
            .cluster_ips("[10.96.0.11, \"fd00:10:96::b\"]")
            .endpoints("web-1")])
        .check("cli-a", "api:80/tcp+udp", answers("web-1"))
        .check("cli-a", "web:80/tcp", Expect::Dropped)
}

pub(super) fn addresses_added_later() -> Scenario {
    Scenario::about("A load balancer's address appears when the cloud has created it, and may go.")
        .apply([web().kind("LoadBalancer").endpoints("web-1 web-3")])
        .check("client", "web.lb:80/tcp", untouched("router"))
        .apply([web()
            .load_balancer("VIP")
            .external_ips()
            .endpoints("web-1 web-3")])
        .check("client", "web.lb:80/tcp+udp", masqueraded("web-1 web-3"))
        .check("client", "web.ext:80/tcp", masqueraded("web-1 web-3"))
        .apply([web().kind("LoadBalancer").endpoints("web-1 web-3")])
        .check("client", "web.lb:80/tcp", untouched("router"))
        .check("client", "web.ext:80/tcp", untouched("router"))
}

pub(super) fn source_ranges_changed() -> Scenario {
    let ranges = |list: &str| {
        let line = format!("loadBalancerSourceRanges: [{list}]");
        web()
            .load_balancer("VIP")
            .spec(line)
            .endpoints("web-1 web-3")
    };
    Scenario::about("Source ranges open and close while the Service is in use.")
        .apply([ranges("")])
        .check("client cli-a", "web.lb:80/tcp", masqueraded("web-1 web-3"))
        .apply([ranges("192.168.100.0/24, \"fd00:100::/64\"")])
        .check("client", "web.lb:80/tcp", masqueraded("web-1 web-3"))
        .check("cli-a", "web.lb:80/tcp", Expect::Dropped)
        .apply([ranges("10.244.0.0/16, \"fd00:10:244::/56\"")])
        .check("client", "web.lb:80/tcp", Expect::Dropped)
        .check("cli-a", "web.lb:80/tcp", masqueraded("web-1 web-3"))
        .apply([ranges("")])
        .check("client cli-a", "web.lb:80/tcp", masqueraded("web-1 web-3"))
}

pub(super) fn policies_changed() -> Scenario {
    let web = || web().node_port(30080);
    Scenario::about("Traffic policies can be changed on a Service in use, and back.")
        .apply([web().endpoints("web-1 web-3")])
        .check("cli-a", "web:80/tcp", answers("web-1 web-3"))
        .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
        .apply([web()
            .spec("internalTrafficPolicy: Local")
            .spec("externalTrafficPolicy: Local")
            .endpoints("web-1 web-3")])
        .check("cli-a", "web:80/tcp", answers("web-1"))
        .check("client", "node-a:30080/tcp", answers("web-1"))
        .apply([web().endpoints("web-1 web-3")])
        .check("cli-a", "web:80/tcp", answers("web-1 web-3"))
        .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
}

pub(super) fn local_endpoint_comes_and_goes() -> Scenario {
    let web = || web().spec("externalTrafficPolicy: Local").node_port(30080);
    Scenario::about("Under a Local policy the node answers while it has an endpoint.")
        .apply([web().endpoints("web-3")])
        .check("client", "node-a:30080/tcp", Expect::Dropped)
        .apply([web().endpoints("web-1 web-3")])
        .check("client", "node-a:30080/tcp+udp", answers("web-1"))
        .apply([web().endpoints("web-4")])
        .check("client", "node-a:30080/tcp", Expect::Dropped)
        .apply([web()])
        .check("client", "node-a:30080/tcp", Expect::Refused)
}

pub(super) fn service_cidr_added() -> Scenario {
    let manifests = cluster([web().endpoints("web-1")]);
    let start = manifests.find("---\napiVersion: networking.k8s.io/v1");
    let start = start.expect("it has a ServiceCIDR");
    let end = start
        + 4
        + manifests[start + 4..]
            .find("---\n")
            .expect("a Service follows");
    let without = format!("{}{}", &manifests[..start], &manifests[end..]);
    Scenario::about(
        "A ServiceCIDR's unused addresses are dropped from its creation to its deletion.",
    )
    .apply_text(&without)
    .check("cli-a", "unallocated:80/tcp", untouched("router"))
    .apply_text(&manifests)
    .check("cli-a node-a", "unallocated:80/tcp", Expect::Dropped)
    .check("cli-a", "web:80/tcp", answers("web-1"))
    .apply_text(&without)
    .check("cli-a", "unallocated:80/tcp", untouched("router"))
    .check("cli-a", "web:80/tcp", answers("web-1"))
}

pub(super) fn node_address_changed() -> Scenario {
    let manifests = cluster([web().node_port(30080).endpoints("web-1 web-3")]);
    let moved = manifests
        .replace("\"192.168.100.10\"", "\"192.168.100.200\"")
        .replace("\"fd00:100::a\"", "\"fd00:100::c8\"");
    Scenario::about("NodePorts follow the node's primary address.")
        .node_address("node-a.extra")
        .apply_text(&manifests)
        .check("client", "node-a:30080/tcp", masqueraded("web-1 web-3"))
        .apply_text(&moved)
        .check(
            "client",
            "node-a.extra:30080/tcp",
            masqueraded("web-1 web-3"),
        )
        .check("client", "node-a:30080/tcp", untouched("node-a"))
}

pub(super) fn connections_survive() -> Scenario {
    let all = |it: ServiceYaml| it.load_balancer("VIP").external_ips().node_port(30080);
    Scenario::about(
        "An open connection outlives the removal of another endpoint, a change of everything \
         else, and even of its own Service.",
    )
    .apply([web().endpoints("web-1")])
    .hold("cli-a", "web:80/tcp")
    .hold("node-a", "web:80/tcp")
    .apply([all(web()).endpoints(ALL)])
    .hold("client", "node-a:30080/tcp")
    .hold("client", "web.lb:80/tcp")
    .check("cli-a", "web:80/tcp", answers(ALL))
    .apply([all(web()).endpoints("web-1 web-2 web-4")])
    .check("cli-a", "web:80/tcp", answers("web-1 web-2 web-4"))
    .apply([web()
        .spec("sessionAffinity: ClientIP")
        .endpoints("web-1 web-2")])
    .apply([service("api").tcp(80).endpoints("web-3")])
    .apply([])
    .apply([web().endpoints("web-4")])
    .check("cli-a", "web:80/tcp", answers("web-4"))
}

pub(super) fn everything_replaced_at_once() -> Scenario {
    Scenario::about("One batch may replace all Services by others.")
        .apply([
            web().node_port(30080).endpoints("web-1 web-3"),
            service("old").tcp(80).endpoints("web-1"),
        ])
        .check("cli-a", "web:80/tcp", answers("web-1 web-3"))
        .apply([
            service("api")
                .tcp(80)
                .node_port(30080)
                .endpoints("web-2 web-4"),
            service("new")
                .spec("internalTrafficPolicy: Local")
                .tcp(80)
                .endpoints("web-1 web-3"),
            service("dns").udp(53).endpoints("web-4"),
        ])
        .check("cli-a", "api:80/tcp", answers("web-2 web-4"))
        .check("client", "node-a:30080/tcp", masqueraded("web-2 web-4"))
        .check("cli-a", "new:80/tcp", answers("web-1"))
        .check("cli-a", "dns:53/udp", answers("web-4"))
        .check("cli-a", "web:80/tcp", Expect::Dropped)
        .check("cli-a", "old:80/tcp", Expect::Dropped)
}

pub(super) fn shared_endpoint() -> Scenario {
    Scenario::about("An endpoint that two Services share serves the one when the other is gone.")
        .apply([
            web().endpoints("web-1 web-3"),
            service("api").tcp(80).endpoints("web-1"),
        ])
        .check("web-1", "api:80/tcp", masqueraded("web-1"))
        .apply([web().endpoints("web-1 web-3")])
        .check(
            "web-1",
            "web:80/tcp+udp",
            seen("web-1 web-3", Seen::ClientUnlessItself),
        )
        .apply([service("api").tcp(80).endpoints("web-1")])
        .check("web-1", "api:80/tcp", masqueraded("web-1"))
}

pub(super) fn slice_moves_to_another_service() -> Scenario {
    let manifests = cluster([web().endpoints("web-1"), service("api").tcp(80).udp_too()]);
    let label = "kubernetes.io/service-name: web";
    let moved = manifests.replace(label, "kubernetes.io/service-name: api");
    Scenario::about("A slice belongs to the Service that its label names, also when that changes.")
        .apply_text(&manifests)
        .check("cli-a", "web:80/tcp", answers("web-1"))
        .check("cli-a", "api:80/tcp", Expect::Refused)
        .apply_text(&moved)
        .check("cli-a", "web:80/tcp", Expect::Refused)
        .check("cli-a", "api:80/tcp+udp", answers("web-1"))
}

pub(super) fn restart() -> Scenario {
    let all = |it: ServiceYaml| it.load_balancer("VIP").node_port(30080);
    Scenario::about("A restarted proxy adopts the rules it finds, and goes on from there.")
        .apply([all(web()).endpoints(ALL)])
        .apply([all(web()).endpoints("web-1 web-3 web-4")])
        .hold("cli-a", "web:80/tcp")
        .restart()
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-3 web-4"))
        .apply([
            all(web()).endpoints("web-4 web-2 web-3"),
            service("api").tcp(80),
        ])
        .check(
            "cli-a node-a",
            "web:80/tcp+udp",
            answers("web-2 web-3 web-4"),
        )
        .check(
            "client",
            "node-a:30080/tcp",
            masqueraded("web-2 web-3 web-4"),
        )
}

pub(super) fn restart_then_deleted() -> Scenario {
    let all = |it: ServiceYaml| it.load_balancer("VIP").node_port(30080);
    Scenario::about("A restarted proxy removes rules that it wrote before and no Service needs.")
        .apply([all(web()).endpoints(ALL), service("api").tcp(80)])
        .check("cli-a", "web:80/tcp", answers(ALL))
        .restart()
        .apply([service("api").tcp(80).endpoints("web-1")])
        .check("cli-a", "api:80/tcp", answers("web-1"))
        .check("cli-a", "web:80/tcp", Expect::Dropped)
}

pub(super) fn restart_with_affinity() -> Scenario {
    let web = || web().spec("sessionAffinity: ClientIP");
    Scenario::about("Clients keep their endpoints over a restart of the proxy.")
        .apply([web().endpoints("web-1")])
        .check("cli-a", "web:80/tcp+udp", stays_with("web-1", "web-1"))
        .restart()
        .apply([web().endpoints(ALL)])
        .check("cli-a", "web:80/tcp+udp", stays_with("web-1", ALL))
        .restart()
        .check("cli-a", "web:80/tcp+udp", stays_with("web-1", ALL))
}
