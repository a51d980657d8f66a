//! Every answer that CoreDNS gave, beside ours.

use hickory_proto::rr::RecordType;
use serde::Deserialize;
use sluice_zone::{NamespaceRule, PodRecords};

use crate::support::{ask, events, objects, settings};

#[derive(Debug, Deserialize)]
struct Expected {
    name: String,
    r#type: String,
    rcode: String,
    aa: bool,
    answer: Vec<String>,
    authority: Vec<String>,
    additional: Vec<String>,
}

/// What the server of `answers.json` sends: a name in a reverse zone that does not exist falls through to
/// nobody, which is a failure without authority.
fn falls_through(name: &str, code: &str) -> bool {
    code == "NXDOMAIN" && name.ends_with(".arpa.")
}

#[test]
fn as_core_dns() {
    let expected: Vec<Expected> =
        serde_json::from_str(include_str!("data/answers.json")).expect("questions and answers");
    assert_eq!(expected.len(), 280);
    let events = events(include_str!("data/objects.yaml"));
    let objects = objects(NamespaceRule::Declared, &events);
    let mut settings = settings(&["cluster.local.", "in-addr.arpa.", "ip6.arpa."]);
    settings.pods = PodRecords::Insecure;
    let mut wrong = Vec::new();
    for it in expected {
        let record_type: RecordType = it.r#type.parse().expect("a type");
        let reply = ask(&objects, &settings, &it.name, record_type);
        let lower = |lines: Vec<String>| -> Vec<_> {
            let mut lines: Vec<_> = lines
                .iter()
                .map(|it| it.replace("SERIAL", "0").to_lowercase())
                .collect();
            lines.sort();
            lines
        };
        let (code, aa, authorities) = if falls_through(&it.name, reply.code) {
            ("SERVFAIL", false, Vec::new())
        } else {
            (reply.code, true, reply.authorities)
        };
        let ours = (
            code,
            aa,
            lower(reply.answers),
            lower(authorities),
            lower(reply.additionals),
        );
        let theirs = (
            it.rcode.as_str(),
            it.aa,
            lower(it.answer),
            lower(it.authority),
            lower(it.additional),
        );
        if ours != theirs {
            wrong.push(format!(
                "{} {}\n  ours   {ours:?}\n  theirs {theirs:?}",
                it.name, it.r#type
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
