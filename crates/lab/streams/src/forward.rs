//! port-forward: each connection of the client is a pair of streams, for data and for errors
//! (`portforward/httpstream.go` in `k8s.io/cri-streaming`).

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream as Blocking;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};

use crate::spdy::{Event, Sender, open};
use crate::{Connection, PIECE, QUEUE};

/// Connects to a port; may block for seconds. The error is for the client.
pub type Dial = Arc<dyn Fn(u16) -> Result<Blocking, String> + Send + Sync>;

/// One connection of the client, until both of its streams are open.
#[derive(Default)]
struct Half {
    error: Option<u32>,
    data: Option<Data>,
}

/// The stream of a connection's data.
pub(crate) struct Data {
    pub(crate) stream: u32,
    pub(crate) port: u16,
    /// What the client has sent.
    pub(crate) sent: mpsc::Receiver<Bytes>,
}

/// The way to the client.
pub(crate) trait ToClient: Send + Sync + 'static {
    /// Sends bytes of a stream, and its end. Returns whether the client is there.
    fn data(&self, stream: u32, bytes: &[u8], fin: bool) -> impl Future<Output = bool> + Send;
}

impl ToClient for Sender {
    async fn data(&self, stream: u32, bytes: &[u8], fin: bool) -> bool {
        Self::data(self, stream, bytes, fin).await
    }
}

/// Forwards connections until the client goes away.
pub(crate) async fn serve(connection: impl Connection, dial: Dial) {
    let (mut events, sender, _tasks) = open(connection);
    let mut halves: BTreeMap<String, Half> = BTreeMap::new();
    // By data stream: the way to its connection.
    let mut open: BTreeMap<u32, mpsc::Sender<Bytes>> = BTreeMap::new();
    let mut connections = JoinSet::new();
    while let Some(event) = events.recv().await {
        while connections.try_join_next().is_some() {}
        match event {
            Event::Open { stream, headers } => {
                let kind = headers.get("streamtype").unwrap_or_default();
                let id = match headers.get("requestid") {
                    Some(id) => id.to_owned(),
                    // Clients before 1.3 open the data stream right after the error stream.
                    None if kind == "data" => stream.saturating_sub(2).to_string(),
                    None => stream.to_string(),
                };
                let half = halves.entry(id.clone()).or_default();
                let port = headers.get("port").and_then(|it| it.parse().ok());
                match (kind, port) {
                    ("error", _) => half.error = Some(stream),
                    ("data", Some(port)) => {
                        let (to, from) = mpsc::channel(QUEUE);
                        open.insert(stream, to);
                        half.data = Some(Data {
                            stream,
                            port,
                            sent: from,
                        });
                    }
                    _ => {
                        let why = format!("error forwarding port: {kind:?} and {port:?}");
                        let _ = sender.data(stream, why.as_bytes(), true).await;
                    }
                }
                if let Some(error) = half.error
                    && let Some(data) = half.data.take()
                {
                    halves.remove(&id);
                    connections.spawn(forward(error, data, sender.clone(), dial.clone()));
                }
            }
            Event::Data { stream, bytes, fin } => {
                // The connection may have ended.
                if let Some(to) = open.get(&stream)
                    && !bytes.is_empty()
                    && to.send(bytes).await.is_err()
                {
                    open.remove(&stream);
                }
                if fin {
                    open.remove(&stream);
                }
            }
            Event::Reset { stream } => {
                open.remove(&stream);
            }
        }
    }
}

/// Connects, and copies in both directions. `error`: the stream of errors.
pub(crate) async fn forward(error: u32, data: Data, sender: impl ToClient, dial: Dial) {
    let Data { stream, port, sent } = data;
    let dialled = spawn_blocking(move || dial(port)).await;
    let connected = match dialled {
        Ok(Ok(it)) => it
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(it)),
        Ok(Err(why)) => Err(io::Error::other(why)),
        Err(error) => Err(io::Error::other(error)),
    };
    let said = match connected {
        Ok(connection) => copy(connection, stream, sent, &sender).await,
        Err(why) => format!("error forwarding port {port}: {why}"),
    };
    // The client may be gone.
    let _ = sender.data(error, said.as_bytes(), true).await;
    let _ = sender.data(stream, b"", true).await;
}

/// Copies until the server has closed the connection. Returns the error for the client; empty: none.
async fn copy(
    connection: TcpStream,
    stream: u32,
    mut from_client: mpsc::Receiver<Bytes>,
    sender: &impl ToClient,
) -> String {
    let (mut reader, mut writer) = connection.into_split();
    let inward = async {
        while let Some(bytes) = from_client.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                break;
            }
        }
        // The server may have closed the connection.
        let _ = writer.shutdown().await;
        // It may go on writing.
        std::future::pending::<()>().await;
    };
    let outward = async {
        let mut piece = vec![0; PIECE];
        loop {
            match reader.read(&mut piece).await {
                Ok(0) => return String::new(),
                Ok(length) => {
                    if !sender.data(stream, &piece[..length], false).await {
                        return String::new();
                    }
                }
                Err(error) => return format!("error copying from the pod: {error}"),
            }
        }
    };
    tokio::select! {
        said = outward => said,
        () = inward => String::new(),
    }
}
