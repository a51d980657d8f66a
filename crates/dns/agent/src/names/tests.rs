use sluice_model::Namespace;

use super::*;

#[track_caller]
fn check(event: Event, expected: &Wait) {
    assert_eq!(&Names::wait(&NameEvent::new(event).unwrap()), expected);
}

/// `sluice-agent` tests the same rules with a proxy: `services/tests/names.rs`.
#[test]
fn what_has_no_rules_waits_for_nothing() {
    let namespace = Namespace {
        name: "a".into(),
        labels: Default::default(),
    };
    check(
        Event::Namespace(Change::Set(Arc::new(namespace))),
        &Wait::No,
    );
    let web = NamespacedName::new("a", "web");
    check(Event::Service(Change::Delete(web)), &Wait::No);
    check(Event::SYNCED, &Wait::Step);
}
