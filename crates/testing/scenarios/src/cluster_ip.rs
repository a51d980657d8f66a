//! ClusterIPs: one address for many pods.

use super::Scenario;
use super::check::{Expect, Seen, answers, masqueraded, seen, untouched};
use super::manifest::{cluster, service};

const ALL: &str = "web-1 web-2 web-3 web-4";

pub(super) fn spreads_over_every_endpoint() -> Scenario {
    Scenario::about("A ClusterIP spreads connections over all ready endpoints, here and elsewhere.")
        .apply([service("web").tcp(80).endpoints(ALL)])
        .check("cli-a node-a", "web:80/tcp", answers(ALL))
}

pub(super) fn spreads_udp() -> Scenario {
    Scenario::about("For UDP each client socket is a flow of its own, and flows are balanced.")
        .apply([service("dns").udp(53).endpoints(ALL)])
        .check("cli-a node-a", "dns:53/udp", answers(ALL))
}

pub(super) fn through_a_bridge() -> Scenario {
    Scenario::about(
        "Pods that share a bridge with an endpoint reach it through the ClusterIP, too.",
    )
    .bridged()
    .apply([service("web").tcp(80).endpoints(ALL)])
    .check("cli-a node-a", "web:80/tcp", answers(ALL))
}

pub(super) fn single_endpoint() -> Scenario {
    Scenario::about("With one endpoint there is nothing to balance: it answers everything.")
        .apply([service("web").tcp(80).udp_too().endpoints("web-3")])
        .check("cli-a node-a", "web:80/tcp+udp", answers("web-3"))
}

pub(super) fn external_client() -> Scenario {
    Scenario::about("A client outside with a route to the node reaches a ClusterIP like a pod.")
        .apply([service("web").tcp(80).udp_too().endpoints("web-1 web-2")])
        .check("client", "web:80/tcp+udp", answers("web-1 web-2"))
}

pub(super) fn hairpin() -> Scenario {
    Scenario::about(
        "A pod that reaches itself through its Service sees the node as client, for it would \
         answer itself directly.",
    )
    .apply([service("web").tcp(80).udp_too().endpoints("web-1 web-3")])
    .check(
        "web-1",
        "web:80/tcp+udp",
        seen("web-1 web-3", Seen::ClientUnlessItself),
    )
}

pub(super) fn hairpin_alone() -> Scenario {
    Scenario::about("The only endpoint of a Service can be its own client.")
        .apply([service("web").tcp(80).udp_too().endpoints("web-1")])
        .check("web-1", "web:80/tcp+udp", masqueraded("web-1"))
}

pub(super) fn hairpin_without_node_name() -> Scenario {
    Scenario::about(
        "An endpoint whose slice has no nodeName may run here and be its own client: slices that \
         somebody writes by hand often lack the name.",
    )
    .apply([service("web")
        .tcp(80)
        .udp_too()
        .endpoints("web-1:nodeless web-3:nodeless")])
    .check(
        "web-1",
        "web:80/tcp+udp",
        seen("web-1 web-3", Seen::ClientUnlessItself),
    )
    .check("cli-a", "web:80/tcp+udp", answers("web-1 web-3"))
}

pub(super) fn hairpin_through_a_bridge() -> Scenario {
    Scenario::about("A pod reaches itself through its Service also when it hangs on a bridge.")
        .bridged()
        .apply([service("web").tcp(80).udp_too().endpoints("web-1 web-2")])
        .check(
            "web-1",
            "web:80/tcp+udp",
            seen("web-1 web-2", Seen::ClientUnlessItself),
        )
}

pub(super) fn refused_without_slices() -> Scenario {
    Scenario::about("A Service whose selector matches no pod refuses at once.")
        .apply([service("web").tcp(80).udp_too()])
        .check("cli-a node-a client", "web:80/tcp+udp", Expect::Refused)
}

pub(super) fn refused_with_empty_slices() -> Scenario {
    Scenario::about("A slice without endpoints is as good as none.")
        .apply([service("web").tcp(80).udp_too().endpoints("")])
        .check("cli-a node-a client", "web:80/tcp+udp", Expect::Refused)
}

pub(super) fn undefined_port() -> Scenario {
    Scenario::about("A ClusterIP refuses the ports that its Service does not have.")
        .apply([service("web").tcp(80).endpoints("web-1 web-3")])
        .check("cli-a node-a client", "web:81/tcp+udp", Expect::Refused)
        .check("cli-a node-a client", "web:80/udp", Expect::Refused)
        .check("cli-a", "web:8080/tcp", Expect::Refused)
}

pub(super) fn unallocated() -> Scenario {
    Scenario::about(
        "Packets to an address of a ServiceCIDR that no Service has are dropped: they must not \
         leave through the default route.",
    )
    .apply([service("web").tcp(80).endpoints("web-1")])
    .check(
        "cli-a node-a client",
        "unallocated:80/tcp+udp",
        Expect::Dropped,
    )
}

pub(super) fn outside_the_service_cidr() -> Scenario {
    Scenario::about("The proxy leaves addresses outside the ServiceCIDRs alone.")
        .apply([service("web").tcp(80).endpoints("web-1")])
        .check("cli-a node-a", "outside:80/tcp+udp", untouched("router"))
        .check("cli-a node-a", "web:80/tcp", answers("web-1"))
}

pub(super) fn without_a_service_cidr() -> Scenario {
    let services = service("web").tcp(80).endpoints("web-1").to_string();
    Scenario::about(
        "Where no ServiceCIDR is known, Services work and other addresses are left alone.",
    )
    .apply_text(&services)
    .check("cli-a node-a", "web:80/tcp", answers("web-1"))
    .check("cli-a", "unallocated:80/tcp", untouched("router"))
}

pub(super) fn two_service_cidrs() -> Scenario {
    let manifests = cluster([service("web").tcp(80).endpoints("web-1")]);
    let second = "---\napiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata:\n  \
                  name: second\nspec:\n  cidrs: [\"10.97.0.0/24\", \"fd00:10:97::/112\"]\n";
    Scenario::about(
        "A cluster can have several ServiceCIDRs; unused addresses of each are dropped.",
    )
    .apply_text(&format!("{manifests}{second}"))
    .check("cli-a", "unallocated:80/tcp", Expect::Dropped)
    .check("cli-a", "outside:80/tcp", Expect::Dropped)
    .check("cli-a", "web:80/tcp", answers("web-1"))
}

pub(super) fn pods_directly() -> Scenario {
    Scenario::about("A client that connects to a pod and not to its Service reaches that pod.")
        .apply([service("web").tcp(80).udp_too().endpoints("web-1 web-3")])
        .check("cli-a node-a", "web-3:8080/tcp+udp", untouched("web-3"))
        .check("client", "web-1:8080/tcp+udp", untouched("web-1"))
        .check("cli-a node-a", "web:80/tcp+udp", answers("web-1 web-3"))
}

pub(super) fn large_pool() -> Scenario {
    Scenario::about("A Service with twenty endpoints uses all of them.")
        .apply([twenty()])
        .check("cli-a node-a", "web:80/tcp", answers(TWENTY))
}

/// A Service with twenty endpoints: five ports on each of four pods.
pub(super) fn twenty() -> super::manifest::ServiceYaml {
    service("web")
        .tcp(80)
        .slice("a", ALL)
        .slice("b", ALL)
        .on(&[8081])
        .slice("c", ALL)
        .on(&[8082])
        .slice("d", ALL)
        .on(&[8083])
        .slice("e", ALL)
        .on(&[8084])
}

/// The names of the endpoints of [`twenty`].
pub(super) const TWENTY: &str = "web-1 web-2 web-3 web-4 \
     web-1:8081 web-2:8081 web-3:8081 web-4:8081 web-1:8082 web-2:8082 web-3:8082 web-4:8082 \
     web-1:8083 web-2:8083 web-3:8083 web-4:8083 web-1:8084 web-2:8084 web-3:8084 web-4:8084";

pub(super) fn host_network_endpoint() -> Scenario {
    Scenario::about("An endpoint may be the node itself, as the API server's are.")
        .apply([service("web").tcp(80).udp_too().endpoints("host-a")])
        .check("cli-a client", "web:80/tcp+udp", answers("host-a"))
        .check(
            "node-a",
            "web:80/tcp+udp",
            seen("host-a", Seen::ClientUnlessItself),
        )
}

pub(super) fn endpoint_outside_the_cluster() -> Scenario {
    Scenario::about("A slice may name a machine outside the cluster, without a node.")
        .apply([service("web").tcp(80).udp_too().endpoints("client web-1")])
        .check("cli-a node-a", "web:80/tcp+udp", answers("client web-1"))
}

pub(super) fn many_services() -> Scenario {
    Scenario::about("Several Services work side by side.")
        .apply([
            service("web").tcp(80).endpoints("web-1 web-3"),
            service("api").tcp(80).endpoints("web-2"),
            service("old").tcp(81).endpoints("web-4"),
            service("new").tcp(80),
            service("dns").udp(80).endpoints("web-1"),
        ])
        .check("cli-a node-a", "web:80/tcp", answers("web-1 web-3"))
        .check("cli-a node-a", "api:80/tcp", answers("web-2"))
        .check("cli-a node-a", "old:81/tcp", answers("web-4"))
        .check("cli-a node-a", "new:80/tcp", Expect::Refused)
        .check("cli-a node-a", "dns:80/udp", answers("web-1"))
        .check("cli-a", "web:81/tcp", Expect::Refused)
}
