//! A server that says who it is and whom it sees.

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
/// TCP and SCTP: the line comes upon connecting; each line the client sends is returned with the name before
/// it, until the client closes. UDP: the line answers each datagram, from the address the datagram
/// was sent to. One thread serves all clients.
#[derive(Debug)]
pub struct Server {
    name: String,
    port: u16,
    /// Closing it wakes and ends the thread. `None` once dropped.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts answering in `netns`; when it returns, the port is open. Port 0 takes a free one.
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

    /// What it answers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
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

/// Binds, or finds the port in use for longer than a socket that was just closed can keep it.
fn bind_soon<T>(bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let bound = eventually(FORK_WINDOW, || match bind() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        result => Some(result),
    });
    bound.unwrap_or_else(|| Err(io::ErrorKind::AddrInUse.into()))
}

/// Waits for any of `fds`; which of them are ready, in their order.
fn await_any(fds: &mut [PollFd<'_>]) -> Vec<bool> {
    match poll(fds, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => panic!("poll sockets of a server: {errno}"),
    }
    fds.iter().map(|fd| fd.any().unwrap_or(true)).collect()
}
