//! Waiting for something that happens elsewhere.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::vm::patience;

/// Asks `probe` again and again until it has an answer; `None` when there is none after `within`
/// (of which a virtual machine has more).
///
/// Asks at least once, and once more when time is up.
pub fn eventually<T>(within: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience(within);
    loop {
        let last = Instant::now() >= deadline;
        if let Some(answer) = probe() {
            return Some(answer);
        }
        if last {
            return None;
        }
        thread::sleep(patience(Duration::from_millis(2)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_ends_the_wait() {
        let mut asked = 0;
        let answer = eventually(Duration::from_secs(60), || {
            asked += 1;
            (asked == 3).then_some(asked)
        });
        assert_eq!(answer, Some(3));
    }

    #[test]
    fn no_answer_is_none_but_it_was_asked() {
        let mut asked = 0;
        let answer = eventually(Duration::ZERO, || {
            asked += 1;
            None::<()>
        });
        assert_eq!((answer, asked), (None, 1));
    }
}
