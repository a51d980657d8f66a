//! Queries over TCP and TLS: connections that are kept for the next query.
//!
//! A connection carries one query at a time, as CoreDNS's do: not every server answers several.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hickory_proto::op::Message;
use sluice_corefile::Forward;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use super::outgoing::{MAX_FOREIGN, Outgoing, Trouble};

/// A TCP or TLS connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection and when it was opened.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    opened: Instant,
}

impl Connection {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            opened: Instant::now(),
        }
    }
}

/// The idle connections to one upstream, the most recently used one last.
pub(super) struct Pool {
    idle: Mutex<Vec<Idle>>,
    config: Arc<Forward>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(config: Arc<Forward>) -> Self {
        Self {
            idle: Mutex::default(),
            config,
        }
    }

    /// The usable connection that was used last.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.lock();
        idle.retain(|it| self.is_usable(it));
        idle.pop().map(|it| it.connection)
    }

    /// Keeps a connection whose query was answered.
    pub(super) fn put(self: &Arc<Self>, connection: Connection) {
        let returned = Idle {
            connection,
            since: Instant::now(),
        };
        if !self.is_usable(&returned) {
            return;
        }
        let mut idle = self.lock();
        let max = self.config.max_idle_conns;
        if max.is_some_and(|max| idle.len() >= max.get()) {
            idle.remove(0);
        }
        idle.push(returned);
        if idle.len() == 1 {
            tokio::spawn(close_expired(Arc::downgrade(self), self.config.expire));
        }
    }

    /// Closes all idle connections: one of them turned out to be dead, and most often the server
    /// or the path to it is no longer the one that they were made with.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn is_usable(&self, idle: &Idle) -> bool {
        let is_young = |max| idle.connection.opened.elapsed() < max;
        idle.since.elapsed() < self.config.expire && self.config.max_age.is_none_or(is_young)
    }

    /// Closes what cannot be used any more. Returns whether some connections are left.
    fn sweep(&self) -> bool {
        let mut idle = self.lock();
        idle.retain(|it| self.is_usable(it));
        !idle.is_empty()
    }

    /// A thread that panicked between two operations leaves a valid list.
    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes expired connections until none is left: servers keep a socket for each of them.
async fn close_expired(pool: Weak<Pool>, expire: Duration) {
    loop {
        sleep(expire).await;
        if !pool.upgrade().is_some_and(|pool| pool.sweep()) {
            return;
        }
    }
}

/// Sends `query` and waits for its answer, without a time limit. After an error the connection
/// is of no use.
pub(super) async fn ask(connection: &mut Connection, query: &Outgoing) -> Result<Message, Trouble> {
    let stream = &mut connection.stream;
    let length = u16::try_from(query.bytes().len()).expect("one question is below 64 KiB");
    let mut framed = Vec::with_capacity(2 + query.bytes().len());
    framed.extend(length.to_be_bytes());
    framed.extend(query.bytes());
    stream
        .write_all(&framed)
        .await
        .map_err(Trouble::io("send over TCP"))?;
    stream.flush().await.map_err(Trouble::io("send over TCP"))?;
    for _ in 0..MAX_FOREIGN {
        let length = stream
            .read_u16()
            .await
            .map_err(Trouble::io("receive over TCP"))?;
        let mut received = vec![0; usize::from(length)];
        stream
            .read_exact(&mut received)
            .await
            .map_err(Trouble::io("receive over TCP"))?;
        if let Some(answer) = query.answer(&received) {
            return Ok(answer);
        }
    }
    Err(Trouble::Foreign)
}
