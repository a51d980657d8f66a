//! Only differences are sent.

use sluice_model::ServiceCidr;

use super::*;

fn key(name: &str) -> Reference {
    Reference::to::<ServiceCidr>(NamespacedName::new("", name))
}

fn object(text: &str) -> Object {
    let (name, cidr) = text.split_once('=').unwrap();
    Object::new(ServiceCidr {
        name: name.into(),
        cidrs: vec![cidr.parse().unwrap()],
    })
}

/// `a=CIDR` is a good object, `a=CIDR?` one with a problem, `a!` a refused one.
fn outcome(text: &str) -> Outcome {
    match (text.strip_suffix('!'), text.strip_suffix('?')) {
        (Some(name), _) => Outcome::Unusable(key(name), vec!["bad".into()]),
        (_, Some(text)) => Outcome::Usable(object(text), vec!["odd".to_owned()]),
        _ => Outcome::Usable(object(text), Vec::new()),
    }
}

fn brief(events: &[Event]) -> String {
    let mut lines: Vec<String> = events
        .iter()
        .map(|it| match it {
            Event::Set(object) => {
                let it = object.model::<ServiceCidr>().unwrap();
                format!("+{}={}", it.name, it.cidrs[0])
            }
            Event::Delete(key) => format!("-{key}"),
            Event::Problems { origin, problems } => format!("!{origin}{problems:?}"),
        })
        .collect();
    lines.sort();
    lines.join(" ")
}

/// Each list replaces the one before.
#[track_caller]
fn check(lists: &[(&str, &str)]) {
    let mut delivered = Delivered::default();
    for (list, expected) in lists {
        let (mut listing, mut events) = (Listing::default(), Vec::new());
        for text in list.split_whitespace() {
            listing.add(outcome(text), &delivered);
        }
        delivered.replace(listing, &mut events);
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
    let refused = "!ServiceCIDR a[\"ServiceCIDR a: bad\", \
                \"ServiceCIDR a: refused: its last good version stays in force\"]";
    check(&[
        ("a=10.0.0.0/8", "+a=10.0.0.0/8"),
        ("a!", refused),
        ("a!", ""),
        ("a=10.0.0.0/8", "!ServiceCIDR a[]"),
        ("a!", refused),
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
fn changes_say_what_is_new() {
    let (mut delivered, mut events) = (Delivered::default(), Vec::new());
    let key = key("a");
    delivered.set(outcome("a=10.0.0.0/8"), &mut events);
    delivered.set(outcome("a=10.0.0.0/8"), &mut events);
    delivered.delete(&key, &mut events);
    delivered.delete(&key, &mut events);
    assert_eq!(brief(&events), "+a=10.0.0.0/8 -ServiceCIDR a");
    assert!(delivered.is_empty());
}

#[test]
fn object_deleted_while_the_list_came_is_not_in_it() {
    let (delivered, mut listing) = (Delivered::default(), Listing::default());
    listing.add(outcome("a=10.0.0.0/8"), &delivered);
    assert!(!listing.is_empty());
    listing.remove(&key("a"));
    assert!(listing.is_empty());
}
