use std::path::Path;

use super::*;

fn target(address: &str, protocol: Protocol) -> Target {
    Target {
        address: address.parse().expect("an address"),
        protocol,
        name: "web".to_owned(),
        is_endpoint: true,
    }
}

fn listener(address: &str, protocol: Protocol) -> Listener {
    Listener {
        address: address.parse().expect("an address"),
        protocol,
        inode: 1,
        waiting: 0,
    }
}

/// What is said of a packet to 10.0.0.1:80 over TCP, where these sockets listen.
fn said(listeners: &[(&str, Protocol)], filters: &[&str], outcome: Outcome) -> String {
    let pod = Pod {
        listeners: listeners
            .iter()
            .map(|(at, protocol)| listener(at, *protocol))
            .collect(),
        filters: filters.iter().map(|it| (*it).to_owned()).collect(),
        ..Pod::default()
    };
    let path = Path::new("/run/netns/pod");
    let found = pod.cause(&target("10.0.0.1:80", Protocol::Tcp), outcome, path);
    found.and_then(|it| it.why).unwrap_or_default()
}

#[test]
fn sockets_of_the_pod_say_why_it_refuses() {
    use Outcome::{Refused, Silent};
    use Protocol::{Tcp, Udp};
    let table: [(&[(&str, Protocol)], &str); 6] = [
        (
            &[("127.0.0.1:80", Tcp)],
            "its server listens on 127.0.0.1:80 only",
        ),
        (&[("[::1]:80", Tcp)], "its server listens on [::1]:80 only"),
        (
            &[("0.0.0.0:80", Udp)],
            "nothing listens on 80/tcp in the pod, but on 80/udp",
        ),
        (
            &[("0.0.0.0:90", Tcp), ("[::]:90", Tcp)],
            "nothing listens there; the pod listens on 90/tcp",
        ),
        (&[], "nothing listens there; the pod listens on none"),
        (&[("[::]:80", Tcp)], ""),
    ];
    for (listeners, expected) in table {
        assert_eq!(said(listeners, &[], Refused), expected, "{listeners:?}");
    }
    let rules = ["ip fw input (policy drop)"];
    let expected = "rules in the pod's network namespace drop or reject: ip fw input (policy drop)";
    assert_eq!(said(&[("0.0.0.0:80", Tcp)], &rules, Silent), expected);
    // Rules of other ports do not refuse what nobody listens for.
    assert_eq!(
        said(&[("127.0.0.1:80", Tcp)], &rules, Refused),
        "its server listens on 127.0.0.1:80 only"
    );
}

#[test]
fn neighbour_entries_say_who_does_not_answer() {
    let [own, other] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];
    let entry = |mac, state| Neighbour {
        interface: 1,
        ip: "10.0.0.1".parse().expect("an address"),
        mac,
        state,
        is_proxy: false,
    };
    let said = |entry: Neighbour, mac| wrong(&entry, "cni0", mac).and_then(|it| it.why);
    let failed = said(entry(None, State::FAILED), None).expect("nobody is there");
    assert!(
        failed.contains("no machine says that it is 10.0.0.1 on cni0"),
        "{failed}"
    );
    let wrong = said(entry(Some(other), State::PERMANENT), Some(own)).expect("another machine");
    assert!(
        wrong.contains(
            "02:00:00:00:00:02, the pod has 02:00:00:00:00:01, and the entry is permanent"
        ),
        "{wrong}"
    );
    assert_eq!(said(entry(Some(own), State::STALE), Some(own)), None);
    assert_eq!(said(entry(Some(other), State::PERMANENT), None), None);
}
