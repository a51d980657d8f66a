//! Sessions over both protocols, with clients of the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, stream};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::spdy::{data, open_stream, ping};
use crate::{Dial, End, PIECE, Program, Start, Transport, Wanted, serve_ports, serve_program};

const V4: Transport = Transport::Spdy("v4.channel.k8s.io");
const V5: Transport = Transport::WebSocket("v5.channel.k8s.io");

/// Far longer than anything takes.
const WITHIN: Duration = Duration::from_secs(30);

const ALL: Wanted = Wanted {
    stdin: true,
    stdout: true,
    stderr: false,
    tty: false,
};

/// Writes what it reads, and ends with 3 at the end of its input; tells when it is dropped.
fn cat() -> (Start, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let tells = Tells(dropped.clone());
    let start = move || {
        let (stdin, mut read) = duplex(1024);
        let (to, from) = mpsc::channel::<Bytes>(1);
        let (tell_end, ended) = oneshot::channel();
        tokio::spawn(async move {
            let mut piece = vec![0; PIECE];
            while let Ok(length @ 1..) = read.read(&mut piece).await {
                let bytes = Bytes::copy_from_slice(&piece[..length]);
                if to.send(bytes).await.is_err() {
                    return;
                }
            }
            let _ = tell_end.send(());
        });
        let output = stream::unfold(from, |mut it| async { Some((it.recv().await?, it)) });
        Ok(Program {
            stdin: Some(Box::new(stdin)),
            stdout: Some(Box::pin(output)),
            stderr: None,
            resize: None,
            end: Box::pin(async move {
                let _tells = tells;
                let _ = ended.await;
                End::Exit(3)
            }),
        })
    };
    (Box::new(start), dropped)
}

struct Tells(Arc<AtomicBool>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn within<T>(it: impl Future<Output = T>) -> T {
    timeout(WITHIN, it).await.unwrap()
}

async fn until(flag: &AtomicBool) {
    within(async {
        while !flag.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn serve(transport: Transport, wanted: Wanted, start: Start) -> DuplexStream {
    let (client, server) = duplex(64 * 1024);
    tokio::spawn(serve_program(server, transport, wanted, start));
    client
}

/// What a server of SPDY wrote until it had ended so many streams: of each stream its bytes, and a dot at its end.
async fn streams(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut count: usize,
) -> Vec<(u32, String)> {
    let mut all: Vec<(u32, String)> = Vec::new();
    let mut head = [0; 8];
    while count > 0 {
        from.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await.unwrap();
        if head[0] & 0x80 != 0 {
            continue;
        }
        let stream = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let text = String::from_utf8(payload).unwrap();
        let end = if head[4] == 1 { "." } else { "" };
        count -= end.len();
        match all.iter_mut().find(|it| it.0 == stream) {
            Some((_, held)) => *held += &(text + end),
            None => all.push((stream, text + end)),
        }
    }
    all.sort();
    all
}

fn opening(kinds: &[&str]) -> Vec<u8> {
    let each = kinds.iter().zip((1..).step_by(2));
    let each = each.map(|(kind, stream)| open_stream(stream, &[("streamtype", kind)], stream == 1));
    each.collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn spdy_carries_a_program() {
    let (start, dropped) = cat();
    let (from, mut to) = split(serve(V4, ALL, start));
    let mut sent = opening(&["error", "stdin", "stdout"]);
    sent.extend(ping(1));
    sent.extend(data(3, b"hello ", false));
    sent.extend(data(3, b"world", true));
    // Frames come in any pieces.
    for piece in sent.chunks(7) {
        to.write_all(piece).await.unwrap();
    }
    let all = within(streams(from, 3)).await;
    assert_eq!(all[2], (5, "hello world.".to_owned()));
    assert_eq!(all[1], (3, ".".to_owned()));
    let status: Value = serde_json::from_str(all[0].1.trim_end_matches('.')).unwrap();
    assert_eq!(status["details"]["causes"][0]["message"], "3");
    until(&dropped).await;
}

#[tokio::test]
async fn old_versions_get_a_text() {
    for (protocol, expect) in [
        ("", "command terminated with exit code 3."),
        ("v2.channel.k8s.io", "command terminated with exit code 3."),
    ] {
        let (start, _) = cat();
        let (from, mut to) = split(serve(Transport::Spdy(protocol), ALL, start));
        to.write_all(&opening(&["error", "stdin", "stdout"]))
            .await
            .unwrap();
        to.write_all(&data(3, b"", true)).await.unwrap();
        assert_eq!(within(streams(from, 3)).await[0], (1, expect.to_owned()));
    }
}

#[tokio::test]
async fn a_program_ends_with_its_client() {
    for transport in [V4, V5] {
        let (start, dropped) = cat();
        let mut client = serve(transport, ALL, start);
        if transport == V4 {
            let streams = opening(&["error", "stdin", "stdout"]);
            client.write_all(&streams).await.unwrap();
        }
        // The session runs when the first bytes are there.
        client.read_u8().await.unwrap();
        drop(client);
        until(&dropped).await;
    }
}

#[tokio::test]
async fn what_spdy_does_not_allow_ends_the_session() {
    let even = open_stream(2, &[("streamtype", "error")], true);
    let unknown = opening(&["error", "other"]);
    let twice = [opening(&["error"]), opening(&["error"])].concat();
    let other_version = vec![0x80, 2, 0, 1, 0, 0, 0, 0];
    for bytes in [even, unknown, twice, other_version] {
        let (start, dropped) = cat();
        let mut client = serve(V4, ALL, start);
        client.write_all(&bytes).await.unwrap();
        let mut rest = Vec::new();
        within(client.read_to_end(&mut rest)).await.unwrap();
        until(&dropped).await;
    }
}

async fn websocket(connection: DuplexStream) -> WebSocketStream<DuplexStream> {
    WebSocketStream::from_raw_socket(connection, Role::Client, None).await
}

/// The messages of a server until its close, but for pings.
async fn messages(client: &mut WebSocketStream<DuplexStream>) -> Vec<Bytes> {
    let mut all = Vec::new();
    while let Some(Ok(message)) = client.next().await {
        if let Message::Binary(bytes) = message {
            all.push(bytes);
        }
    }
    all
}

#[tokio::test]
async fn a_websocket_carries_a_program() {
    let (start, dropped) = cat();
    let mut client = websocket(serve(V5, ALL, start)).await;
    for message in [&b"\x00hello"[..], b"\x09?", b"\xff\x00"] {
        let message = Message::Binary(Bytes::from_static(message));
        client.send(message).await.unwrap();
    }
    let all = within(messages(&mut client)).await;
    assert_eq!(&all[..2], [&b"\x01"[..], b"\x01hello"]);
    let (channel, status) = all[2].split_first().unwrap();
    let status: Value = serde_json::from_slice(status).unwrap();
    assert_eq!(
        (*channel, &status["reason"]),
        (3, &"NonZeroExitCode".into())
    );
    until(&dropped).await;
}

#[tokio::test]
async fn a_program_that_cannot_start_says_why() {
    let start: Start = Box::new(|| Err("there is no nslookup".to_owned()));
    let mut client = websocket(serve(V5, ALL, start)).await;
    let all = within(messages(&mut client)).await;
    let status: Value = serde_json::from_slice(&all[1][1..]).unwrap();
    assert_eq!(
        status["message"],
        "Internal error occurred: there is no nslookup"
    );
}

/// A program that writes much.
fn yes(written: Arc<std::sync::atomic::AtomicUsize>) -> Start {
    Box::new(move || {
        let output = stream::repeat_with(move || {
            written.fetch_add(1, Ordering::SeqCst);
            Bytes::from(vec![b'y'; PIECE])
        });
        Ok(Program {
            stdin: None,
            stdout: Some(Box::pin(output.take(MUCH))),
            stderr: None,
            resize: None,
            end: Box::pin(std::future::pending()),
        })
    })
}

/// More pieces than all buffers hold.
const MUCH: usize = 1024;

#[tokio::test(start_paused = true)]
async fn a_slow_client_stops_the_program() {
    for transport in [V4, V5] {
        let written = Arc::default();
        let wanted = Wanted {
            stdin: false,
            ..ALL
        };
        let mut client = serve(transport, wanted, yes(Arc::clone(&written)));
        if transport == V4 {
            client
                .write_all(&opening(&["error", "stdout"]))
                .await
                .unwrap();
        }
        client.read_u8().await.unwrap();
        // A paused clock goes on when no task can: all buffers are full.
        tokio::time::sleep(WITHIN).await;
        let written = written.load(Ordering::SeqCst);
        assert!(0 < written && written < 64, "{written} pieces of 32 KiB");
    }
}

fn ports(dial: Dial) -> DuplexStream {
    let (client, server) = duplex(64 * 1024);
    let transport = Transport::Spdy("portforward.k8s.io");
    tokio::spawn(async move { serve_ports(server, transport, &[], dial).await });
    client
}

fn pair(id: u32, port: u16, is_first: bool) -> Vec<u8> {
    let (port, request) = (port.to_string(), id.to_string());
    let headers = |kind| {
        [
            ("streamtype", kind),
            ("port", port.as_str()),
            ("requestid", request.as_str()),
        ]
    };
    [
        open_stream(id, &headers("error"), is_first),
        data(id, b"", true),
        open_stream(id + 2, &headers("data"), false),
    ]
    .concat()
}

fn local() -> Dial {
    Arc::new(move |port| {
        std::net::TcpStream::connect(("127.0.0.1", port)).map_err(|it| it.to_string())
    })
}

#[tokio::test]
async fn ports_are_forwarded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut asked = String::new();
                stream.read_to_string(&mut asked).await.unwrap();
                // The client has ended its side, and still gets an answer.
                stream.write_all(asked.to_uppercase().as_bytes()).await
            });
        }
    });
    let dial = local();
    let (from, mut to) = split(ports(dial));
    let mut sent = pair(1, port, true);
    sent.extend(data(3, b"one", false));
    sent.extend(pair(5, port, false));
    sent.extend(data(7, b"two", true));
    sent.extend(data(3, b"!", true));
    // Nobody listens on port 1.
    sent.extend(pair(9, 1, false));
    to.write_all(&sent).await.unwrap();
    let all = within(streams(from, 6)).await;
    assert_eq!(all[1], (3, "ONE!.".to_owned()));
    assert_eq!(all[3], (7, "TWO.".to_owned()));
    assert_eq!((all[0].1.as_str(), all[2].1.as_str()), (".", "."));
    assert!(all[4].1.starts_with("error forwarding port 1: "), "{all:?}");
    assert_eq!(all[5], (11, ".".to_owned()));
}

/// As the clients of other languages do it: they name the ports and open no stream.
#[tokio::test]
async fn ports_of_a_request_are_channels() {
    for protocol in ["", "v4.channel.k8s.io", "v4.base64.channel.k8s.io"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 5];
            stream.read_exact(&mut asked).await.unwrap();
            stream.write_all(&asked.to_ascii_uppercase()).await
        });
        let (client, server) = duplex(64 * 1024);
        let transport = Transport::WebSocket(protocol);
        // Nobody listens on port 1.
        tokio::spawn(async move { serve_ports(server, transport, &[1, port], local()).await });
        let mut client = websocket(client).await;
        let is_text = protocol.contains("base64");
        let hello = if is_text {
            Message::text(format!("2{}", BASE64_STANDARD.encode("hello")))
        } else {
            Message::Binary(Bytes::from_static(b"\x02hello"))
        };
        client.send(hello).await.unwrap();
        let mut channels = vec![Vec::new(); 4];
        within(async {
            while let Some(Ok(message)) = client.next().await {
                let (channel, bytes) = match message {
                    Message::Binary(bytes) if !is_text => (bytes[0], bytes[1..].to_vec()),
                    Message::Text(text) if is_text => {
                        let bytes = BASE64_STANDARD.decode(&text.as_bytes()[1..]);
                        (text.as_bytes()[0] - b'0', bytes.unwrap())
                    }
                    _ => continue,
                };
                channels[usize::from(channel)].extend(bytes);
            }
        })
        .await;
        let number = port.to_le_bytes();
        assert_eq!(channels[0], [1, 0], "{protocol}");
        assert!(
            channels[1].starts_with(b"\x01\x00error forwarding port 1: "),
            "{channels:?}"
        );
        assert_eq!(channels[2], [&number[..], b"HELLO"].concat(), "{protocol}");
        assert_eq!(channels[3], number, "{protocol}");
    }
}
