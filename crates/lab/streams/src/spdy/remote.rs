//! exec and attach over SPDY: a stream each for errors, input, outputs and sizes
//! (`remotecommand/httpstream.go` in `k8s.io/cri-streaming`).

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, timeout, timeout_at};

use super::{Event, Sender, open};
use crate::program::{End, Size, Start, Wanted};
use crate::session::{self, Channel, Input, Message};
use crate::{Connection, LAST, QUEUE};

/// How long a client may take to open its streams (`streamCreationTimeout` of kubelet).
const CREATION: Duration = Duration::from_secs(30);

/// Most bytes of one size: `{"Width":65535,"Height":65535}` and some room.
const LARGEST_SIZE: usize = 1024;

/// The streams of a session, by the header `streamType`.
#[derive(Default)]
struct Streams(BTreeMap<&'static str, u32>);

impl Streams {
    /// Takes in a stream that the client opened. Returns whether it is wanted.
    fn add(&mut self, expected: &[&'static str], kind: &str, stream: u32) -> bool {
        let known = expected.iter().find(|it| **it == kind);
        known.is_some_and(|it| self.0.insert(it, stream).is_none())
    }

    fn is(&self, kind: &str, stream: u32) -> bool {
        self.0.get(kind) == Some(&stream)
    }
}

/// Runs a program with the streams of a connection.
pub(crate) async fn serve(
    connection: impl Connection,
    protocol: &str,
    wanted: Wanted,
    start: Start,
) {
    let takes_sizes = wanted.tty && matches!(protocol, "v3.channel.k8s.io" | "v4.channel.k8s.io");
    let expected = [
        ("error", true),
        ("stdin", wanted.stdin),
        ("stdout", wanted.stdout),
        ("stderr", wanted.stderr && !wanted.tty),
        ("resize", takes_sizes),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .filter(|it| it.1)
        .map(|it| it.0)
        .collect();
    let (mut events, sender, mut tasks) = open(connection);
    let mut streams = Streams::default();
    let until = Instant::now() + CREATION;
    while streams.0.len() < expected.len() {
        match timeout_at(until, events.recv()).await {
            Ok(Some(Event::Open { stream, headers })) => {
                let kind = headers.get("streamtype").unwrap_or_default();
                if !streams.add(&expected, kind, stream) {
                    return;
                }
            }
            // kubectl writes when all streams are open.
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return,
        }
    }
    let (to_session, input) = mpsc::channel(QUEUE);
    let (to_client, output) = mpsc::channel(QUEUE);
    let has_status = protocol == "v4.channel.k8s.io";
    let work = async {
        tokio::join!(
            session::run(start, input, to_client),
            write(&sender, output, &streams, has_status)
        )
    };
    tokio::select! {
        _ = work => {}
        () = read(events, to_session, &streams) => return,
    }
    drop(sender);
    // The client reads what is on its way, and closes: what it has not handled then is lost.
    let _ = timeout(LAST, tasks.ended()).await;
}

/// Takes in what the client sends. Returns when it is gone.
async fn read(
    mut events: mpsc::Receiver<Event>,
    to_session: mpsc::Sender<Input>,
    streams: &Streams,
) {
    let mut size = Vec::new();
    while let Some(event) = events.recv().await {
        let mut inputs = Vec::new();
        match event {
            Event::Data { stream, bytes, fin } if streams.is("stdin", stream) => {
                if !bytes.is_empty() {
                    inputs.push(Input::Stdin(bytes));
                }
                if fin {
                    inputs.push(Input::StdinEnd);
                }
            }
            Event::Reset { stream } if streams.is("stdin", stream) => inputs.push(Input::StdinEnd),
            Event::Data { stream, bytes, .. } if streams.is("resize", stream) => {
                // Values of JSON follow each other, and a frame may end anywhere.
                size.extend(bytes);
                while let Some(end) = size.iter().position(|it| *it == b'}') {
                    let one: Vec<u8> = size.drain(..=end).collect();
                    inputs.extend(Size::read(&one).map(Input::Resize));
                }
                if size.len() > LARGEST_SIZE {
                    return;
                }
            }
            _ => {}
        }
        for it in inputs {
            if to_session.send(it).await.is_err() {
                // The session is over, and the end on its way.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Sends what the session says. Ends with it, or when the client is gone.
async fn write(
    sender: &Sender,
    mut output: mpsc::Receiver<Message>,
    streams: &Streams,
    has_status: bool,
) {
    loop {
        let said = tokio::select! {
            said = output.recv() => said,
            () = sender.closed() => return,
        };
        match said {
            Some(Message::Output(channel, bytes)) => {
                let kind = match channel {
                    Channel::Stdout => "stdout",
                    Channel::Stderr => "stderr",
                };
                if let Some(stream) = streams.0.get(kind)
                    && !sender.data(*stream, &bytes, false).await
                {
                    return;
                }
            }
            Some(Message::End(end)) => return finish(sender, streams, &end, has_status).await,
            None => return,
        }
    }
}

async fn finish(sender: &Sender, streams: &Streams, end: &End, has_status: bool) {
    let text = if has_status {
        Some(end.status().to_string())
    } else {
        end.text()
    };
    for (kind, stream) in &streams.0 {
        let text = text.as_deref().filter(|_| *kind == "error");
        // The client may be gone.
        let _ = sender
            .data(*stream, text.unwrap_or_default().as_bytes(), true)
            .await;
    }
}
