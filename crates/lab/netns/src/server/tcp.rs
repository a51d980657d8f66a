//! Servers over TCP and SCTP: the identity line first, then an echo of each line.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::UnixStream,
    },
};

use nix::{
    poll::{PollFd, PollFlags},
    sys::socket::{Shutdown, shutdown},
};

use super::await_any;

/// With so many bytes waiting for a client to read them, the server stops reading from it.
const MOST_PENDING: usize = 64 * 1024;

pub(super) fn prepare(listener: TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the other end of `stopped` is closed.
pub(super) fn serve(listener: &TcpListener, stopped: &UnixStream, name: &str) {
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let mut fds = vec![
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(
            connections
                .iter()
                .map(|it| PollFd::new(it.stream.as_fd(), it.interest())),
        );
        let ready = await_any(&mut fds);
        if ready[0] {
            return hang_up(listener, &connections);
        }
        let mut ready_connections = ready[2..].iter();
        connections
            .retain_mut(|it| ready_connections.next() != Some(&true) || it.serve(name).is_ok());
        if ready[1] {
            accept_all(listener, name, &mut connections);
        }
    }
}

/// Shuts all sockets down: closing has no effect while a child between fork and exec has a copy.
fn hang_up(listener: &TcpListener, connections: &[Connection]) {
    // An error means that the peer is gone already.
    let _ = shutdown(listener.as_raw_fd(), Shutdown::Both);
    connections
        .iter()
        .for_each(|it| drop(it.stream.shutdown(std::net::Shutdown::Both)));
}

fn accept_all(listener: &TcpListener, name: &str, connections: &mut Vec<Connection>) {
    loop {
        match listener.accept() {
            Ok((stream, peer)) => connections.extend(Connection::open(stream, peer, name).ok()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // The client closed before the accept.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                ) => {}
            Err(error) => {
                eprintln!("lab: accept connections of {name}: {error}");
                return;
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// Read, but not a whole line yet.
    incoming: Vec<u8>,
    /// Bytes still to be written.
    outgoing: Vec<u8>,
}

impl Connection {
    fn open(stream: TcpStream, peer: SocketAddr, name: &str) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // SCTP sockets lack this option, and do not need it for one line at a time.
        let _ = stream.set_nodelay(true);
        let outgoing =
            format!("{name} {} {}\n", peer.ip().to_canonical(), peer.port()).into_bytes();
        let mut connection = Self {
            stream,
            incoming: Vec::new(),
            outgoing,
        };
        connection.flush()?;
        Ok(connection)
    }

    fn interest(&self) -> PollFlags {
        match self.outgoing.len() {
            0 => PollFlags::POLLIN,
            1..MOST_PENDING => PollFlags::POLLIN | PollFlags::POLLOUT,
            _ => PollFlags::POLLOUT,
        }
    }

    /// Writes, reads and answers without blocking; an error means that the connection ended.
    fn serve(&mut self, name: &str) -> io::Result<()> {
        self.flush()?;
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.incoming.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        while let Some(end) = self.incoming.iter().position(|byte| *byte == b'\n') {
            self.outgoing.extend_from_slice(name.as_bytes());
            self.outgoing.push(b' ');
            self.outgoing.extend(self.incoming.drain(..=end));
        }
        if self.incoming.len() > MOST_PENDING {
            return Err(ErrorKind::InvalidData.into());
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
