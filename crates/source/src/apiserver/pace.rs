//! How fast we may ask, and how long to wait after a failure. Pure: time and chance come in.

use std::time::{Duration, Instant};

/// Requests per second, and how many at once (client-go's defaults, `rest/config.go`).
const DEFAULT_QPS: f32 = 5.0;
const DEFAULT_BURST: i32 = 10;

/// A token bucket that hands out turns in advance, so that those who wait keep their order.
#[derive(Debug)]
pub(super) struct Bucket {
    per_turn: Duration,
    /// What a full bucket is worth.
    depth: Duration,
    /// When the bucket was, or will be, empty.
    empty_at: Option<Instant>,
}

impl Bucket {
    /// `None`: no limit.
    pub(super) fn new(qps: f32, burst: i32) -> Option<Self> {
        let qps = if qps == 0.0 { DEFAULT_QPS } else { qps };
        let burst = if burst <= 0 { DEFAULT_BURST } else { burst };
        // So slow that it does not fit a Duration cannot be meant.
        let per_turn = Duration::try_from_secs_f32(1.0 / qps).ok()?;
        let depth = per_turn.saturating_mul(burst.unsigned_abs());
        Some(Self {
            per_turn,
            depth,
            empty_at: None,
        })
    }

    /// How long the next request has to wait.
    pub(super) fn turn(&mut self, now: Instant) -> Duration {
        let full = now.checked_sub(self.depth);
        let empty_at = match (self.empty_at, full) {
            (Some(empty_at), Some(full)) => empty_at.max(full),
            (Some(empty_at), None) => empty_at,
            (None, full) => full.unwrap_or(now),
        };
        let empty_at = empty_at + self.per_turn;
        self.empty_at = Some(empty_at);
        empty_at.saturating_duration_since(now)
    }
}

/// Longer and longer waits after failures.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// The wait after one more failure: doubled each time, up to half of it more or less by
    /// `chance` (0 to 1), so that the nodes of a cluster do not come back all at once.
    pub(super) fn next(&mut self, chance: f64) -> Duration {
        let doubled = self.first.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        doubled.min(self.longest).mul_f64(0.5 + chance)
    }

    /// It works again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

/// A number of 0 to 1 that nobody foresees: enough for jitter, nothing else.
pub(super) fn chance() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let bits = RandomState::new().build_hasher().finish();
    f64::from((bits >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits in milliseconds of requests at these moments.
    #[track_caller]
    fn check(qps: f32, burst: i32, moments: &[u64], expected: &[u128]) {
        let start = Instant::now() + Duration::from_secs(1_000);
        let mut bucket = Bucket::new(qps, burst).unwrap();
        let waits = moments.iter().map(|it| {
            let wait = bucket.turn(start + Duration::from_millis(*it));
            wait.as_millis()
        });
        assert_eq!(waits.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn burst_is_free_and_the_rest_waits() {
        check(10.0, 3, &[0, 0, 0, 0, 0], &[0, 0, 0, 100, 200]);
        check(10.0, 1, &[0, 100, 150, 5_000], &[0, 0, 50, 0]);
        check(
            10.0,
            2,
            &[0, 0, 0, 10_000, 10_000, 10_000],
            &[0, 0, 100, 0, 0, 100],
        );
    }

    #[test]
    fn zero_is_the_default_and_less_is_no_limit() {
        check(0.0, 0, &[0; 11], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200]);
        assert!(Bucket::new(-1.0, 10).is_none());
        assert!(Bucket::new(f32::NAN, 10).is_none());
        assert!(Bucket::new(1e-40, 10).is_none());
    }

    #[test]
    fn backoff_doubles_to_its_end_and_starts_again() {
        let mut backoff = Backoff::new(Duration::from_millis(800), Duration::from_secs(30));
        let waits: Vec<_> = (0..8).map(|_| backoff.next(0.5).as_millis()).collect();
        assert_eq!(waits, [800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        backoff.reset();
        assert_eq!(backoff.next(0.0).as_millis(), 400);
        assert_eq!(backoff.next(1.0).as_millis(), 2400);
    }

    #[test]
    fn chance_is_in_range() {
        assert!((0..100).all(|_| (0.0..=1.0).contains(&chance())));
    }
}
