//! The events of a watch: one JSON text on each line.

use std::io;
use std::pin::Pin;

use futures::io::AsyncBufReadExt as _;
use futures::stream::{ReadyChunks, Stream, StreamExt as _, TryStreamExt as _};
use http::Response;
use http_body_util::BodyExt as _;
use kube::api::WatchEvent;
use kube::client::Body;
use kube::core::Status;
use serde_json::value::RawValue;

use super::causes::chain;
use super::failure::Failure;

/// Events that are read at once and delivered as one batch.
const BATCH: usize = 256;

/// The longest event, in bytes. etcd takes objects of 1.5 MiB, which are a few times as long in JSON.
const MAX_EVENT: usize = 16 << 20;

type Event = Result<WatchEvent<Box<RawValue>>, Failure>;

/// Events as they come, those that are there already as one batch.
pub(super) type Events = ReadyChunks<Pin<Box<dyn Stream<Item = Event>>>>;

/// The events of an answer. kube's `request_events` is not used, because it logs a connection that breaks off as a text
/// for developers and does not say it to its caller.
pub(super) fn events(answer: Response<Body>) -> Events {
    let mut length = 0;
    let bytes = answer.into_body().into_data_stream().map(move |bytes| {
        let bytes = bytes.map_err(io::Error::other)?;
        length = match bytes.iter().rposition(|it| *it == b'\n') {
            Some(end) => bytes.len() - end - 1,
            None => length + bytes.len(),
        };
        if length > MAX_EVENT {
            let mebibytes = MAX_EVENT >> 20;
            let why = format!("it sent an event of more than {mebibytes} MiB");
            return Err(io::Error::other(why));
        }
        Ok(bytes)
    });
    let lines = bytes.into_async_read().lines();
    let events: Pin<Box<dyn Stream<Item = Event>>> = Box::pin(lines.map(event));
    events.ready_chunks(BATCH)
}

fn event(line: io::Result<String>) -> Event {
    let line = line.map_err(|it| Failure::Broken(chain(&it)))?;
    serde_json::from_str(&line).map_err(|error| match serde_json::from_str::<Status>(&line) {
        _ if error.is_eof() => Failure::Broken("it ended in the middle of an event".to_owned()),
        // A refusal in place of an event.
        Ok(status) => status.into(),
        Err(_) => error.into(),
    })
}
