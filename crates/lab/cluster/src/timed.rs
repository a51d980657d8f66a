//! Connections that are given up at a time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A connection on which nothing is waited for after its time.
#[derive(Debug)]
pub(crate) struct Timed {
    stream: TcpStream,
    until: Instant,
}

impl Timed {
    /// Connects. `timeout` is for this and for all that follows.
    pub(crate) fn connect(target: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let until = Instant::now() + timeout;
        let stream = TcpStream::connect_timeout(&target, timeout)?;
        Ok(Self { stream, until })
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes).map_err(late)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// What a timeout of a socket is (`socket(7)`, `SO_RCVTIMEO`) in words.
fn late(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}
