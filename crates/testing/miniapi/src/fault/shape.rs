//! What faults make of answers.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use hyper::{Response, StatusCode};
use serde_json::json;
use sluice_api::answer::{self, Answer, Content, json_text, refuse};
use sluice_api::list::Page;
use sluice_api::{Cause, Resource, Status};
use tokio::time::sleep;

use crate::answer::html;
use crate::body::{Body, Pieces};
use crate::fault::Fault;
use crate::wire::Line;

const MIB: usize = 1024 * 1024;

/// The whole answer, for faults that look at nothing else. `revision` is the store's.
pub(crate) fn reply(
    fault: &Fault,
    resource: Option<&Resource>,
    is_watch: bool,
    revision: u64,
) -> Option<Answer> {
    let status = match fault {
        Fault::Unauthorized => Status::unauthorized(),
        Fault::UnknownField => Status::bad_request("field label not supported, as asked"),
        Fault::Forbidden => Status::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            "the server does not allow this request to this user",
        ),
        Fault::NotFound => Status::no_resource(),
        Fault::Gone => Status::expired("too old, as asked"),
        Fault::NoStreamingLists => {
            let why = "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList \
                       feature gate is enabled";
            let cause = Cause::new("sendInitialEvents", why);
            Status::invalid_options("ListOptions", &[cause])
        }
        Fault::TooManyRequests(seconds) => {
            let message = "Too many requests, please try again later.";
            Status::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
                .retry_after(*seconds)
        }
        Fault::InternalError => Status::internal("as asked"),
        Fault::Unavailable => Status::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "apiserver not ready",
        ),
        Fault::VersionTooLarge => Status::too_large_version(revision + 1000, revision),
        Fault::Html(code) => return Some(html(*code)),
        _ => {
            let pieces = body(fault, resource, is_watch, revision)?;
            return Some(json_text(Content::Pieces(pieces)));
        }
    };
    Some(refuse(&status))
}

/// A body with status 200.
fn body(
    fault: &Fault,
    resource: Option<&Resource>,
    is_watch: bool,
    revision: u64,
) -> Option<answer::Pieces> {
    let once = |text: String| stream::iter([Bytes::from(text)]).boxed();
    let empty = Page {
        revision,
        ..Page::default()
    };
    let list_head = || resource.map(|it| empty.head(it));
    Some(match fault {
        Fault::Garbage => once("\u{0}\u{1}]]}> this is no JSON {{{\n".to_owned()),
        Fault::WrongTypes if is_watch => {
            once(format!("{}\n", json!({"type": "ADDED", "object": [1, "two"]})))
        }
        Fault::WrongTypes => once(
            json!({"kind": 1, "apiVersion": [], "metadata": {"resourceVersion": {}}, "items": "all"})
                .to_string(),
        ),
        Fault::EmptyList => once(format!("{}[]}}\n", list_head()?)),
        Fault::EndlessList => {
            let page = Page {
                resume: Some("more".to_owned()),
                ..empty
            };
            once(format!("{}[]}}\n", page.head(resource.filter(|_| !is_watch)?)))
        }
        Fault::NullItems => once(format!("{}null}}\n", list_head()?)),
        Fault::GoneEvent => once(Status::expired("too old resource version, as asked").event()),
        Fault::ErrorEvent => once(Status::internal("as asked").event()),
        Fault::EndsAtOnce => stream::empty().boxed(),
        Fault::EndlessLine(mebibytes) => {
            let head = stream::iter([Bytes::from_static(br#"{"type":"ADDED","object":{"kind":""#)]);
            let filler = Bytes::from(vec![b'a'; MIB]);
            let filler = stream::repeat(filler).take(*mebibytes);
            head.chain(filler).chain(stream::pending()).boxed()
        }
        _ => return None,
    })
}

/// The answer as the fault lets it through.
pub(crate) fn shape(answer: Response<Body>, fault: &Fault, line: &Arc<Line>) -> Response<Body> {
    let (head, body) = answer.into_parts();
    let pieces = match *fault {
        Fault::Slow { bytes, pause } => {
            let size = bytes.max(1);
            let parts = body.into_pieces().flat_map(move |piece| {
                let parts = match piece {
                    Ok(piece) => split(&piece, size).into_iter().map(Ok).collect(),
                    Err(cut) => vec![Err(cut)],
                };
                stream::iter(parts)
            });
            let slowly = parts.then(move |part| async move {
                sleep(pause).await;
                part
            });
            slowly.boxed()
        }
        Fault::Cut { after, how } => {
            let end = stream::iter([Err(how)]);
            first(body.into_pieces(), after).chain(end).boxed()
        }
        _ => return Response::from_parts(head, body),
    };
    Response::from_parts(head, Body::pieces(pieces, line.clone()))
}

/// The first `bytes` of a body.
fn first(pieces: Pieces, bytes: usize) -> Pieces {
    let kept = stream::unfold((pieces, bytes), |(mut pieces, left)| async move {
        if left == 0 {
            return None;
        }
        let piece = pieces
            .next()
            .await?
            .map(|it| it.slice(..it.len().min(left)));
        let length = piece.as_ref().map_or(0, Bytes::len);
        Some((piece, (pieces, left - length)))
    });
    kept.boxed()
}

fn split(piece: &Bytes, size: usize) -> Vec<Bytes> {
    let starts = (0..piece.len()).step_by(size);
    starts
        .map(|start| piece.slice(start..piece.len().min(start + size)))
        .collect()
}
