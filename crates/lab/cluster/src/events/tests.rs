use sluice_api::Settings;

use super::*;

#[test]
fn what_is_told_at_every_change_does_not_fill_the_cluster() {
    let store = Store::new(Settings::default());
    let events = Events::new(store.clone());
    let about = ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some("web".to_owned()),
        ..ObjectReference::default()
    };
    let revision = store.revision();
    for _ in 0..100 {
        events.tell(&about, "FailedMount", "no such ConfigMap", true);
    }
    assert_eq!(store.revision() - revision, 25);
    let list = store.list("Event");
    assert_eq!((list.len(), &list[0]["count"]), (1, &json!(25)));
    let other = ObjectReference {
        name: Some("other".to_owned()),
        ..about
    };
    for number in 0..20 {
        events.tell(&other, "FailedMount", &format!("try {number}"), true);
    }
    let list = store.list("Event");
    let combined = list.iter().filter(|it| {
        let message = it["message"].as_str().unwrap_or_default();
        message == "(combined from similar events): try 19"
    });
    let combined: Vec<_> = combined.collect();
    assert_eq!((list.len(), combined.len()), (1 + 9 + 1, 1));
    assert_eq!(combined[0]["count"], 11);
}
