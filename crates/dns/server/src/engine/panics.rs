//! A panic costs the answer that it happened in, and no other.

use std::cell::Cell;
use std::future::{self, Future};
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures::FutureExt as _;

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread ends an answer and nothing else. For a panic hook that ends the process: it runs before the
/// panic is caught.
#[must_use]
pub fn is_caught() -> bool {
    IS_CAUGHT.get()
}

/// What a future comes to; `None`: it panicked.
pub async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(AssertUnwindSafe(future).catch_unwind());
    let polled = future::poll_fn(|context| {
        IS_CAUGHT.set(true);
        let polled = future.as_mut().poll(context);
        IS_CAUGHT.set(false);
        polled
    });
    polled.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_one_future() {
        let answers = async {
            [
                caught(async { is_caught() }).await,
                caught(async { panic!("bad") }).await,
            ]
        };
        assert_eq!(answers.now_or_never(), Some([Some(true), None]));
        assert!(!is_caught());
    }
}
