//! Only differences leave.

use super::*;
use sluice_model::ServiceCidr;

fn object(text: &str) -> Object {
    let (name, cidr) = text.split_once('=').unwrap();
    Object::ServiceCidr(Arc::new(ServiceCidr {
        name: name.into(),
        cidrs: vec![cidr.parse().unwrap()],
    }))
}

/// `a=CIDR` is a good object, `a=CIDR?` one with a problem, `a!` a refused one, `!` a nameless.
fn what(text: &str) -> What {
    match (text.strip_suffix('!'), text.strip_suffix('?')) {
        (Some(""), _) => What::Nameless("no name".to_owned()),
        (Some(name), _) => What::Refused(ObjectKey::ServiceCidr(name.into()), vec!["bad".into()]),
        (_, Some(text)) => What::Good(object(text), vec!["odd".to_owned()]),
        _ => What::Good(object(text), Vec::new()),
    }
}

fn brief(events: &[Event]) -> String {
    let mut said: Vec<String> = events
        .iter()
        .map(|it| match it {
            Event::Set(Object::ServiceCidr(it)) => format!("+{}={}", it.name, it.cidrs[0]),
            Event::Delete(key) => format!("-{key}"),
            Event::Problems { origin, problems } => format!("!{origin}{problems:?}"),
            other => panic!("{other:?}"),
        })
        .collect();
    said.sort();
    said.join(" ")
}

/// Each list replaces the one before.
#[track_caller]
fn check(lists: &[(&str, &str)]) {
    let mut known = Known::new(Resource::ServiceCidrs);
    for (list, expected) in lists {
        let (mut incoming, mut events) = (Incoming::default(), Vec::new());
        for text in list.split_whitespace() {
            incoming.see(what(text), &known);
        }
        known.replace(incoming, &mut events);
        assert_eq!(brief(&events), *expected, "{list}");
    }
}

#[test]
fn list_is_compared_with_what_was_delivered() {
    check(&[
        ("a=10.0.0.0/8 b=10.1.0.0/16", "+a=10.0.0.0/8 +b=10.1.0.0/16"),
        ("b=10.1.0.0/16 a=10.0.0.0/8", ""),
        (
            "a=10.0.0.0/9 c=10.2.0.0/16",
            "+a=10.0.0.0/9 +c=10.2.0.0/16 -ServiceCIDR b",
        ),
        ("", "-ServiceCIDR a -ServiceCIDR c"),
    ]);
}

#[test]
fn refused_object_keeps_its_last_good_version() {
    let kept = "!ServiceCIDR a[\"ServiceCIDR a: bad\", \
                \"ServiceCIDR a: refused: its last good version stays in force\"]";
    check(&[
        ("a=10.0.0.0/8", "+a=10.0.0.0/8"),
        ("a!", kept),
        ("a!", ""),
        ("a=10.0.0.0/8", "!ServiceCIDR a[]"),
        ("a!", kept),
        ("", "!ServiceCIDR a[] -ServiceCIDR a"),
        ("b!", "!ServiceCIDR b[\"ServiceCIDR b: bad\"]"),
        ("", "!ServiceCIDR b[]"),
        (
            "b=10.0.0.0/8?",
            "!ServiceCIDR b[\"ServiceCIDR b: odd\"] +b=10.0.0.0/8",
        ),
        ("b=10.0.0.0/8", "!ServiceCIDR b[]"),
    ]);
}

#[test]
fn nameless_object_may_be_any_that_is_missing() {
    check(&[
        ("a=10.0.0.0/8", "+a=10.0.0.0/8"),
        (
            "!",
            "!API server: ServiceCIDRs[\"one of the ServiceCIDRs has no usable name: no name\"]",
        ),
        ("", "!API server: ServiceCIDRs[] -ServiceCIDR a"),
    ]);
}

#[test]
fn changes_say_what_is_new() {
    let (mut known, mut events) = (Known::new(Resource::ServiceCidrs), Vec::new());
    let key = ObjectKey::ServiceCidr("a".into());
    known.see(what("a=10.0.0.0/8"), &mut events);
    known.see(what("a=10.0.0.0/8"), &mut events);
    known.gone(&key, &mut events);
    known.gone(&key, &mut events);
    assert_eq!(brief(&events), "+a=10.0.0.0/8 -ServiceCIDR a");
    assert!(known.is_empty());
}

#[test]
fn object_deleted_while_the_list_came_is_not_in_it() {
    let (known, mut incoming) = (Known::new(Resource::ServiceCidrs), Incoming::default());
    incoming.see(what("a=10.0.0.0/8"), &known);
    assert!(!incoming.is_empty());
    incoming.gone(&ObjectKey::ServiceCidr("a".into()));
    assert!(incoming.is_empty());
}
