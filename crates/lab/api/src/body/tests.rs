use futures::stream;
use hyper::StatusCode;

use super::*;
use crate::answer::{Content, refuse};

/// What became of a body of so many pieces of 1 MiB.
fn collected(pieces: usize) -> Result<usize, Unreadable> {
    let piece = Bytes::from(vec![b' '; LARGEST / 3]);
    let pieces = stream::iter(std::iter::repeat_n(piece, pieces));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let read = collect(Content::Pieces(Box::pin(pieces)));
    runtime.unwrap().block_on(read).map(|it| it.len())
}

#[test]
fn a_body_over_the_limit_is_read_to_its_end_and_refused() {
    assert_eq!(collected(3).unwrap(), LARGEST);
    for pieces in [4, 60] {
        let refused = refuse(&collected(pieces).unwrap_err().status().unwrap());
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    // One without an end is cut off.
    assert!(collected(usize::MAX).unwrap_err().status().is_err());
}
