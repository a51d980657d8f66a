//! A server that answers with its name and the client address that it sees.

use std::{
    io,
    net::{Ipv6Addr, TcpListener, UdpSocket},
    os::unix::net::UnixStream,
    thread::{self, JoinHandle},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollTimeout, poll},
};

use crate::{
    LabError, Netns, Protocol,
    socket::{FORK_WINDOW, listen_sctp},
    wait::eventually,
};

mod tcp;
mod udp;

/// Answers on one port, over IPv4 and IPv6, with `<name> <peer ip> <peer port>`; stops when dropped.
///
/// TCP and SCTP: the server sends the line to each new connection, then returns each line of the
/// client with the name before it. UDP: the line answers each datagram, from the address that the
/// datagram was sent to. One thread serves all clients.
#[derive(Debug)]
pub struct Server {
    name: String,
    port: u16,
    /// Closing this end wakes and ends the thread; `None` while the server is dropped.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server in `netns`; when it returns, the port is open. Port 0 means any free port.
    ///
    /// # Errors
    /// [`LabError::Io`] when the port is in use.
    pub fn start(
        netns: &Netns,
        name: &str,
        port: u16,
        protocol: Protocol,
    ) -> Result<Self, LabError> {
        let object = format!("{name} in {}", netns.name());
        let (stop, stopped) =
            UnixStream::pair().map_err(LabError::io("make stop signal of", &object))?;
        let address = (Ipv6Addr::UNSPECIFIED, port);
        let bind = LabError::io("bind server", format!("{object} port {port}"));
        let own = name.to_owned();
        let serve: Box<dyn FnOnce() + Send>;
        let local = match protocol {
            Protocol::Tcp | Protocol::Sctp => {
                let listen = || match protocol {
                    Protocol::Sctp => listen_sctp(port),
                    _ => TcpListener::bind(address),
                };
                let listener = netns
                    .run(|| bind_soon(listen).and_then(tcp::prepare))
                    .map_err(bind)?;
                let local = listener.local_addr();
                serve = Box::new(move || tcp::serve(&listener, &stopped, &own));
                local
            }
            Protocol::Udp => {
                let socket = netns
                    .run(|| bind_soon(|| UdpSocket::bind(address)).and_then(udp::prepare))
                    .map_err(bind)?;
                let local = socket.local_addr();
                serve = Box::new(move || udp::serve(&socket, &stopped, &own));
                local
            }
        };
        let port = local.map_err(LabError::io("read port of", &object))?.port();
        let thread = thread::Builder::new()
            .spawn(serve)
            .map_err(LabError::io("start thread of", &object))?;
        Ok(Self {
            name: name.to_owned(),
            port,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The name in its answers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            eprintln!("lab: server {} panicked", self.name);
        }
    }
}

/// Binds, and retries for 250 ms while the port is in use: a socket that was just closed may still
/// be open in a child between fork and exec.
fn bind_soon<T>(bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let bound = eventually(FORK_WINDOW, || match bind() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        result => Some(result),
    });
    bound.unwrap_or_else(|| Err(io::ErrorKind::AddrInUse.into()))
}

/// Waits for any of `fds`; says for each, in their order, whether it is ready.
fn await_any(fds: &mut [PollFd<'_>]) -> Vec<bool> {
    match poll(fds, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => panic!("poll sockets of a server: {errno}"),
    }
    fds.iter().map(|fd| fd.any().unwrap_or(true)).collect()
}
