//! The Events that are written, and how often.

use sluice_model::{NamespacedName, Node, Service};

use super::*;

fn announcement(about: Reference, note: &str) -> Announcement {
    Announcement {
        about,
        is_warning: false,
        reason: "Starting",
        action: "StartKubeProxy",
        note: note.to_owned(),
    }
}

#[test]
fn event_about_a_node() {
    let about = announcement(Reference::cluster_scoped::<Node>(&"n1".into()), "");
    let expected = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "n1.2faf080", "namespace": "default"},
        "eventTime": "1970-01-01T00:00:00.050000Z",
        "reportingController": "kube-proxy",
        "reportingInstance": "n1",
        "action": "StartKubeProxy",
        "reason": "Starting",
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"},
        "note": "",
        "type": "Normal",
    });
    assert_eq!(event("n1", &about, 50_000_000), expected);
}

#[test]
fn event_about_a_service() {
    let key = Reference::to::<Service>(NamespacedName::new("shop", "web"));
    let long = "ä".repeat(MAX_NOTE);
    let event = event("n1", &announcement(key, &long), 16);
    assert_eq!(
        event["metadata"],
        json!({"name": "web.10", "namespace": "shop"})
    );
    let regarding = json!({
        "apiVersion": "v1", "kind": "Service", "name": "web", "namespace": "shop",
    });
    assert_eq!(event["regarding"], regarding);
    assert_eq!(event["note"].as_str().map(str::len), Some(MAX_NOTE));
}

#[test]
fn same_announcement_is_written_once_in_a_while() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    let of = |note: &str| announcement(Reference::cluster_scoped::<Node>(&"n1".into()), note);
    queue.push(of("a"), start);
    queue.push(of("a"), start + QUIET / 2);
    queue.push(of("b"), start);
    assert_eq!(queue.waiting.len(), 2);
    queue.push(of("a"), start + QUIET);
    assert_eq!(queue.waiting.len(), 3);
}

#[test]
fn queue_and_memory_are_bounded() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    let of = |note: usize| {
        announcement(
            Reference::cluster_scoped::<Node>(&"n1".into()),
            &note.to_string(),
        )
    };
    (0..MAX_RECENT).for_each(|it| queue.push(of(it), start));
    assert_eq!(
        (queue.waiting.len(), queue.recent.len()),
        (MAX_WAITING, MAX_WAITING)
    );
    for it in 0..MAX_RECENT + 10 {
        queue.waiting.clear();
        queue.push(of(it), start);
    }
    assert_eq!(queue.recent.len(), MAX_RECENT);
    queue.push(of(0), start + QUIET);
    assert_eq!((queue.recent.len(), queue.waiting.len()), (1, 1));
}
