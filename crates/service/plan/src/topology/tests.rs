use sluice_model::Change;

use super::*;
use crate::Event;
use crate::settings::Settings;
use crate::testing::{NODE, endpoints, node as object, planner, service};

#[test]
fn nodes_with_their_endpoints() {
    let mut events = vec![
        object("node-a 192.168.0.1 zone=east"),
        object("node-c 192.168.0.3"),
        service("web 10.96.0.1 http:80"),
        service("api 10.96.0.2 http:80"),
    ];
    events.extend(endpoints(
        "web:http",
        "10.244.0.1:8080@ 10.244.1.1:8080@node-b!",
    ));
    events.extend(endpoints("api:http", "10.244.0.2:8080@ 10.244.0.3:8080@"));
    let mut planner = planner(Settings::for_node(NODE), events);
    let line = |it: &NodeSummary| {
        let (zone, this) = (it.zone.as_deref().unwrap_or("-"), it.this);
        let counts = format!("{} {}/{}", it.services, it.ready, it.endpoints);
        format!("{} {zone} {this} {:?} {counts}", it.name, it.addresses)
    };
    let lines: Vec<_> = nodes(&planner).iter().map(line).collect();
    let expected = [
        "node-a east true [192.168.0.1] 2 3/3",
        "node-b - false [] 1 0/1",
        "node-c - false [192.168.0.3] 0 0/0",
    ];
    assert_eq!(lines, expected);

    let here = node(&planner, NODE);
    let line = |it: &NodeEndpoint| format!("{} {} {}", it.service, it.address, it.ports.join(" "));
    let lines: Vec<_> = here.iter().map(line).collect();
    let expected = [
        "default/api 10.244.0.2 8080/tcp",
        "default/api 10.244.0.3 8080/tcp",
        "default/web 10.244.0.1 8080/tcp",
    ];
    assert_eq!(lines, expected);
    assert_eq!(node(&planner, "node-z"), []);

    planner.absorb(Event::Service(Change::Delete(NamespacedName::new(
        "default", "api",
    ))));
    assert_eq!(node(&planner, NODE).len(), 1, "slices without a Service");
}
