//! The packet: one attempt to connect, or one empty datagram.

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, connect,
    getsockname, getsockopt, recv, send, setsockopt, socket, sockopt,
};
use serde::Serialize;
use sluice_model::Protocol;

use super::{Request, Source, TraceError, namespace};
use crate::any_like;

/// The answer that the sender of the packet got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "reason", rename_all = "kebab-case")]
pub enum Answer {
    /// The connection was made, or a datagram came back.
    Connected,
    /// The destination has no socket at the port, or a rule rejected the packet.
    Refused,
    /// An error of the kernel, or of a router that answered by ICMP.
    Failed(String),
    /// No answer within the timeout.
    Silence,
}

impl Answer {
    pub(super) fn of_error(errno: Errno) -> Self {
        match errno {
            Errno::ECONNREFUSED => Self::Refused,
            errno => Self::Failed(errno.desc().to_owned()),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connected => "connected",
            Self::Refused => "refused",
            Self::Failed(reason) => reason,
            Self::Silence => "none",
        })
    }
}

/// A socket with a source port, which has sent nothing yet.
#[derive(Debug)]
pub(super) struct Sender {
    socket: OwnedFd,
    protocol: Protocol,
    port: u16,
    destination: SocketAddr,
    place: String,
}

impl Sender {
    /// Opens the socket where the source is: on this node, or in the network namespace of a local pod.
    pub(super) fn open(request: &Request) -> Result<Self, TraceError> {
        let destination = request.destination;
        let make = |ip: Option<IpAddr>| {
            bound(request.protocol, ip, destination).map_err(|errno| TraceError::Socket {
                protocol: request.protocol,
                from: ip,
                errno,
            })
        };
        let ((socket, port), place) = match request.source {
            Source::Anyone => return Err(TraceError::Anyone),
            Source::Node => (make(None)?, "this node".to_owned()),
            Source::Address(ip) if namespace::owns(ip)? => {
                (make(Some(ip))?, "this node".to_owned())
            }
            Source::Address(ip) => {
                let (made, place) = namespace::inside(ip, || make(Some(ip)))?;
                (made?, format!("network namespace {}", place.display()))
            }
        };
        Ok(Self {
            socket,
            protocol: request.protocol,
            port,
            destination,
            place,
        })
    }

    /// The source port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Where the packet is sent from, in words.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Sends the packet. An error means that the kernel sent none, or that a rule refused it.
    pub(super) fn send(&self) -> Result<(), Errno> {
        match connect(
            self.socket.as_raw_fd(),
            &SockaddrStorage::from(self.destination),
        ) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        if self.protocol == Protocol::Udp {
            send(self.socket.as_raw_fd(), &[], MsgFlags::empty())?;
        }
        Ok(())
    }

    /// Waits for an answer.
    pub(super) fn answer(&self, deadline: Instant) -> Answer {
        let wanted = match self.protocol {
            Protocol::Udp => PollFlags::POLLIN,
            Protocol::Tcp | Protocol::Sctp => PollFlags::POLLOUT,
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut sockets = [PollFd::new(self.socket.as_fd(), wanted)];
            match poll(&mut sockets, left) {
                Err(Errno::EINTR) => {}
                Err(errno) => return Answer::of_error(errno),
                Ok(0) => return Answer::Silence,
                Ok(_) => break,
            }
        }
        match getsockopt(&self.socket, sockopt::SocketError) {
            Ok(0) => {}
            Ok(errno) => return Answer::of_error(Errno::from_raw(errno)),
            Err(errno) => return Answer::of_error(errno),
        }
        match self.protocol {
            Protocol::Udp => match recv(self.socket.as_raw_fd(), &mut [0], MsgFlags::empty()) {
                Ok(_) => Answer::Connected,
                Err(errno) => Answer::of_error(errno),
            },
            Protocol::Tcp | Protocol::Sctp => Answer::Connected,
        }
    }
}

/// The address that this node would send from. Connecting a UDP socket sends nothing.
pub(super) fn own_address(destination: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(any_like(destination.ip())).ok()?;
    socket.connect(destination).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// A socket of the calling thread's network namespace with an address and a port of its own.
fn bound(
    protocol: Protocol,
    ip: Option<IpAddr>,
    destination: SocketAddr,
) -> Result<(OwnedFd, u16), Errno> {
    let family = if destination.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let (kind, number) = match protocol {
        Protocol::Tcp => (SockType::Stream, None),
        Protocol::Udp => (SockType::Datagram, None),
        Protocol::Sctp => (SockType::Stream, Some(SockProtocol::Sctp)),
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, kind, flags, number)?;
    // Without it a UDP socket hears of a closed port and of no other ICMP error (ip(7)).
    match (protocol, destination.is_ipv4()) {
        (Protocol::Udp, true) => setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?,
        (Protocol::Udp, false) => setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?,
        (Protocol::Tcp | Protocol::Sctp, _) => {}
    }
    let from = any_like(destination.ip());
    let from = ip.map_or(from, |it| SocketAddr::new(it, 0));
    bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
    let name: SockaddrStorage = getsockname(socket.as_raw_fd())?;
    let v4 = name.as_sockaddr_in().map(|it| it.port());
    let port = v4.or_else(|| name.as_sockaddr_in6().map(|it| it.port()));
    Ok((socket, port.unwrap_or_default()))
}
