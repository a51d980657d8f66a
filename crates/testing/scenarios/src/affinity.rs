//! Session affinity: a client stays with its endpoint.

use std::time::Duration;

use super::Scenario;
use super::check::{Expect, answers, stays, stays_with};
use super::cluster_ip::{TWENTY, twenty};
use super::manifest::{ServiceYaml, service};
use super::masquerade::pods_by_cidr;

const ALL: &str = "web-1 web-2 web-3 web-4";

fn sticky(name: &'static str) -> ServiceYaml {
    service(name).spec("sessionAffinity: ClientIP")
}

fn web() -> ServiceYaml {
    sticky("web").tcp(80).udp_too()
}

pub(super) fn a_client_stays() -> Scenario {
    Scenario::about("With session affinity all connections of a client go to one endpoint.")
        .apply([web().node_port(30080).endpoints(ALL)])
        .check("cli-a node-a web-1", "web:80/tcp+udp", stays(ALL))
        .check("client", "node-a:30080/tcp+udp", stays(ALL))
}

pub(super) fn a_client_stays_with_one_of_twenty() -> Scenario {
    Scenario::about("Affinity holds in a large pool, too.")
        .apply([twenty().spec("sessionAffinity: ClientIP")])
        .check("cli-a node-a", "web:80/tcp", stays(TWENTY))
}

pub(super) fn added_endpoints_move_no_client() -> Scenario {
    Scenario::about("A client keeps its endpoint when endpoints are added.")
        .apply([web().endpoints("web-1")])
        .check(
            "cli-a node-a",
            "web:80/tcp+udp",
            stays_with("web-1", "web-1"),
        )
        .apply([web().endpoints(ALL)])
        .check("cli-a node-a", "web:80/tcp+udp", stays_with("web-1", ALL))
}

pub(super) fn each_client_its_own() -> Scenario {
    let hinted = "web-1:zone-b web-3:zone-a";
    let local = || {
        let web = sticky("web").spec("externalTrafficPolicy: Local");
        web.tcp(80).node_port(30080)
    };
    Scenario::about(
        "Affinity is per client: two clients that were sent to different endpoints stay apart.",
    )
    .apply([local().endpoints(hinted)])
    .check("cli-a", "web:80/tcp", stays_with("web-3", "web-3"))
    .check("client", "node-a:30080/tcp", stays_with("web-1", "web-1"))
    .apply([local().endpoints("web-1 web-3")])
    .check("cli-a", "web:80/tcp", stays_with("web-3", "web-1 web-3"))
    .check("client", "web:80/tcp", stays_with("web-1", "web-1 web-3"))
}

pub(super) fn forgotten_after_the_timeout() -> Scenario {
    let brief = || web().spec("sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}");
    Scenario::about("A client that was quiet for the timeout is balanced anew.")
        .apply([brief().endpoints("web-1")])
        .check("cli-a", "web:80/tcp4+udp6", stays_with("web-1", "web-1"))
        .apply([brief().endpoints(ALL)])
        .check(
            "cli-a",
            "web:80/tcp4+udp6",
            Expect::Moves {
                away_from: "web-1",
                among: ALL.split(' ').collect(),
                idle: Duration::from_millis(1300),
            },
        )
}

pub(super) fn another_endpoint_removed() -> Scenario {
    Scenario::about("Removing an endpoint moves only its own clients.")
        .apply([web().endpoints("web-1")])
        .check(
            "cli-a node-a",
            "web:80/tcp+udp",
            stays_with("web-1", "web-1"),
        )
        .apply([web().endpoints(ALL)])
        .check("cli-a node-a", "web:80/tcp+udp", stays_with("web-1", ALL))
        .apply([web().endpoints("web-1 web-3 web-4")])
        .check(
            "cli-a node-a",
            "web:80/tcp+udp",
            stays_with("web-1", "web-1 web-3 web-4"),
        )
        .apply([web().endpoints("web-4 web-1")])
        .check(
            "cli-a node-a",
            "web:80/tcp+udp",
            stays_with("web-1", "web-1 web-4"),
        )
}

pub(super) fn own_endpoint_removed() -> Scenario {
    Scenario::about("A client whose endpoint is gone gets another one, and stays with that.")
        .apply([web().endpoints("web-1")])
        .check(
            "cli-a node-a",
            "web:80/tcp+udp",
            stays_with("web-1", "web-1"),
        )
        .apply([web().endpoints("web-2 web-3")])
        .check("cli-a node-a", "web:80/tcp+udp", stays("web-2 web-3"))
}

pub(super) fn own_endpoint_not_ready() -> Scenario {
    Scenario::about("An endpoint that is no longer ready loses its clients at once.")
        .apply([web().endpoints("web-1")])
        .check("cli-a node-a", "web:80/tcp", stays_with("web-1", "web-1"))
        .apply([web().endpoints("web-1:starting web-2 web-3")])
        .check("cli-a node-a", "web:80/tcp", stays("web-2 web-3"))
}

pub(super) fn shared_by_all_addresses() -> Scenario {
    let web = || web().load_balancer("VIP").external_ips().node_port(30080);
    Scenario::about(
        "A client has one endpoint per Service port, through any address of the Service.",
    )
    .apply([web().endpoints("web-1")])
    .check("cli-a", "web:80/tcp", stays_with("web-1", "web-1"))
    .apply([web().endpoints(ALL)])
    .check("cli-a", "web.lb:80/tcp", stays_with("web-1", ALL))
    .check("cli-a", "web.ext:80/tcp", stays_with("web-1", ALL))
    .check("cli-a", "node-a:30080/tcp", stays_with("web-1", ALL))
    .check("cli-a", "web:80/tcp", stays_with("web-1", ALL))
}

pub(super) fn ports_are_independent() -> Scenario {
    let web = || {
        sticky("web")
            .tcp(80)
            .named("http")
            .tcp(81)
            .named("admin")
            .target(8081)
    };
    Scenario::about("Each port of a Service has its own affinity.")
        .apply([web()
            .slice("a", "web-1")
            .on(&[8080, 0])
            .slice("b", "web-3")
            .on(&[0, 8081])])
        .check("cli-a", "web:80/tcp", stays_with("web-1", "web-1"))
        .check(
            "cli-a",
            "web:81/tcp",
            stays_with("web-3:8081", "web-3:8081"),
        )
        .apply([web().endpoints("web-1 web-2 web-3")])
        .check(
            "cli-a",
            "web:80/tcp",
            stays_with("web-1", "web-1 web-2 web-3"),
        )
        .check(
            "cli-a",
            "web:81/tcp",
            stays_with("web-3:8081", "web-1:8081 web-2:8081 web-3:8081"),
        )
}

pub(super) fn with_local_policies() -> Scenario {
    Scenario::about("Affinity chooses among the endpoints that the traffic policy leaves.")
        .apply([web()
            .spec("internalTrafficPolicy: Local")
            .spec("externalTrafficPolicy: Local")
            .node_port(30080)
            .endpoints(ALL)])
        .check("cli-a", "web:80/tcp+udp", stays("web-1 web-2"))
        .check("client", "node-a:30080/tcp+udp", stays("web-1 web-2"))
}

pub(super) fn a_client_may_stay_with_itself() -> Scenario {
    Scenario::about("An endpoint that was sent to itself stays with itself.")
        .apply([web().endpoints("web-1")])
        .check("web-1", "web:80/tcp+udp", stays_with("web-1", "web-1"))
        .apply([web().endpoints("web-1 web-2 web-3")])
        .check(
            "web-1",
            "web:80/tcp+udp",
            stays_with("web-1", "web-1 web-2 web-3"),
        )
}

pub(super) fn switched_on_and_off() -> Scenario {
    let plain = || service("web").tcp(80).udp_too();
    Scenario::about("Affinity can be switched on and off while the Service is in use.")
        .apply([plain().endpoints(ALL)])
        .check("cli-a", "web:80/tcp+udp", answers(ALL))
        .apply([web().endpoints(ALL)])
        .check("cli-a", "web:80/tcp+udp", stays(ALL))
        .apply([plain().endpoints(ALL)])
        .check("cli-a", "web:80/tcp+udp", answers(ALL))
}

pub(super) fn timeout_changed() -> Scenario {
    let with = |seconds: u32| {
        web().spec(format!(
            "sessionAffinityConfig: {{clientIP: {{timeoutSeconds: {seconds}}}}}"
        ))
    };
    Scenario::about("When the timeout changes, the Service keeps working and clients stay.")
        .apply([with(60).endpoints("web-1")])
        .check("cli-a", "web:80/tcp", stays_with("web-1", "web-1"))
        .apply([with(7200).endpoints("web-2 web-3")])
        .check("cli-a", "web:80/tcp", stays("web-2 web-3"))
        .apply([with(86400).endpoints(ALL)])
        .check("cli-a", "web:80/tcp", stays(ALL))
}

pub(super) fn without_endpoints() -> Scenario {
    Scenario::about("A sticky Service without endpoints refuses, and works again with some.")
        .apply([web()])
        .check("cli-a node-a", "web:80/tcp+udp", Expect::Refused)
        .apply([web().endpoints(ALL)])
        .check("cli-a node-a", "web:80/tcp+udp", stays(ALL))
        .apply([web()])
        .check("cli-a node-a", "web:80/tcp", Expect::Refused)
}

pub(super) fn refreshed_by_each_connection() -> Scenario {
    let line = "sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}";
    Scenario::about("The timeout runs from the last new connection, not from the first.")
        .apply([twenty().spec("sessionAffinity: ClientIP").spec(line)])
        .check(
            "cli-a",
            "web:80/tcp4",
            Expect::Refreshes {
                among: TWENTY.split_whitespace().collect(),
                timeout: Duration::from_secs(1),
            },
        )
}

pub(super) fn without_a_local_endpoint() -> Scenario {
    Scenario::about("With affinity a Local policy still drops far clients and serves near ones.")
        .settings(pods_by_cidr)
        .apply([web()
            .load_balancer("VIP")
            .spec("externalTrafficPolicy: Local")
            .node_port(30080)
            .endpoints("web-3 web-4")])
        .check("client", "node-a:30080/tcp+udp", Expect::Dropped)
        .check("client", "web.lb:80/tcp", Expect::Dropped)
        .check("cli-a node-a", "web.lb:80/tcp", stays("web-3 web-4"))
        .check("cli-a node-a", "node-a:30080/udp", stays("web-3 web-4"))
}
