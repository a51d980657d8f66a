//! What the server is asked for.

use super::*;

/// `labels fields namespace` of a selection, `-` for what is not set.
fn text(selection: Option<Selection>) -> String {
    let Some(it) = selection else {
        return String::new();
    };
    let shown = |it: Option<&str>| it.unwrap_or("-").to_owned();
    let mut parts = vec![
        shown(it.labels.as_deref()),
        shown(it.fields.as_deref()),
        shown(it.namespace.as_deref()),
    ];
    parts.extend(it.only.iter().map(|it| format!("only={it}")));
    if it.is_never_empty {
        parts.push("never empty".to_owned());
    }
    match it.absence {
        Absence::Outage => {}
        Absence::Normal => parts.push("may be absent".to_owned()),
        Absence::Loss(_) => parts.push("optional".to_owned()),
    }
    parts.join(" ")
}

/// Services, slices, Node, CIDRs, Namespaces, Pods; the last four with nothing where they are not followed.
#[track_caller]
fn check(wanted: &Wanted, expected: [&str; 6]) {
    let all = [
        Some(wanted.services()),
        wanted.slices(),
        wanted.nodes(),
        wanted.cidrs(),
        wanted.namespaces(),
        wanted.pods(),
    ];
    assert_eq!(all.map(text), expected);
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
        labels: Some("app in (a, b),!x".to_owned()),
        namespace_labels: Some("team=x".to_owned()),
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
