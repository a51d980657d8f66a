//! TCP: connections with several queries at once, answered in the order in which answers come (RFC 7766,
//! section 7).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use sluice_upstream::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::engine::Response;
use crate::limits::Permit;
use crate::metrics::Shard;
use crate::request::Client;
use crate::slot::Slot;
use crate::wire::LARGEST_QUERY;

/// A client that does not read its answer for this time loses the connection.
const STALLED: Duration = Duration::from_secs(5);
/// Queries of one connection that wait for upstreams; further ones are not read.
const PIPELINE: usize = 64;
/// Pause after an error of accept(2), which is one of the machine: no descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a message's length (RFC 1035, section 4.2.2).
const LENGTH: usize = 2;
/// Room for the next read: most queries have less than 100 bytes.
const READ: usize = 512;

/// Serves until the future is dropped, which closes every connection.
pub(crate) async fn serve(listener: TcpListener, slot: Arc<Slot>, shard: Shard) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The client has gone already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        if let Some(permit) = slot.engine().common.connections.admit(client.ip()) {
            connections.spawn(converse(stream, client, slot.clone(), shard, permit));
        }
    }
}

/// Serves one connection. An error on it concerns its client only.
async fn converse(
    stream: TcpStream,
    client: SocketAddr,
    slot: Arc<Slot>,
    shard: Shard,
    _permit: Permit,
) {
    let Ok(local) = stream.local_addr() else {
        return;
    };
    // Answers are whole messages: there is nothing to wait for.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    let connection = Connection {
        client: Client {
            address: client,
            local,
            transport: Transport::Tcp,
        },
        slot,
        shard,
        writer,
    };
    // The client has gone, or does not read: nobody is there to be told.
    let _ = connection.run(Messages::new(reader)).await;
}

struct Connection {
    client: Client,
    slot: Arc<Slot>,
    shard: Shard,
    writer: OwnedWriteHalf,
}

impl Connection {
    async fn run(mut self, mut messages: Messages) -> io::Result<()> {
        let idle = self.slot.engine().common.options.limits.idle;
        let mut waiting = FuturesUnordered::new();
        loop {
            let may_read = waiting.len() < PIPELINE;
            let is_idle = waiting.is_empty();
            tokio::select! {
                Some((received, response)) = waiting.next(), if !is_idle => {
                    self.send(received, response).await?;
                }
                message = within(idle, messages.next(), is_idle), if may_read => {
                    let Some(message) = message? else {
                        break;
                    };
                    let received = Instant::now();
                    let engine = self.slot.engine();
                    let turn = rand::random::<u16>().into();
                    if let Some(answer) = engine.ask(&message, self.client, received, turn) {
                        waiting.push(async move { (received, answer.await) });
                    }
                }
            }
        }
        // The client has sent its last query (it may have closed its side): the answers still go out.
        while let Some((received, response)) = waiting.next().await {
            self.send(received, response).await?;
        }
        Ok(())
    }

    async fn send(&mut self, received: Instant, response: Option<Response>) -> io::Result<()> {
        let Some(Response { bytes, sample, .. }) = response else {
            return Ok(());
        };
        let length =
            u16::try_from(bytes.len()).expect("responses over TCP are limited to 65535 bytes");
        let framed = [&length.to_be_bytes()[..], &bytes].concat();
        sample.count(self.shard, received.elapsed());
        timeout(STALLED, self.writer.write_all(&framed)).await?
    }
}

/// Bounds the time of `future` if `is_bounded`. The end of the time is an error.
async fn within<T>(
    time: Duration,
    future: impl Future<Output = io::Result<T>>,
    is_bounded: bool,
) -> io::Result<T> {
    if is_bounded {
        timeout(time, future).await?
    } else {
        future.await
    }
}

/// The messages of a connection.
struct Messages {
    reader: OwnedReadHalf,
    /// Bytes that are read but not parsed yet.
    buffer: Vec<u8>,
}

impl Messages {
    fn new(reader: OwnedReadHalf) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
        }
    }

    /// The next message; `None` after the last one. May be dropped and called again.
    ///
    /// # Errors
    /// The connection's, or a message that is larger than a query may be, or does not come in time.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            self.buffer.reserve(READ);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// A message that is complete.
    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((length, rest)) = self.buffer.split_first_chunk::<LENGTH>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        if length > LARGEST_QUERY {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let message = message.to_vec();
        self.buffer.drain(..LENGTH + length);
        Ok(Some(message))
    }
}
