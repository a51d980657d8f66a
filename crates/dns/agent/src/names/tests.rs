use sluice_model::Namespace;

use super::*;

#[track_caller]
fn check(event: &Event, expected: &Wait) {
    let event = NameEvent::new(event).expect("a name depends on it");
    assert_eq!(&Names::wait(&event), expected);
}

/// `sluice-agent` tests the same rules with a proxy: `services/tests/names.rs`.
#[test]
fn what_has_no_rules_waits_for_nothing() {
    let namespace = Namespace {
        name: "a".into(),
        labels: Default::default(),
    };
    check(
        &Event::Set(Object::Namespace(Arc::new(namespace))),
        &Wait::No,
    );
    let web = NamespacedName::new("a", "web");
    check(&Event::Delete(ObjectKey::Service(web)), &Wait::No);
    check(&Event::Synced, &Wait::Step);
}
