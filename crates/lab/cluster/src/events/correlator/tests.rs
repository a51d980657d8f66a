use super::*;

fn pod(uid: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some("web".to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

const FAILED: (&str, bool) = ("FailedMount", true);

#[test]
fn an_object_has_25_events_and_then_one_in_five_minutes() {
    let mut correlator = Correlator::default();
    let start = Instant::now();
    let mut told = |uid: &str, after: u64| {
        let now = start + Duration::from_secs(after);
        correlator.correlate(&pod(uid), FAILED, "no such ConfigMap", now)
    };
    for _ in 0..25 {
        assert_eq!(told("a", 0), Outcome::Told);
    }
    assert_eq!(told("a", 0), Outcome::Silent);
    assert_eq!(told("a", 299), Outcome::Silent);
    assert_eq!(told("b", 299), Outcome::Told);
    assert_eq!(told("a", 300), Outcome::Told);
    assert_eq!(told("a", 300), Outcome::Silent);
    assert_eq!(told("a", 600), Outcome::Told);
    // However long it was silent, 25 are the most.
    for _ in 0..25 {
        assert_eq!(told("a", 1_000_000), Outcome::Told);
    }
    assert_eq!(told("a", 1_000_000), Outcome::Silent);
}

#[test]
fn similar_events_are_combined_after_the_ninth() {
    let mut correlator = Correlator::default();
    let start = Instant::now();
    let mut told = |message: u32, after: u64| {
        let now = start + Duration::from_secs(after);
        correlator.correlate(&pod("a"), FAILED, &message.to_string(), now)
    };
    for message in 0..9 {
        assert_eq!(told(message, 0), Outcome::Told);
    }
    assert_eq!(told(9, 0), Outcome::Combined);
    assert_eq!(told(10, 600), Outcome::Combined);
    assert_eq!(told(11, 1201), Outcome::Told);
    // Another reason is another group.
    let other = correlator.correlate(&pod("a"), ("BackOff", true), "x", start);
    assert_eq!(other, Outcome::Told);
}
