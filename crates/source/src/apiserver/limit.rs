//! How many requests a second are sent (`clientConnection.qps` and `burst`). Pure: time is an argument.

use std::time::{Duration, Instant};

/// Requests per second, and how many at once (client-go's defaults, `rest/config.go`).
const DEFAULT_QPS: f32 = 5.0;
const DEFAULT_BURST: i32 = 10;

/// A token bucket that gives tokens in advance, so that waiting requests keep their order.
#[derive(Debug)]
pub(super) struct Bucket {
    per_turn: Duration,
    /// Time in which an empty bucket fills up.
    depth: Duration,
    /// When the bucket was, or will be, empty.
    empty_at: Option<Instant>,
}

impl Bucket {
    /// `None`: no limit.
    pub(super) fn new(qps: f32, burst: i32) -> Option<Self> {
        let qps = if qps == 0.0 { DEFAULT_QPS } else { qps };
        let burst = if burst <= 0 { DEFAULT_BURST } else { burst };
        // A rate below the range of a Duration is a mistake: no limit.
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
}
