//! Streams as channels of a WebSocket: the first byte of each message is the number of its channel
//! (`wsstream/conn.go` in `k8s.io/streaming`, `client-go/tools/remotecommand/websocket.go`, `portforward/websocket.go` in
//! `k8s.io/cri-streaming`).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::stream::SplitSink;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message as Frame};

use crate::forward::{Data, Dial, ToClient, forward};
use crate::program::{Size, Start};
use crate::session::{self, Channel, Input, Message};
use crate::{Connection, LAST, PIECE, QUEUE, pings};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Version 5: the channel that the second byte names is closed.
const CLOSE: u8 = 255;

/// Largest message of a client in bytes; kubectl's have 32 KiB.
const LARGEST: usize = 1 << 20;

async fn open<C: Connection>(connection: C) -> WebSocketStream<C> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST))
        // A message is sent before the next one is taken.
        .write_buffer_size(0);
    WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await
}

/// Runs a program with the channels of a connection.
pub(crate) async fn serve(connection: impl Connection, protocol: &str, start: Start) {
    let has_status = !matches!(protocol, "" | "channel.k8s.io" | "base64.channel.k8s.io");
    let codec = Codec::of(protocol);
    let (sink, mut frames) = open(connection).await.split();
    let (to_session, input) = channel(QUEUE);
    let (to_client, output) = channel(QUEUE);
    let reader = async move {
        while let Some(Ok(frame)) = frames.next().await {
            if let Some((channel, bytes)) = codec.read(&frame)
                && let Some(it) = read(channel, bytes)
                && to_session.send(it).await.is_err()
            {
                // Read on: the answer to our close is the end.
                continue;
            }
        }
    };
    // An empty message tells the client that the streams are there.
    let opening = vec![codec.write(STDOUT, b"")];
    let work = async {
        tokio::join!(
            session::run(start, input, to_client),
            send_all(sink, opening, output, |it| told(it, codec, has_status))
        )
    };
    let (mut reader, mut work) = (std::pin::pin!(reader), std::pin::pin!(work));
    let mut is_read = false;
    loop {
        tokio::select! {
            () = &mut reader, if !is_read => is_read = true,
            _ = &mut work => break,
        }
    }
    if !is_read {
        let _ = timeout(LAST, reader).await;
    }
}

/// How the number of a channel and its bytes are a message.
#[derive(Clone, Copy)]
enum Codec {
    Binary,
    /// A text: a digit, and base64.
    Base64,
}

impl Codec {
    fn of(protocol: &str) -> Self {
        if protocol.contains("base64") {
            Self::Base64
        } else {
            Self::Binary
        }
    }

    /// `None` for what is no message of a channel.
    fn read(self, frame: &Frame) -> Option<(u8, Bytes)> {
        let bytes = match (frame, self) {
            (Frame::Binary(bytes), _) => bytes,
            (Frame::Text(text), Self::Base64) => text.as_ref(),
            _ => return None,
        };
        let first = *bytes.first()?;
        match self {
            Self::Binary => Some((first, bytes.slice(1..))),
            Self::Base64 => {
                let decoded = BASE64_STANDARD.decode(&bytes[1..]).ok()?;
                Some((first.checked_sub(b'0')?, decoded.into()))
            }
        }
    }

    fn write(self, channel: u8, bytes: &[u8]) -> Frame {
        match self {
            Self::Binary => Frame::Binary([&[channel], bytes].concat().into()),
            Self::Base64 => {
                let digit = char::from(b'0'.saturating_add(channel));
                Frame::text(format!("{digit}{}", BASE64_STANDARD.encode(bytes)))
            }
        }
    }
}

/// What a message of a client means; `None`: nothing.
fn read(channel: u8, bytes: Bytes) -> Option<Input> {
    match channel {
        STDIN => Some(Input::Stdin(bytes)),
        RESIZE => Size::read(&bytes).map(Input::Resize),
        CLOSE if bytes.first() == Some(&STDIN) => Some(Input::StdinEnd),
        _ => None,
    }
}

/// The frame of what a session says; `None`: its end has no text.
fn told(said: Message, codec: Codec, has_status: bool) -> Option<Frame> {
    let end = match said {
        Message::Output(Channel::Stdout, bytes) => return Some(codec.write(STDOUT, &bytes)),
        Message::Output(Channel::Stderr, bytes) => return Some(codec.write(STDERR, &bytes)),
        Message::End(end) => end,
    };
    let text = if has_status {
        Some(end.status().to_string())
    } else {
        end.text()
    };
    text.map(|it| codec.write(ERROR, it.as_bytes()))
}

/// Sends the first frames, then the frame of each message, and pings. Ends with the messages, and closes the WebSocket, or
/// when the client is gone.
async fn send_all<C: Connection, M>(
    mut sink: SplitSink<WebSocketStream<C>, Frame>,
    first: Vec<Frame>,
    mut output: Receiver<M>,
    frame: impl Fn(M) -> Option<Frame>,
) {
    let work = async {
        for it in first {
            sink.send(it).await?;
        }
        let mut pings = pings();
        loop {
            let next = tokio::select! {
                said = output.recv() => match said {
                    Some(it) => frame(it),
                    None => break,
                },
                _ = pings.tick() => Some(Frame::Ping(Bytes::new())),
            };
            if let Some(it) = next {
                sink.send(it).await?;
            }
        }
        let close = CloseFrame {
            code: CloseCode::Normal,
            reason: "".into(),
        };
        sink.send(Frame::Close(Some(close))).await
    };
    // The client may be gone.
    let _: Result<(), Error> = work.await;
}

/// The way to a client of [`serve_ports`]: channels do not end.
struct ToChannels(Sender<Frame>, Codec);

impl ToClient for ToChannels {
    async fn data(&self, stream: u32, bytes: &[u8], _fin: bool) -> bool {
        let Some(channel) = u8::try_from(stream).ok().filter(|_| !bytes.is_empty()) else {
            return true;
        };
        self.0.send(self.1.write(channel, bytes)).await.is_ok()
    }
}

/// Connects once to each port, until all connections have ended or the client goes away. Channel 2n has the data of the nth
/// port and 2n + 1 its errors. Both begin with the number of the port, the smaller byte first.
pub(crate) async fn serve_ports(
    connection: impl Connection,
    protocol: &str,
    ports: &[u16],
    dial: Dial,
) {
    let codec = Codec::of(protocol);
    let (sink, mut frames) = open(connection).await.split();
    let (to_client, output) = channel(QUEUE);
    let (mut inputs, mut connections) = (Vec::new(), JoinSet::new());
    for (stream, port) in (0..).step_by(2).zip(ports.iter().copied()) {
        let (input, sent) = channel(QUEUE);
        inputs.push(input);
        let data = Data { stream, port, sent };
        let to_client = ToChannels(to_client.clone(), codec);
        connections.spawn(forward(stream + 1, data, to_client, dial.clone()));
    }
    // The connections hold it now: it ends with them.
    drop(to_client);
    let reader = async move {
        while let Some(Ok(frame)) = frames.next().await {
            let Some((channel, bytes)) = codec.read(&frame) else {
                continue;
            };
            let input = inputs.get(usize::from(channel / 2));
            if let Some(input) = input.filter(|_| channel % 2 == 0) {
                // The connection may have ended.
                let _ = input.send(bytes).await;
            }
        }
    };
    let channels = (0..=u8::MAX).zip(ports.iter().flat_map(|it| [it, it]));
    let opening = channels.map(|(channel, port)| codec.write(channel, &port.to_le_bytes()));
    let writer = send_all(sink, opening.collect(), output, Some);
    let (mut reader, mut writer) = (std::pin::pin!(reader), std::pin::pin!(writer));
    tokio::select! {
        () = &mut reader => {}
        // The answer to our close is the end.
        () = &mut writer => { let _ = timeout(LAST, reader).await; }
    }
}

/// The bytes in the binary messages of a WebSocket, as a connection of its own. Its end closes the WebSocket.
pub(crate) async fn tunnel(connection: impl Connection) -> DuplexStream {
    let (ours, theirs) = duplex(2 * PIECE);
    let (mut sink, mut frames) = open(connection).await.split();
    let (mut from, mut to) = split(ours);
    tokio::spawn(async move {
        let inward = async {
            while let Some(Ok(frame)) = frames.next().await {
                if let Frame::Binary(bytes) = frame
                    && to.write_all(&bytes).await.is_err()
                {
                    return;
                }
            }
            let _ = to.shutdown().await;
        };
        let outward = async {
            let mut piece = vec![0; PIECE];
            loop {
                match from.read(&mut piece).await {
                    Ok(length @ 1..) => {
                        let bytes = Bytes::copy_from_slice(&piece[..length]);
                        sink.send(Frame::Binary(bytes)).await?;
                    }
                    _ => return sink.close().await,
                }
            }
        };
        let outward = async { outward.await.unwrap_or(()) };
        let (mut inward, mut outward) = (std::pin::pin!(inward), std::pin::pin!(outward));
        tokio::select! {
            () = &mut inward => { let _ = timeout(LAST, outward).await; }
            () = &mut outward => { let _ = timeout(LAST, inward).await; }
        }
    });
    theirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        let size = Size {
            width: 80,
            height: 24,
        };
        let stdin = Bytes::from_static(b"ls\n");
        for (message, expect) in [
            (&b"\x00ls\n"[..], Some(Input::Stdin(stdin))),
            (b"\x00", Some(Input::Stdin(Bytes::new()))),
            (
                b"\x04{\"Width\":80,\"Height\":24}",
                Some(Input::Resize(size)),
            ),
            (b"\x04{\"Width\":-1,\"Height\":24}", None),
            (b"\x04{\"Width\":70000,\"Height\":24}", None),
            (b"\x04", None),
            (b"\xff\x00", Some(Input::StdinEnd)),
            (b"\xff\x01", None),
            (b"\xff", None),
            (b"\x01x", None),
            (b"", None),
        ] {
            let frame = Frame::Binary(Bytes::copy_from_slice(message));
            let found = Codec::Binary.read(&frame);
            let found = found.and_then(|(channel, bytes)| read(channel, bytes));
            assert_eq!(found, expect, "{message:?}");
        }
    }

    #[test]
    fn messages_may_be_text() {
        let codec = Codec::of("v4.base64.channel.k8s.io");
        let found = |frame: Frame| codec.read(&frame);
        // The example of wsstream/conn.go.
        let stdin = (STDIN, Bytes::from_static(b"foo\n"));
        assert_eq!(found(Frame::text("0Zm9vCg==")), Some(stdin));
        assert_eq!(codec.write(STDOUT, b"\n"), Frame::text("1Cg=="));
        for wrong in ["", "0?", "0Zm9vCg", " Zm9vCg=="] {
            assert_eq!(found(Frame::text(wrong)), None, "{wrong:?}");
        }
        assert_eq!(Codec::Binary.read(&Frame::text("0Zm9vCg==")), None);
    }
}
