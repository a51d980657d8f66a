//! Sockets of a network namespace: which are connected, and how to end them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use crate::family::Family;
use crate::message::Message;
use crate::request::{Request, RequestError, unless};
use crate::socket::Socket;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;

/// `inet_diag_req_v2 { u8 family, u8 protocol, u8 ext, u8 pad, u32 states, inet_diag_sockid id }`;
/// [`Request`] writes the first four bytes.
const ID_LENGTH: usize = 48;
/// `inet_diag_msg { u8 family, u8 state, u8 timer, u8 retrans, inet_diag_sockid id, … }`.
const ID_OFFSET: usize = 4;

// `inet_diag_sockid { u16 sport, u16 dport, u32 src[4], u32 dst[4], u32 if, u32 cookie[2] }`, ports and
// addresses in network order.
const REMOTE_PORT: usize = 2;
const REMOTE: usize = 20;
const COOKIE: usize = 40;

/// States of `tcp_states.h` in which a socket has a peer: all but closed, listening, and what has no socket
/// any more. UDP has only the first.
const CONNECTED: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;

/// A connected socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    family: Family,
    protocol: u8,
    id: [u8; ID_LENGTH],
}

impl Connected {
    fn decode(message: &Message<'_>, protocol: u8) -> Option<Self> {
        if message.kind != SOCK_DIAG_BY_FAMILY {
            return None;
        }
        let id = message.body.get(ID_OFFSET..ID_OFFSET + ID_LENGTH)?;
        Some(Self {
            family: Family::from_number(message.family())?,
            protocol,
            id: id.try_into().ok()?,
        })
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.id[at..at + N]);
        bytes
    }

    /// The peer. That of an IPv6 socket that uses IPv4 is an IPv4 address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        let ip = match self.family {
            Family::Ipv4 => IpAddr::V4(Ipv4Addr::from(self.bytes::<4>(REMOTE))),
            Family::Ipv6 => Ipv6Addr::from(self.bytes::<16>(REMOTE)).to_canonical(),
        };
        SocketAddr::new(ip, u16::from_be_bytes(self.bytes(REMOTE_PORT)))
    }

    /// The socket's number, which no other has while the machine runs (`SO_COOKIE`).
    #[must_use]
    pub fn cookie(&self) -> u64 {
        let word = |at| u64::from(u32::from_ne_bytes(self.bytes(at)));
        word(COOKIE) | word(COOKIE + 4) << 32
    }
}

/// The connected sockets of the calling thread's network namespace that are `wanted`, of both families.
///
/// # Errors
/// Any [`RequestError`]; `ENOENT` when the kernel cannot list sockets of the protocol.
pub fn connected(
    protocol: u8,
    mut wanted: impl FnMut(&Connected) -> bool,
) -> Result<Vec<Connected>, RequestError> {
    let mut found = Vec::new();
    for family in [Family::Ipv4, Family::Ipv6] {
        let request = Request::new("list", "sockets", SOCK_DIAG_BY_FAMILY, |it| {
            it.raw(&CONNECTED.to_ne_bytes());
            it.raw(&[0; ID_LENGTH]);
        });
        let request = request.first([family.number(), protocol, 0, 0]);
        let mut socket = open(&request)?;
        request.dump(&mut socket, &mut |message| {
            found.extend(Connected::decode(message, protocol).filter(&mut wanted));
        })?;
    }
    Ok(found)
}

/// Ends a connection of the calling thread's network namespace: the owner's next call fails with
/// `ECONNABORTED`. Whether the socket was still there.
///
/// # Errors
/// Any [`RequestError`]; `EOPNOTSUPP` when the kernel was built without `INET_DIAG_DESTROY`.
pub fn destroy(connected: &Connected) -> Result<bool, RequestError> {
    let peer = connected.peer().to_string();
    let request = Request::new("destroy socket to", &peer, SOCK_DESTROY, |it| {
        it.raw(&CONNECTED.to_ne_bytes());
        it.raw(&connected.id);
    });
    let request = request.first([connected.family.number(), connected.protocol, 0, 0]);
    let mut socket = open(&request)?;
    unless(Errno::ENOENT, request.ask(&mut socket, &mut |_| {}))
}

fn open(request: &Request<'_>) -> Result<Socket, RequestError> {
    Socket::open(SockProtocol::NetlinkSockDiag).map_err(|source| request.failed(source))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const TCP: u8 = 6;

    #[test]
    fn a_connection_is_found_and_ended() {
        for ip in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            let listener = TcpListener::bind((ip, 0)).expect("a port is free");
            let addr = listener.local_addr().expect("it is bound");
            let mut stream = TcpStream::connect(addr).expect("somebody listens");
            let found = connected(TCP, |it| it.peer() == addr).expect("sockets are listed");
            assert_eq!(found.len(), 1);
            match destroy(&found[0]) {
                // Root and an option of the kernel are needed to end it.
                Err(error) => assert!(matches!(
                    error.errno(),
                    Some(Errno::EPERM | Errno::EOPNOTSUPP)
                )),
                Ok(was_there) => {
                    assert!(was_there);
                    let error = stream.read(&mut [0; 1]).expect_err("it is ended");
                    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
                    assert!(!destroy(&found[0]).expect("the kernel answers"));
                }
            }
        }
    }
}
