//! Streams as channels of a WebSocket: the first byte of each message is the number of its channel
//! (`wsstream/conn.go` in `k8s.io/streaming`, `client-go/tools/remotecommand/websocket.go`).

use bytes::Bytes;
use futures::stream::SplitSink;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use crate::program::{End, Size, Start};
use crate::session::{self, Channel, Input, Message};
use crate::{Connection, LAST, PIECE, PING, QUEUE};

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
    let has_status = !matches!(protocol, "" | "channel.k8s.io");
    let (sink, mut frames) = open(connection).await.split();
    let (to_session, input) = channel(QUEUE);
    let (to_client, output) = channel(QUEUE);
    let reader = async move {
        while let Some(Ok(frame)) = frames.next().await {
            let Frame::Binary(bytes) = frame else {
                continue;
            };
            if let Some(it) = read(&bytes)
                && to_session.send(it).await.is_err()
            {
                // Read on: the answer to our close is the end.
                continue;
            }
        }
    };
    let work = async {
        tokio::join!(
            session::run(start, input, to_client),
            write(sink, output, has_status)
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

/// What a message of a client means; `None`: nothing.
fn read(message: &Bytes) -> Option<Input> {
    match *message.first()? {
        STDIN => Some(Input::Stdin(message.slice(1..))),
        RESIZE => Size::read(&message[1..]).map(Input::Resize),
        CLOSE if message.get(1) == Some(&STDIN) => Some(Input::StdinEnd),
        _ => None,
    }
}

/// Sends what the session says, and pings. Ends with the session, or when the client is gone.
async fn write<C: Connection>(
    mut sink: SplitSink<WebSocketStream<C>, Frame>,
    mut output: Receiver<Message>,
    has_status: bool,
) {
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // An empty message tells the client that the streams are there.
    let mut next = Some(message(STDOUT, b""));
    while let Some(frame) = next.take() {
        if sink.send(frame).await.is_err() {
            return;
        }
        next = tokio::select! {
            said = output.recv() => match said {
                Some(Message::Output(Channel::Stdout, bytes)) => Some(message(STDOUT, &bytes)),
                Some(Message::Output(Channel::Stderr, bytes)) => Some(message(STDERR, &bytes)),
                Some(Message::End(end)) => return finish(sink, &end, has_status).await,
                None => None,
            },
            _ = pings.tick() => Some(Frame::Ping(Bytes::new())),
        };
    }
}

async fn finish<C: Connection>(
    mut sink: SplitSink<WebSocketStream<C>, Frame>,
    end: &End,
    has_status: bool,
) {
    let text = if has_status {
        Some(end.status().to_string())
    } else {
        end.text()
    };
    if let Some(text) = text {
        // The client may be gone.
        let _ = sink.send(message(ERROR, text.as_bytes())).await;
    }
    let close = CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    };
    let _ = sink.send(Frame::Close(Some(close))).await;
}

fn message(channel: u8, bytes: &[u8]) -> Frame {
    Frame::Binary([&[channel], bytes].concat().into())
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
            assert_eq!(
                read(&Bytes::copy_from_slice(message)),
                expect,
                "{message:?}"
            );
        }
    }
}
