//! Scripts of what happens, and the requests that follow.

use super::super::http::Refusal;
use super::*;

fn failure(code: u16) -> Failure {
    Failure::Refused(Refusal {
        code,
        ..Refusal::default()
    })
}

/// One step: `list N`, `empty N` (nothing in place of objects), `none N` (nothing at first),
/// `at N` (the watch comes to it), `open` (the watch works), `too-new`, `retry-after N`, or how a
/// request ended.
fn happen(course: &mut Course, step: &str) -> Duration {
    let (word, value) = step.split_once(' ').unwrap_or((step, ""));
    let listed = match word {
        "list" => course.listed(value, Empty::No),
        "empty" => course.listed(value, Empty::InPlaceOfObjects),
        "none" => course.listed(value, Empty::AsBefore),
        "at" => course.advance(value.into()),
        "open" => {
            course.steady();
            Ok(())
        }
        _ => Err(match word {
            "closed" => End::Closed,
            "expired" => End::Expired,
            "silent" => End::Silent(Duration::ZERO),
            "no-stream" => End::NoStream,
            "cut" => End::Failed(Failure::Unreachable("cut".to_owned())),
            "garbage" => End::Failed(Failure::Garbage("garbage".to_owned())),
            "too-new" => End::Failed(Failure::Refused(Refusal {
                code: 504,
                is_too_new: true,
                ..Refusal::default()
            })),
            "retry-after" => End::Failed(Failure::Refused(Refusal {
                code: 429,
                retry_after: Some(Duration::from_secs(value.parse().unwrap())),
                ..Refusal::default()
            })),
            code => End::Failed(failure(code.parse().unwrap())),
        }),
    };
    match listed {
        Ok(()) => Duration::ZERO,
        Err(end) => course.end(&end, 0.5),
    }
}

fn brief(ask: &Ask) -> String {
    let since = |since: &Since| match since {
        Since::Newest => "newest".to_owned(),
        Since::NotOlderThan(version) => format!(">={version}"),
    };
    match ask {
        Ask::Stream(it) => format!("stream {}", since(it)),
        Ask::Pages { since: it, whole } => {
            let whole = if *whole { " whole" } else { "" };
            format!("pages {}{whole}", since(it))
        }
        Ask::Watch(version) => format!("watch {version}"),
    }
}

/// `steps`: what happens, the wait in milliseconds, the next request.
#[track_caller]
fn check(steps: &[(&str, u128, &str)]) {
    let backoff = Backoff::new(Duration::from_millis(800), Duration::from_secs(30));
    let mut course = Course::new(true, backoff);
    assert_eq!(brief(&course.ask()), "stream newest");
    for (step, wait, ask) in steps {
        let waited = happen(&mut course, step);
        assert_eq!(
            (waited.as_millis(), &*brief(&course.ask())),
            (*wait, *ask),
            "{step}"
        );
    }
}

#[test]
fn list_then_watch_and_again_from_where_it_was() {
    check(&[
        ("list 5", 0, "watch 5"),
        ("at 7", 0, "watch 7"),
        ("closed", 0, "watch 7"),
        ("open", 0, "watch 7"),
        ("closed", 0, "watch 7"),
    ]);
}

#[test]
fn watch_that_closes_at_once_is_not_asked_in_a_loop() {
    check(&[
        ("list 5", 0, "watch 5"),
        ("closed", 0, "watch 5"),
        ("closed", 1600, "watch 5"),
        ("closed", 3200, "watch 5"),
        ("at 6", 0, "watch 6"),
        ("closed", 0, "watch 6"),
    ]);
}

#[test]
fn server_without_streams_is_asked_for_pages() {
    check(&[
        ("no-stream", 0, "pages newest"),
        ("list 5", 0, "watch 5"),
        ("expired", 0, "pages >=5"),
    ]);
}

#[test]
fn expired_version_is_listed_again_but_never_older() {
    check(&[
        ("list 5", 0, "watch 5"),
        ("expired", 0, "stream >=5"),
        ("list 9", 0, "watch 9"),
        ("expired", 1600, "stream >=9"),
    ]);
}

#[test]
fn expired_page_makes_the_next_list_whole() {
    check(&[
        ("no-stream", 0, "pages newest"),
        ("expired", 0, "pages newest whole"),
        ("list 5", 0, "watch 5"),
        ("expired", 1600, "pages >=5"),
    ]);
}

#[test]
fn unreachable_server_is_asked_for_the_same() {
    check(&[
        ("list 5", 0, "watch 5"),
        ("cut", 800, "watch 5"),
        ("cut", 1600, "watch 5"),
        ("cut", 3200, "watch 5"),
        ("cut", 6400, "watch 5"),
        ("at 6", 0, "watch 6"),
        ("cut", 800, "watch 6"),
    ]);
}

#[test]
fn errors_of_a_live_server_lead_to_a_new_list() {
    check(&[
        ("list 5", 0, "watch 5"),
        ("500", 800, "watch 5"),
        ("garbage", 1600, "watch 5"),
        ("500", 3200, "stream newest"),
        ("500", 6400, "stream newest"),
        ("list 6", 0, "watch 6"),
    ]);
    check(&[
        ("list 5", 0, "watch 5"),
        ("503", 800, "watch 5"),
        ("503", 1600, "watch 5"),
        ("503", 3200, "watch 5"),
        ("503", 6400, "watch 5"),
    ]);
}

#[test]
fn retry_after_is_honoured_within_reason() {
    check(&[
        ("retry-after 7", 7_000, "stream newest"),
        ("retry-after 0", 1_600, "stream newest"),
        ("retry-after 100000", 60_000, "stream newest"),
    ]);
}

#[test]
fn lagging_server_and_restored_etcd() {
    // A server that says it lags, and then what a consistent read says counts.
    check(&[
        ("list 500", 0, "watch 500"),
        ("expired", 0, "stream >=500"),
        ("too-new", 1600, "stream newest"),
        ("list 40", 0, "watch 40"),
    ]);
    // One that does not say so.
    check(&[
        ("list 500", 0, "watch 500"),
        ("expired", 0, "stream >=500"),
        ("list 40", 1600, "stream newest"),
        ("list 501", 0, "watch 501"),
        ("open", 0, "watch 501"),
        ("at 40", 0, "stream newest"),
        ("list 41", 0, "watch 41"),
    ]);
}

#[test]
fn silent_watch_is_checked_by_a_list() {
    check(&[
        ("list 500", 0, "watch 500"),
        ("open", 0, "watch 500"),
        ("silent", 0, "stream >=500"),
        ("too-new", 1600, "stream newest"),
        ("list 40", 0, "watch 40"),
    ]);
}

#[test]
fn versions_that_are_no_numbers_are_taken_as_they_come() {
    check(&[
        ("list x", 0, "watch x"),
        ("at b", 0, "watch b"),
        ("expired", 0, "stream >=b"),
        ("list 7", 0, "watch 7"),
    ]);
}

#[test]
fn empty_answers_are_believed_at_the_third_time() {
    check(&[
        ("none 3", 800, "pages newest"),
        ("none 3", 1600, "pages newest"),
        ("none 3", 0, "watch 3"),
        ("closed", 3200, "watch 3"),
    ]);
    check(&[
        ("none 3", 800, "pages newest"),
        ("list 3", 0, "watch 3"),
        ("expired", 1600, "stream >=3"),
        ("empty 9", 3200, "pages newest"),
        ("empty 9", 6400, "pages newest"),
        ("empty 9", 0, "watch 9"),
    ]);
}

#[test]
fn failure_between_empty_answers_counts_for_nothing() {
    check(&[
        ("none 3", 800, "pages newest"),
        ("cut", 1600, "pages newest"),
        ("none 3", 3200, "pages newest"),
        ("none 3", 0, "watch 3"),
    ]);
}
