//! Polls with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::vm::scaled;

/// Calls `probe` every 2 ms until it returns a value; `None` after the timeout `within`. Inside a
/// virtual machine both times are ten times longer.
///
/// Calls `probe` at least once, and once more after the timeout.
pub fn eventually<T>(within: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + scaled(within);
    loop {
        let last = Instant::now() >= deadline;
        if let Some(answer) = probe() {
            return Some(answer);
        }
        if last {
            return None;
        }
        #[expect(clippy::disallowed_methods, reason = "tests wait here alone")]
        thread::sleep(scaled(Duration::from_millis(2)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_ends_the_wait() {
        let mut calls = 0;
        let answer = eventually(Duration::from_secs(60), || {
            calls += 1;
            (calls == 3).then_some(calls)
        });
        assert_eq!(answer, Some(3));
    }

    #[test]
    fn without_an_answer_it_was_called_once() {
        let mut calls = 0;
        let answer = eventually(Duration::ZERO, || {
            calls += 1;
            None::<()>
        });
        assert_eq!((answer, calls), (None, 1));
    }
}
