//! A TCP connection that counts its bytes and can be reset.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::body::Cut;

/// One connection, as the code that answers on it sees it.
#[derive(Debug)]
pub(crate) struct Line {
    /// Connections are counted from 1.
    pub(crate) number: u64,
    reset: AtomicBool,
    /// How the watch on it ends.
    ordered: Mutex<Option<Cut>>,
}

impl Line {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            reset: AtomicBool::new(false),
            ordered: Mutex::new(None),
        }
    }

    /// Says how the watch on the connection ends.
    pub(crate) fn order(&self, cut: Cut) {
        *self.ordered.lock().expect("nobody panics with it") = Some(cut);
    }

    /// How the watch on the connection shall end; asked once.
    pub(crate) fn ordered(&self) -> Option<Cut> {
        self.ordered.lock().expect("nobody panics with it").take()
    }

    /// Says how the socket closes when its time comes.
    pub(crate) fn end_by(&self, cut: Cut) {
        self.reset.store(cut == Cut::Reset, Ordering::Relaxed);
    }
}

/// The socket of a connection, below TLS.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    line: Arc<Line>,
    sent: Arc<AtomicU64>,
}

impl Wire {
    /// Adds every byte written to `sent`.
    pub(crate) fn new(stream: TcpStream, line: Arc<Line>, sent: Arc<AtomicU64>) -> Self {
        Self { stream, line, sent }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.sent.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.line.reset.load(Ordering::Relaxed) {
            // A socket that refuses the option is closed in the ordinary way.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
