//! Scripts of what happens, and the waits that follow.

use super::*;

fn refused(code: u16, retry_after: Option<u64>) -> End {
    End::from(Failure::Refused {
        code,
        message: String::new(),
        retry_after: retry_after.map(Duration::from_secs),
    })
}

/// Parses `works`, `down` (no server answers), `cut` (an answer breaks off), `retry-after SECONDS`, a status code, or
/// the name of an end.
fn end(step: &str) -> Option<End> {
    let (word, value) = step.split_once(' ').unwrap_or((step, ""));
    Some(match word {
        "works" => return None,
        "down" => End::Failed(Failure::Unreachable(String::new())),
        "cut" => End::Failed(Failure::Broken(String::new())),
        "closed" => End::Closed,
        "silent" => End::Silent,
        "no-stream" => End::NoStream,
        "empty" => End::Empty,
        "retry-after" => refused(429, value.parse().ok()),
        code => refused(code.parse().unwrap(), None),
    })
}

/// `steps`: second, what happens, the wait in milliseconds with a chance of one half.
#[track_caller]
fn check(steps: &[(u64, &str, u128)]) {
    let start = Instant::now();
    let mut retry = Retry::new(Timeouts::default());
    for (second, step, expected) in steps {
        let now = start + Duration::from_secs(*second);
        let Some(end) = end(step) else {
            retry.succeed();
            continue;
        };
        let wait = retry.wait(&end, now, 0.5).as_millis();
        assert_eq!(wait, *expected, "{step} in second {second}");
    }
}

#[test]
fn waits_double_up_to_half_a_minute_and_start_again() {
    check(&[
        (0, "500", 800),
        (1, "500", 1_600),
        (3, "cut", 3_200),
        (6, "500", 6_400),
        (13, "empty", 12_800),
        (26, "500", 25_600),
        (52, "500", 30_000),
        (82, "works", 0),
        (90, "500", 800),
    ]);
}

#[test]
fn watch_that_ends_costs_nothing_unless_it_ends_again_and_again() {
    check(&[
        (0, "closed", 0),
        (0, "closed", 1_600),
        (1, "closed", 3_200),
        (9, "works", 0),
        (300, "silent", 0),
        (301, "works", 0),
        (400, "no-stream", 0),
        (400, "no-stream", 0),
    ]);
}

#[test]
fn unreachable_server_is_tried_every_second_or_two() {
    check(&[
        (0, "down", 800),
        (1, "down", 1_500),
        (3, "down", 1_500),
        (1_000, "down", 1_500),
    ]);
}

#[test]
fn answer_after_an_outage_ends_the_wait() {
    check(&[
        (0, "down", 800),
        (60, "down", 1_500),
        // At most `retry`, so that 100 nodes do not list at once.
        (62, "410", 400),
        (63, "works", 0),
    ]);
}

#[test]
fn refusals_after_an_outage_are_short_for_a_minute() {
    check(&[
        (0, "down", 800),
        (10, "403", 800),
        (11, "403", 1_500),
        (13, "cut", 1_500),
        (59, "403", 1_500),
        (60, "403", 12_800),
        (73, "403", 25_600),
        (99, "403", 30_000),
    ]);
}

#[test]
fn retry_after_is_honoured_within_reason() {
    check(&[
        (0, "retry-after 7", 7_000),
        (7, "retry-after 0", 1_600),
        (9, "retry-after 100000", 60_000),
    ]);
}

#[test]
fn a_hundred_nodes_do_not_come_at_once() {
    for step in ["down", "410", "403"] {
        // After a long outage: the last failure before the server answers, or the first answer.
        let mut waits: Vec<u128> = (0..100)
            .map(|_| {
                let mut retry = Retry::new(Timeouts::default());
                let now = Instant::now();
                for _ in 0..10 {
                    retry.wait(&end("down").unwrap(), now, chance());
                }
                retry.wait(&end(step).unwrap(), now, chance()).as_millis()
            })
            .collect();
        waits.sort_unstable();
        assert!(waits[99] < 3_000, "{step}: {waits:?}");
        // No tenth of a second has a third of them: they would need 33 of 100 in a window whose
        // share is 6 to 13 in 100.
        assert!(
            waits.windows(34).all(|it| it[33] - it[0] > 100),
            "{step}: {waits:?}"
        );
    }
}

#[test]
fn chance_is_in_range() {
    assert!((0..100).all(|_| (0.0..=1.0).contains(&chance())));
}
