use super::*;

const SECOND: Duration = Duration::from_secs(1);

impl Default for Periods {
    /// No pause between syncs; a comparison once an hour.
    fn default() -> Self {
        Self {
            min_sync: Duration::ZERO,
            resync: Duration::from_secs(3600),
        }
    }
}

fn ready(now: Instant) -> Pace {
    let mut pace = Pace::new(Periods::default(), 0);
    pace.begin(None, now);
    pace.succeed(now, true, false);
    pace
}

#[test]
fn nothing_is_due_before_the_first_request() {
    let now = Instant::now();
    let mut pace = Pace::new(Periods::default(), 0);
    assert_eq!(pace.due(now), None);
    pace.request();
    assert_eq!(pace.due(now), Some(now));
}

#[test]
fn idle_means_until_the_next_resync() {
    let now = Instant::now();
    let pace = ready(now);
    assert_eq!(pace.due(now), Some(now + 3600 * SECOND));
    assert_eq!(
        pace.resync_reason(now + 3600 * SECOND),
        Some(Resync::Periodic)
    );
}

#[test]
fn news_after_a_failure_wait_one_second_and_not_the_whole_backoff() {
    let now = Instant::now();
    let mut pace = ready(now);
    for _ in 0..4 {
        pace.begin(None, now);
        pace.fail(now, true);
    }
    assert_eq!(pace.due(now), Some(now + 8 * SECOND));
    pace.request();
    assert_eq!(pace.due(now), Some(now + SECOND));
}

#[test]
fn a_steady_stream_does_not_put_off_the_resync() {
    let start = Instant::now();
    let mut pace = ready(start);
    for step in 1..=3600 {
        let now = start + step * SECOND;
        pace.request();
        assert_eq!(pace.due(now), Some(now));
        let reason = pace.resync_reason(now);
        assert_eq!(reason.is_some(), step == 3600);
        pace.begin(reason, now);
        pace.succeed(now, reason.is_some(), false);
    }
}

#[test]
fn the_minimum_period_counts_from_the_end_of_the_last_sync() {
    let now = Instant::now();
    let periods = Periods {
        min_sync: 5 * SECOND,
        ..Periods::default()
    };
    let mut pace = Pace::new(periods, 2);
    pace.request();
    pace.begin(None, now);
    pace.succeed(now, true, false);
    pace.request();
    pace.request();
    assert_eq!(pace.due(now + SECOND), Some(now + 5 * SECOND));
}

/// Where the operator says nothing, a data plane whose changes cost much rests as long as the last one took, and others do
/// not wait.
#[test]
fn a_pause_follows_what_the_last_sync_took() {
    #[track_caller]
    fn check(pause: u32, took: Duration, expected: Duration) {
        let now = Instant::now();
        let mut pace = Pace::new(Periods::default(), pause);
        pace.begin(None, now);
        pace.succeed(now + took, true, false);
        pace.request();
        assert_eq!(pace.due(now + took), Some(now + took + expected));
    }
    let millis = Duration::from_millis;
    check(0, 5 * SECOND, Duration::ZERO);
    check(2, millis(30), millis(60));
    check(2, 5 * SECOND, SECOND);
}

#[test]
fn what_the_machine_lacks_is_probed() {
    let now = Instant::now();
    let mut pace = ready(now);
    pace.succeed(now, false, true);
    assert_eq!(pace.due(now), Some(now + PROBE_PERIOD));
    pace.succeed(now + SECOND, false, true);
    assert_eq!(pace.due(now), Some(now + PROBE_PERIOD), "it is not put off");
    let last = now + PROBE_PERIOD;
    assert_eq!(pace.resync_reason(last), Some(Resync::Probe));
    pace.begin(Some(Resync::Probe), last);
    pace.succeed(last, false, true);
    assert_eq!(pace.due(now), Some(last + PROBE_PERIOD));
    pace.succeed(last, true, false);
    assert_eq!(pace.due(now), Some(last + 3600 * SECOND));
}

#[test]
fn a_conflict_is_slowed_down_after_the_third_repair() {
    let mut now = Instant::now();
    let mut pace = ready(now);
    for _ in 0..3 {
        pace.drifted();
        assert_eq!(pace.due(now), Some(now));
        let reason = pace.resync_reason(now);
        assert_eq!(reason, Some(Resync::Drift));
        pace.begin(reason, now);
        pace.succeed(now, true, false);
        pace.repaired(now);
    }
    pace.drifted();
    assert_eq!(pace.due(now), Some(now + SECOND));
    assert_eq!(pace.resync_reason(now), None);

    // Another sync in between does not forget the repair.
    pace.request();
    assert_eq!(pace.due(now), Some(now));
    pace.begin(None, now);
    pace.succeed(now, false, false);
    assert_eq!(pace.due(now), Some(now + SECOND));

    now += SECOND;
    pace.begin(pace.resync_reason(now), now);
    pace.succeed(now, true, false);
    pace.repaired(now);
    assert!(pace.is_conflict());
    now += 11 * SECOND;
    pace.drifted();
    assert_eq!(pace.due(now), Some(now));
    pace.begin(pace.resync_reason(now), now);
    pace.repaired(now);
    assert!(!pace.is_conflict(), "ten quiet seconds end a conflict");
}

#[test]
fn checks_that_find_nothing_are_slowed_down_and_no_conflict() {
    let mut now = Instant::now();
    let mut pace = ready(now);
    for _ in 0..4 {
        pace.drifted();
        now = pace.due(now).expect("a look is wanted");
        pace.begin(pace.resync_reason(now), now);
        pace.succeed(now, true, false);
    }
    pace.drifted();
    assert_eq!(pace.due(now), Some(now + SECOND));
    pace.repaired(now);
    assert!(!pace.is_conflict(), "it is the first");
}

#[test]
fn a_look_that_is_spared_is_due_again_only_a_period_later() {
    let now = Instant::now();
    let mut pace = Pace::new(Periods::default(), 0);
    pace.begin(None, now);
    pace.succeed(now, true, false);
    let later = now + 3600 * SECOND;
    let reason = pace.resync_reason(later);
    assert_eq!(reason, Some(Resync::Periodic));
    pace.begin(reason, later);
    pace.succeed(later, false, false);
    assert_eq!(pace.resync_reason(later + SECOND), None);
    assert_eq!(
        pace.resync_reason(later + 3600 * SECOND),
        Some(Resync::Periodic)
    );
}

#[test]
fn a_shorter_period_brings_the_next_look_forward() {
    let now = Instant::now();
    let mut pace = ready(now);
    let minute = Periods {
        resync: 60 * SECOND,
        ..Periods::default()
    };
    pace.configure(minute);
    assert_eq!(pace.due(now), Some(now + 60 * SECOND));
    pace.configure(Periods::default());
    assert_eq!(pace.due(now), Some(now + 60 * SECOND), "it is not put off");
}
