//! UDP sockets, and answers from the address that was asked.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, Shutdown, SockFlag, SockType, SockaddrStorage, bind,
    getsockname, sendmsg, setsockopt, shutdown, socket, sockopt,
};

/// Bytes of datagrams that wait for the loop: the kernel's default, 208 KiB, holds some 270 queries,
/// which come in 2 ms at 150,000 queries a second. The kernel takes at most `net.core.rmem_max`.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Our address that a datagram was sent to, for the answer's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// The address that the socket is bound to.
    Bound,
    V4(Ipv4Addr),
    /// With the interface, for a link-local address.
    V6(Ipv6Addr, u32),
}

impl To {
    /// The address, given that of the socket.
    pub(crate) fn ip(self, socket: &Socket) -> IpAddr {
        match self {
            Self::Bound => socket.local.ip(),
            Self::V4(ip) => ip.into(),
            Self::V6(ip, _) => ip.into(),
        }
    }
}

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(super) fd: OwnedFd,
    local: SocketAddr,
}

/// Whether other sockets of this process may be bound to the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The address must be free: that of the first thread. Other processes of the same user could
    /// otherwise share the port, and take a part of the queries, without an error.
    Exclusive,
    /// The kernel spreads clients over the sockets (`SO_REUSEPORT`).
    Joined,
}

impl Socket {
    /// Binds a socket. A socket of `::` takes IPv4 as well.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let fd = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        if sharing == Sharing::Joined {
            setsockopt(&fd, sockopt::ReusePort, &true)?;
        }
        let _ = setsockopt(&fd, sockopt::RcvBuf, &RECEIVE_BUFFER);
        match address {
            SocketAddr::V4(it) if it.ip().is_unspecified() => {
                setsockopt(&fd, sockopt::Ipv4PacketInfo, &true)?;
            }
            SocketAddr::V6(it) if it.ip().is_unspecified() => {
                setsockopt(&fd, sockopt::Ipv6V6Only, &false)?;
                setsockopt(&fd, sockopt::Ipv6RecvPacketInfo, &true)?;
            }
            _ => {}
        }
        bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
        if sharing == Sharing::Exclusive {
            // Those of the other threads may join only now. The kernel asks for the option at each
            // bind(2) (`inet_rcv_saddr_equal`'s callers in net/ipv4/udp.c).
            setsockopt(&fd, sockopt::ReusePort, &true)?;
        }
        let local = to_std(&getsockname(fd.as_raw_fd())?).unwrap_or(address);
        Ok(Self { fd, local })
    }

    /// The address that it is bound to.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Ends a waiting [`Batch::receive`](super::batch::Batch::receive), now and later. The kernel wakes the waiting thread although
    /// it says `ENOTCONN` (`inet_shutdown` in net/ipv4/af_inet.c).
    pub(crate) fn wake(&self) {
        let _ = shutdown(self.fd.as_raw_fd(), Shutdown::Read);
    }

    /// Sends one datagram. An answer that cannot be sent is lost, as any datagram may be.
    pub(crate) fn send(&self, bytes: &[u8], to: &SockaddrStorage, from: To) {
        let (v4, v6) = packet_info(from);
        let control = control(from, &v4, &v6);
        let flags = MsgFlags::MSG_DONTWAIT;
        let _ = sendmsg(
            self.fd.as_raw_fd(),
            &[IoSlice::new(bytes)],
            &control[..],
            flags,
            Some(to),
        );
    }

    pub(super) fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }
}

/// The address of the standard library; `None` for other families.
pub(crate) fn to_std(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = || Some(SocketAddr::V4((*address.as_sockaddr_in()?).into()));
    let v6 = || Some(SocketAddr::V6((*address.as_sockaddr_in6()?).into()));
    v4().or_else(v6)
}

/// What the kernel is told about an answer's source. One of the two is used.
pub(super) fn packet_info(from: To) -> (in_pktinfo, in6_pktinfo) {
    let v4 = match from {
        To::V4(ip) => ip,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    let (v6, interface) = match from {
        To::V6(ip, interface) => (ip, interface),
        _ => (Ipv6Addr::UNSPECIFIED, 0),
    };
    let address = in_addr {
        s_addr: u32::from(v4).to_be(),
    };
    let v4 = in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: address,
        ipi_addr: address,
    };
    let v6 = in6_pktinfo {
        ipi6_addr: in6_addr {
            s6_addr: v6.octets(),
        },
        ipi6_ifindex: interface,
    };
    (v4, v6)
}

pub(super) fn control<'a>(
    from: To,
    v4: &'a in_pktinfo,
    v6: &'a in6_pktinfo,
) -> Vec<ControlMessage<'a>> {
    match from {
        To::Bound => Vec::new(),
        To::V4(_) => vec![ControlMessage::Ipv4PacketInfo(v4)],
        To::V6(..) => vec![ControlMessage::Ipv6PacketInfo(v6)],
    }
}
