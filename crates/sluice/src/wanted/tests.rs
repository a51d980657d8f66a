//! The selectors that the server gets.

use super::*;

/// `labels fields namespaces` of a selection, `-` for what is not set.
fn text(it: &Selection, need: Need) -> String {
    let test = |it: &FieldTest| {
        let operator = if it.is_equal { "=" } else { "!=" };
        format!("{}{operator}{}", it.path, it.value)
    };
    let shown = |it: &str| if it.is_empty() { "-" } else { it }.to_owned();
    let fields: Vec<String> = it.fields.iter().map(test).collect();
    let mut parts = vec![
        shown(it.labels.as_str()),
        shown(&fields.join(",")),
        shown(&it.namespaces.join(",")),
    ];
    parts.extend(it.names.iter().map(|it| format!("name={it}")));
    if it.is_never_empty {
        parts.push("never empty".to_owned());
    }
    match need {
        Need::Required | Need::Complete => {}
        Need::MayBeAbsent => parts.push("may be absent".to_owned()),
        Need::Optional(_) => parts.push("optional".to_owned()),
    }
    parts.join(" ")
}

/// One line for each kind that is followed.
#[track_caller]
fn check<E>(wants: &Wants<E>, expected: &[&str]) {
    let found = wants.selections();
    let found: Vec<String> = found
        .map(|(kind, it, need)| format!("{kind}: {}", text(it, need)))
        .collect();
    assert_eq!(found, expected);
}

fn settings(direct_return: DirectReturn) -> Settings {
    Settings {
        direct_return,
        ..Settings::for_node("n1")
    }
}

const LIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";

#[test]
fn a_proxy_follows_what_it_serves() {
    let (services, slices) = (
        "Services: !service.kubernetes.io/service-proxy-name spec.clusterIP!=None - never empty",
        "EndpointSlices: !service.kubernetes.io/headless - -",
    );
    let cidrs = "ServiceCIDRs: - - - may be absent";
    check(
        &of_plan(&settings(DirectReturn::Off), Services::Proxied),
        &[services, slices, "Node: - metadata.name=n1 -", cidrs],
    );
    check(
        &of_plan(&settings(DirectReturn::All), Services::Proxied),
        &[services, slices, "Node: - - -", cidrs],
    );
}

/// Equal selections share one list and watch.
#[test]
fn an_agent_with_dns_follows_each_kind_once() {
    let services = ["Services: - - - never empty", "EndpointSlices: - - -"];
    let of_plan = of_plan(&settings(DirectReturn::Off), Services::All);
    let of_node = [
        "Node: - metadata.name=n1 -",
        "ServiceCIDRs: - - - may be absent",
    ];
    check(&of_plan, &[services, of_node].concat());
    let names = Names::of_agent(&"n1".into()).wants();
    let pods = format!("Pods: - spec.nodeName=n1,{LIVE} - optional");
    let of_names = ["Namespaces: - - - never empty optional", &pods];
    check(&names, &[services, of_names].concat());
    let shared = of_plan.selections().zip(names.selections()).take(2);
    for (plan, name) in shared {
        assert_eq!((plan.0, plan.1), (name.0, name.1));
    }
}

#[test]
fn a_dns_server_follows_what_it_names() {
    let all = [
        "Services: - - - never empty",
        "EndpointSlices: - - -",
        "Namespaces: - - - never empty",
    ];
    check(&Names::default().wants(), &all);
    let narrow = Names {
        labels: Selector::parse("app in (a, b),!x").unwrap(),
        namespace_labels: Selector::parse("team=x").unwrap(),
        pods: Pods::All,
        ..Names::default()
    };
    let expected = [
        "Services: app in (a, b),!x - -",
        "EndpointSlices: app in (a, b),!x - -",
        "Namespaces: team=x - -",
        &format!("Pods: app in (a, b),!x {LIVE} -"),
    ];
    check(&narrow.wants(), &expected);
}

#[test]
fn only_the_named_namespaces_are_followed() {
    for (only, expected) in [
        (&["a"][..], ["a", "name=a"]),
        (&["a", "b"], ["a,b", "name=a name=b"]),
    ] {
        let names = Names {
            pods: Pods::All,
            only: only.iter().map(|it| (*it).into()).collect(),
            ..Names::default()
        };
        let [spaces, by_name] = expected;
        let expected = [
            &format!("Services: - - {spaces}"),
            &format!("EndpointSlices: - - {spaces}"),
            &format!("Namespaces: - - - {by_name}"),
            &format!("Pods: - {LIVE} {spaces}"),
        ];
        check(&names.wants(), &expected.map(String::as_str));
    }
}
