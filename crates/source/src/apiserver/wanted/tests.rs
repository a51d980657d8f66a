//! The selectors that the server gets.

use super::*;
use crate::hub::Topic;

/// `labels fields namespace` of a selection, `-` for what is not set.
fn text(topic: &Topic, need: Need) -> String {
    let it = &topic.selection;
    let namespace = match &*it.namespaces {
        [one] => Some(one.to_string()),
        _ => None,
    };
    let shown = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
    let mut parts = [it.label_selector(), it.field_selector(), namespace]
        .map(shown)
        .to_vec();
    let only = [&it.namespaces, &it.names]
        .into_iter()
        .filter(|it| it.len() > 1)
        .flatten();
    parts.extend(only.map(|it| format!("only={it}")));
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

/// Services, slices, Node, CIDRs, Namespaces, Pods; nothing where they are not followed.
#[track_caller]
fn check(wanted: &Wanted, expected: [&str; 6]) {
    let wants = wanted.wants();
    let kinds = [
        "Services",
        "EndpointSlices",
        "Node",
        "ServiceCIDRs",
        "Namespaces",
        "Pods",
    ];
    let all = kinds.map(|kind| {
        let found = wants
            .topics_and_needs()
            .find(|(it, _)| it.known.objects == kind);
        found.map_or_else(String::new, |(topic, need)| text(topic, need))
    });
    assert_eq!(all, expected);
}

const LIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";

#[test]
fn a_proxy_follows_what_it_serves() {
    let (services, slices) = (
        "!service.kubernetes.io/service-proxy-name spec.clusterIP!=None - never empty",
        "!service.kubernetes.io/headless - -",
    );
    let wanted = Wanted::proxy(Nodes::One("n1".into()));
    let node = "- metadata.name=n1 -";
    check(
        &wanted,
        [services, slices, node, "- - - may be absent", "", ""],
    );
    assert_eq!(wanted.kinds(), Kinds::PROXY);
    let all = Wanted::proxy(Nodes::All);
    check(
        &all,
        [services, slices, "- - -", "- - - may be absent", "", ""],
    );
}

#[test]
fn an_agent_with_dns_follows_each_kind_once() {
    let wanted = Wanted::proxy(Nodes::One("n1".into())).with_dns("n1".into());
    check(
        &wanted,
        [
            "- - - never empty",
            "- - -",
            "- metadata.name=n1 -",
            "- - - may be absent",
            "- - - never empty optional",
            &format!("- spec.nodeName=n1,{LIVE} - optional"),
        ],
    );
    let kinds = Kinds {
        namespaces: true,
        pods: Pods::OfNode("n1".into()),
    };
    assert_eq!(wanted.kinds(), kinds);
}

#[test]
fn a_dns_server_follows_what_it_names() {
    let all = [
        "- - - never empty",
        "- - -",
        "",
        "",
        "- - - never empty",
        "",
    ];
    check(&Wanted::dns(), all);
    let narrow = Wanted {
        labels: Selector::parse("app in (a, b),!x").unwrap(),
        namespace_labels: Selector::parse("team=x").unwrap(),
        pods: Pods::All,
        slices: Slices::None,
        ..Wanted::dns()
    };
    let live = format!("app in (a, b),!x {LIVE} -");
    let labels = "app in (a, b),!x - -";
    check(&narrow, [labels, "", "", "", "team=x - -", &live]);
}

#[test]
fn namespaces_are_chosen_by_the_server_or_here() {
    let of = |only: &[&str]| Wanted {
        pods: Pods::All,
        only: only.iter().map(|it| (*it).into()).collect(),
        ..Wanted::dns()
    };
    check(
        &of(&["a"]),
        [
            "- - a",
            "- - a",
            "",
            "",
            "- metadata.name=a -",
            &format!("- {LIVE} a"),
        ],
    );
    let both = "- - - only=a only=b";
    let pods = format!("- {LIVE} - only=a only=b");
    check(&of(&["a", "b"]), [both, both, "", "", both, &pods]);
}
