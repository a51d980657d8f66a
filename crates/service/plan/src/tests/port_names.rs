//! Ports of a Service that no slice names.

use super::*;
use sluice_model::Change;

/// The issues of `web 10.96.0.1` with these ports, and these endpoints of ports.
#[track_caller]
fn check(about: &str, slices: &[(&str, &str)], expected: &[&str]) {
    let mut events = vec![node(NODE), service(&format!("web 10.96.0.1 {about}"))];
    events.extend(
        slices
            .iter()
            .flat_map(|(port, members)| endpoints(port, members)),
    );
    let planner = planner(here(), events);
    let found: Vec<String> = planner.issues().map(|it| it.to_string()).collect();
    let expected = expected
        .iter()
        .map(|it| format!("Service default/web: port {it}"));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn port_that_no_slice_names_is_an_issue() {
    let slice = "EndpointSlice default/web-slice-v4-8080";
    let both = "give both the same name and protocol";
    check(
        "http:80",
        &[("web:web", "10.0.1.5:8080")],
        &[&format!(
            "http/TCP has no endpoint: {slice} has only port web/TCP: {both}"
        )],
    );
    check(
        ":80",
        &[("web:web", "10.0.1.5:8080!")],
        &[&format!(
            "\"\"/TCP has no endpoint: {slice} has only port web/TCP: {both}"
        )],
    );
    check(
        "web:80/udp web-tcp:80",
        &[("web:web", "10.0.1.5:8080")],
        &[
            &format!("web/UDP has no endpoint: {slice} has only port web/TCP: {both}"),
            &format!("web-tcp/TCP has no endpoint: {slice} has only port web/TCP: {both}"),
        ],
    );
}

#[test]
fn ports_that_match_or_have_no_endpoints_are_none() {
    check("http:80", &[], &[]);
    check("http:80", &[("web:http", "10.0.1.5:8080")], &[]);
    // Every pod has another name for one port: each has its slice.
    let slices = [("web:a", "10.0.1.5:8080"), ("web:b", "10.0.1.6:8081")];
    check("a:80 b:81", &slices, &[]);
    // The Service has no address of this family.
    check("http:80", &[("web:web", "[fd00::5]:8080")], &[]);
    check(
        "http:80 proxy-name=cilium",
        &[("web:web", "10.0.1.5:8080")],
        &[],
    );
    check("http:80 ExternalName", &[("web:web", "10.0.1.5:8080")], &[]);
}

/// A slice with many ports, and one without.
#[test]
fn ports_of_the_slice_are_named() {
    let ports = |names: &[&str]| {
        let events = endpoints("web:x", "10.0.1.5:8080");
        let Some(Event::EndpointSlice(Change::Set(slice))) = events.into_iter().next() else {
            panic!("one slice");
        };
        let mut slice = (*slice).clone();
        let port = slice.ports.remove(0);
        let named = names.iter().map(|name| sluice_model::EndpointPort {
            name: (*name).into(),
            ..port.clone()
        });
        slice.ports = named.collect();
        let events = [
            node(NODE),
            service("web 10.96.0.1 fd00:96::1 http:80"),
            Event::EndpointSlice(Change::Set(slice.into())),
        ];
        let planner = planner(here(), events);
        planner
            .issues()
            .map(|it| it.to_string())
            .collect::<Vec<_>>()
    };
    let found = ports(&["a", "b", "", "d", "e"]);
    assert_eq!(found.len(), 1, "{found:?}");
    let expected = "has only ports a/TCP, b/TCP, \"\"/TCP and 2 more: give both";
    assert!(found[0].contains(expected), "{found:?}");
    let found = ports(&[]);
    assert!(
        found[0].ends_with("has no port: write http/TCP in its ports"),
        "{found:?}"
    );
}
