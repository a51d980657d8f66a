use super::*;
use crate::Event;
use crate::settings::Settings;
use crate::testing::{NODE, endpoints as slices, node, planner, service as object};

fn cluster(services: impl IntoIterator<Item = Event>, endpoints: Vec<Event>) -> Planner {
    let node = [node("node-a 192.168.0.1")];
    let all = node.into_iter().chain(services).chain(endpoints);
    planner(Settings::for_node(NODE), all)
}

#[test]
fn patterns() {
    for pattern in [
        "",
        "web",
        "default/",
        "*",
        "def*web",
        "default/w*",
        "*/web",
        "d*f*web",
        "w*",
    ] {
        assert!(fits(pattern, "default/web"), "{pattern}");
    }
    for pattern in [
        "api",
        "webs*",
        "*w",
        "eb*",
        "kube-system/*",
        "default/web*x",
        "*/w",
    ] {
        assert!(!fits(pattern, "default/web"), "{pattern}");
    }
}

#[test]
fn a_line_for_each_service() {
    let planner = cluster(
        [
            object("web 10.96.0.1 NodePort http:80@30080"),
            object("dead 10.96.0.2 :80"),
            object("old headless :80"),
        ],
        slices("web:http", "10.244.0.1:8080@ 10.244.0.2:8080!"),
    );
    let all = services(&planner, "");
    let line = |it: &ServiceSummary| {
        let (kind, ready, all) = (&it.kind, it.ready, it.endpoints);
        format!("{} {kind} {ready}/{all} {}", it.name, it.is_dead)
    };
    let lines: Vec<_> = all.iter().map(line).collect();
    let expected = [
        "default/dead ClusterIP 0/0 true",
        "default/old Headless 0/0 false",
        "default/web NodePort 1/2 false",
    ];
    assert_eq!(lines, expected);
    let frontends = ["10.96.0.1:80/tcp", "IPv4 NodePort 30080/tcp"];
    assert_eq!(all[2].frontends, frontends);
}

#[test]
fn every_endpoint_of_a_service() {
    let endpoints = "10.244.0.1:8080@*here 10.244.0.2:8080 10.244.0.3:8080!@";
    let planner = cluster(
        [object("web 10.96.0.1 http:80 itp=local")],
        slices("web:http", endpoints),
    );
    let name = NamespacedName::new("default", "web");
    let detail = service(&planner, &name).expect("it exists");
    assert_eq!(detail.internal_policy, "Local");
    assert_eq!(detail.slices.len(), 1);
    let line = |it: &EndpointDetail| format!("{} {} {}", it.address, it.included, it.reason);
    let lines: Vec<_> = detail.ports[0].endpoints.iter().map(line).collect();
    let expected = [
        "10.244.0.1:8080 true ",
        "10.244.0.2:8080 false on another node and the policy is Local",
        "10.244.0.3:8080 false not ready",
    ];
    assert_eq!(lines, expected);
    assert_eq!(detail.ports[0].roles, ["ClusterIP"]);
    assert_eq!(
        service(&planner, &NamespacedName::new("default", "api")),
        None
    );
}

#[test]
fn the_endpoints_behind_each_frontend() {
    let endpoints = "10.244.0.1:8080@ 10.244.0.2:8080 10.244.0.3:8080!@";
    let planner = cluster(
        [object("web 10.96.0.1 NodePort http:80@30080 etp=local")],
        slices("web:http", endpoints),
    );
    let name = NamespacedName::new("default", "web");
    let detail = service(&planner, &name).expect("it exists");
    let group = |it: &Group| format!("{} {} {:?}", it.reason, it.count, it.first);
    let line = |it: &FrontendDetail| {
        let unused: Vec<String> = it.unused.iter().map(group).collect();
        format!(
            "{} {}: {}; {}",
            it.role,
            it.policy,
            group(&it.used),
            unused.join(", ")
        )
    };
    let lines: Vec<_> = detail.ports[0].ways.iter().map(line).collect();
    let expected = [
        "ClusterIP Cluster:  2 [10.244.0.1:8080, 10.244.0.2:8080]; not ready 1 [10.244.0.3:8080]",
        "NodePort Local; this node and its pods reach any ready endpoint:  1 [10.244.0.1:8080]; not ready 1 \
         [10.244.0.3:8080], on another node and the policy is Local 1 [10.244.0.2:8080]",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn problems_of_a_service_that_is_served() {
    let mut planner = cluster(
        [object("web 10.96.0.1 :80"), object("web-2 10.96.0.2 :80")],
        slices("web", "10.244.0.1:80"),
    );
    let name = NamespacedName::new("default", "web");
    let slice = service(&planner, &name).expect("it exists").slices[0]
        .name
        .clone();
    let told = [
        "Service default/web: spec.type: unknown",
        "dir/a.yaml:3: Service default/web: spec.internalTrafficPolicy: unknown",
        &format!("a.yaml:9: EndpointSlice {slice}: ports: none"),
        "a.yaml:5: Service default/web-2: spec.type: unknown",
        "a.yaml:7: Service other/web: spec.type: unknown",
    ];
    planner.absorb(Event::Notice(sluice_model::Notice::Problems {
        origin: "a.yaml".into(),
        problems: told.map(str::to_owned).to_vec(),
    }));
    let detail = service(&planner, &name).expect("it exists");
    assert_eq!(detail.problems, told[..3]);
}
