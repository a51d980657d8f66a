//! Bodies of answers: whole, streamed, or cut off on purpose.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::stream::{self, StreamExt};
use hyper::body::{Frame, SizeHint};
use sluice_api::answer::Content;

use crate::wire::Line;

/// How a connection or an answer ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The connection is reset (TCP RST).
    Reset,
    /// The connection is closed (TCP FIN), without the end of the HTTP body or of TLS.
    Close,
    /// The body ends as HTTP wants it, too early, and the connection stays.
    End,
}

/// Pieces of a body, until it is cut.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Cut>> + Send>>;

/// The body of an answer.
pub(crate) enum Body {
    Whole(Option<Bytes>),
    Pieces {
        pieces: Pieces,
        line: Arc<Line>,
        /// Set once the body was cut; what was sent so far is on its way.
        ended: bool,
    },
}

/// The connection must go.
#[derive(Debug, thiserror::Error)]
#[error("cut off on purpose")]
pub(crate) struct CutOff;

impl Body {
    /// A body that nothing cuts, unless the watch it belongs to is told to.
    pub(crate) fn of(content: Content, line: Arc<Line>) -> Self {
        match content {
            Content::Whole(bytes) => Self::Whole(bytes),
            Content::Pieces(pieces) => {
                let ordered = line.clone();
                let cut = stream::iter([()]).filter_map(move |()| {
                    let cut = ordered.ordered();
                    async move { cut.map(Err) }
                });
                Self::pieces(pieces.map(Ok).chain(cut).boxed(), line)
            }
        }
    }

    pub(crate) fn pieces(pieces: Pieces, line: Arc<Line>) -> Self {
        Self::Pieces {
            pieces,
            line,
            ended: false,
        }
    }

    /// The body as pieces, for faults that change them.
    pub(crate) fn into_pieces(self) -> Pieces {
        match self {
            Self::Whole(bytes) => stream::iter(bytes.map(Ok)).boxed(),
            Self::Pieces { pieces, .. } => pieces,
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let (pieces, line, ended) = match self.get_mut() {
            Self::Whole(bytes) => return Poll::Ready(bytes.take().map(|it| Ok(Frame::data(it)))),
            Self::Pieces {
                pieces,
                line,
                ended,
            } => (pieces, line, ended),
        };
        if *ended {
            return Poll::Ready(Some(Err(CutOff)));
        }
        match pieces.as_mut().poll_next(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None | Some(Err(Cut::End))) => Poll::Ready(None),
            Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Poll::Ready(Some(Err(cut))) => {
                // Pending once, so that hyper flushes the pieces before it sees the end.
                *ended = true;
                line.end_by(cut);
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |it| it.len() as u64))
            }
            Self::Pieces { .. } => SizeHint::default(),
        }
    }
}
