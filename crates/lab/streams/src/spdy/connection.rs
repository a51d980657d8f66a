//! One connection: a task that reads frames, and one that writes them.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::frame::{self, Control, HEAD, Head, Kind, REFUSED_STREAM};
use super::headers::{Headers, Inflate};
use crate::{Connection, PIECE, QUEUE, pings};

/// Most streams that a client may open in one connection at the same time: port-forward has two for each of its connections.
const STREAMS: usize = 512;

/// What a client did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It opened a stream, which is answered already.
    Open { stream: u32, headers: Headers },
    /// At most [`PIECE`] bytes. `fin`: the client writes no more to the stream.
    Data {
        stream: u32,
        bytes: Bytes,
        fin: bool,
    },
    /// It wants no more of the stream.
    Reset { stream: u32 },
}

/// Writes to the streams of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Sender(mpsc::Sender<Vec<u8>>);

impl Sender {
    /// Writes to a stream; `fin` ends it. Returns whether the connection is open.
    pub(crate) async fn data(&self, stream: u32, bytes: &[u8], fin: bool) -> bool {
        self.0.send(frame::data(stream, bytes, fin)).await.is_ok()
    }

    /// Becomes ready when the client is gone.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}

/// The tasks of a connection, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Tasks(JoinSet<()>);

impl Tasks {
    /// Waits until the client has closed the connection.
    pub(crate) async fn ended(&mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

/// Speaks SPDY on a connection. No more events: the client is gone.
pub(crate) fn open(connection: impl Connection) -> (mpsc::Receiver<Event>, Sender, Tasks) {
    let (reader, writer) = split(connection);
    let (to_client, frames) = mpsc::channel(QUEUE);
    let (to_us, events) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    let replies = to_client.clone();
    tasks.spawn(async move {
        // A client that goes away or sends what no frame is: the end is the same.
        let _ = read(reader, to_us, replies).await;
    });
    tasks.spawn(write(writer, frames));
    (events, Sender(to_client), Tasks(tasks))
}

/// Why reading ends.
struct Ended;

impl<E: std::error::Error> From<E> for Ended {
    fn from(_: E) -> Self {
        Self
    }
}

async fn read(
    mut from: impl AsyncRead + Unpin,
    events: mpsc::Sender<Event>,
    replies: mpsc::Sender<Vec<u8>>,
) -> Result<(), Ended> {
    let mut inflate = Inflate::new();
    let (mut streams, mut last, mut has_replied) = (OpenStreams::default(), 0, false);
    loop {
        let mut head = [0; HEAD];
        from.read_exact(&mut head).await?;
        let Head { kind, length, fin } = Head::read(&head)?;
        let kind = match kind {
            Kind::Control { kind } => kind,
            Kind::Data { stream } => {
                let mut left = length;
                loop {
                    let mut piece = vec![0; left.min(PIECE)];
                    from.read_exact(&mut piece).await?;
                    left -= piece.len();
                    let fin = fin && left == 0;
                    let bytes = Bytes::from(piece);
                    events.send(Event::Data { stream, bytes, fin }).await?;
                    if left == 0 {
                        break;
                    }
                }
                if fin {
                    streams.close(stream);
                }
                continue;
            }
        };
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await?;
        match Control::read(kind, &payload, &mut inflate)? {
            // A client's streams and pings have odd numbers, and each stream a greater one.
            Control::Open { stream, headers } => {
                if stream % 2 == 0 || stream <= last {
                    return Err(Ended);
                }
                last = stream;
                if !streams.open(stream) {
                    replies.send(frame::reset(stream, REFUSED_STREAM)).await?;
                    continue;
                }
                replies.send(frame::reply(stream, !has_replied)).await?;
                has_replied = true;
                events.send(Event::Open { stream, headers }).await?;
                if fin {
                    streams.close(stream);
                    let bytes = Bytes::new();
                    events.send(Event::Data { stream, bytes, fin }).await?;
                }
            }
            Control::Reset { stream } => {
                streams.close(stream);
                events.send(Event::Reset { stream }).await?;
            }
            Control::Ping { id } if id % 2 == 1 => replies.send(frame::ping(id)).await?,
            Control::Ping { .. } | Control::Other => {}
        }
    }
}

/// The streams that a client may still write to.
#[derive(Default)]
struct OpenStreams(std::collections::BTreeSet<u32>);

impl OpenStreams {
    fn open(&mut self, stream: u32) -> bool {
        self.0.len() < STREAMS && self.0.insert(stream)
    }

    fn close(&mut self, stream: u32) {
        self.0.remove(&stream);
    }
}

/// Writes frames, and pings; a write to a client that was killed fails.
async fn write(mut to: impl AsyncWrite + Unpin, mut frames: mpsc::Receiver<Vec<u8>>) {
    let mut pings = pings();
    // Ours have even numbers.
    let mut id = 0u32;
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => frame,
            _ = pings.tick() => {
                id = id.wrapping_add(2).max(2);
                Some(frame::ping(id))
            }
        };
        let Some(frame) = frame else { break };
        if to.write_all(&frame).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
}
