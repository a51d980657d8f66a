//! One request to one address: which server answers, and which client address does it see?

use std::{
    io::{self, Read},
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use nix::poll::PollFlags;

use crate::{
    Netns, Outcome, Spread,
    socket::{Source, await_ready, dial, errno, reset_on_close},
    vm::scaled,
};

/// Transport of a [`Server`](crate::Server) or a [`Probe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// One connection per request.
    Tcp,
    /// One datagram per request.
    Udp,
    /// One association per request, otherwise like TCP. Many kernels lack SCTP, see
    /// [`sctp_available`](crate::sctp_available).
    Sctp,
}

/// A request that was not sent yet: `Probe::tcp(address).source_port(4711).from(client.netns())`.
#[derive(Clone, Copy, Debug)]
#[must_use = "a probe sends nothing before `from` or `ask`"]
pub struct Probe {
    target: SocketAddr,
    protocol: Protocol,
    source: Source,
    timeout: Duration,
}

impl Probe {
    /// Connects to `target` and reads the identity of the server.
    pub fn tcp(target: SocketAddr) -> Self {
        Self::new(target, Protocol::Tcp)
    }

    /// Sends a datagram to `target` and waits for the identity of the server.
    pub fn udp(target: SocketAddr) -> Self {
        Self::new(target, Protocol::Udp)
    }

    /// Sends a request to `target` over `protocol`; its timeout is one second.
    pub fn new(target: SocketAddr, protocol: Protocol) -> Self {
        Self {
            target,
            protocol,
            source: Source::default(),
            timeout: Duration::from_secs(1),
        }
    }

    /// Sets the source address, which must be one of the namespace.
    pub fn source(mut self, ip: IpAddr) -> Self {
        self.source.ip = Some(ip);
        self
    }

    /// Sets the source port; by default each request has a fresh one.
    pub fn source_port(mut self, port: u16) -> Self {
        self.source.port = Some(port);
        self
    }

    /// Sets the timeout; the default is one second, when Linux sends its second SYN. Inside a virtual
    /// machine every timeout is ten times longer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends the request from inside `netns`.
    pub fn from(&self, netns: &Netns) -> Outcome {
        netns.run(|| self.ask())
    }

    /// Sends the request from the namespace of the calling thread.
    pub fn ask(&self) -> Outcome {
        let deadline = Instant::now() + scaled(self.timeout);
        let result = match self.protocol {
            Protocol::Tcp | Protocol::Sctp => self.ask_stream(deadline),
            Protocol::Udp => self.ask_udp(deadline),
        };
        result.unwrap_or_else(|outcome| outcome)
    }

    pub(crate) fn target(&self) -> SocketAddr {
        self.target
    }

    pub(crate) fn connect(&self, deadline: Instant) -> Result<TcpStream, Outcome> {
        let fd =
            dial(self.target, self.protocol, self.source, deadline).map_err(Outcome::failed)?;
        // SCTP sockets have every operation that the standard library uses on a stream.
        Ok(TcpStream::from(fd))
    }

    fn ask_stream(&self, deadline: Instant) -> Result<Outcome, Outcome> {
        let mut stream = self.connect(deadline)?;
        reset_on_close(&stream);
        let line = read_line(&mut stream, &mut Vec::new(), deadline)?;
        Ok(Outcome::from_line(&line))
    }

    fn ask_udp(&self, deadline: Instant) -> Result<Outcome, Outcome> {
        let failed = |error: io::Error| Outcome::failed(errno(&error));
        let fd =
            dial(self.target, Protocol::Udp, self.source, deadline).map_err(Outcome::failed)?;
        let socket = UdpSocket::from(fd);
        socket.send(b"who?\n").map_err(failed)?;
        await_ready(&socket, PollFlags::POLLIN, deadline).map_err(Outcome::failed)?;
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).map_err(failed)?;
        Ok(Outcome::from_line(&String::from_utf8_lossy(
            &answer[..length],
        )))
    }
}

/// Reads a line, without its line feed; bytes after the line feed stay in `pending`.
pub(crate) fn read_line(
    stream: &mut TcpStream,
    pending: &mut Vec<u8>,
    deadline: Instant,
) -> Result<String, Outcome> {
    loop {
        if let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line = pending.drain(..=end).collect::<Vec<u8>>();
            return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
        }
        await_ready(stream, PollFlags::POLLIN, deadline).map_err(Outcome::failed)?;
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk) {
            Ok(0) => {
                return Err(Outcome::Broken(
                    "closed before the end of a line".to_owned(),
                ));
            }
            Ok(length) => pending.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Outcome::Broken(error.to_string())),
        }
    }
}

/// Sends `count` requests, one after the other, from inside `netns`.
pub fn probe_many(netns: &Netns, probe: Probe, count: u32) -> Spread {
    netns.run(|| (0..count).map(|_| probe.ask()).collect())
}
