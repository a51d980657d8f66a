//! UDP sockets: many datagrams a system call, answers from the address that was asked.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, Shutdown, SockFlag,
    SockType, SockaddrStorage, bind, getsockname, recvmmsg, sendmmsg, sendmsg, setsockopt,
    shutdown, socket, sockopt,
};

use crate::wire::LARGEST_QUERY;

/// Datagrams of one system call.
pub(crate) const BATCH: usize = 32;
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
    fd: OwnedFd,
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

    /// Ends a waiting [`Batch::receive`], now and later. The kernel wakes the waiting thread although
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

    fn is_wildcard(&self) -> bool {
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
fn packet_info(from: To) -> (in_pktinfo, in6_pktinfo) {
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

fn control<'a>(from: To, v4: &'a in_pktinfo, v6: &'a in6_pktinfo) -> Vec<ControlMessage<'a>> {
    match from {
        To::Bound => Vec::new(),
        To::V4(_) => vec![ControlMessage::Ipv4PacketInfo(v4)],
        To::V6(..) => vec![ControlMessage::Ipv6PacketInfo(v6)],
    }
}

/// One received datagram and its answer.
struct Slot {
    length: usize,
    client: Option<SockaddrStorage>,
    to: To,
    answer: Vec<u8>,
}

/// The buffers of one thread.
pub(crate) struct Batch {
    queries: Box<[[u8; LARGEST_QUERY]; BATCH]>,
    slots: [Slot; BATCH],
    received: usize,
    incoming: MultiHeaders<SockaddrStorage>,
    outgoing: MultiHeaders<SockaddrStorage>,
}

impl Batch {
    /// Buffers for this socket.
    pub(crate) fn new(socket: &Socket) -> Self {
        let control = || {
            let space = match socket.local {
                SocketAddr::V4(_) => cmsg_space!(in_pktinfo),
                SocketAddr::V6(_) => cmsg_space!(in6_pktinfo),
            };
            socket.is_wildcard().then_some(space)
        };
        Self {
            queries: Box::new([[0; LARGEST_QUERY]; BATCH]),
            slots: std::array::from_fn(|_| Slot {
                length: 0,
                client: None,
                to: To::Bound,
                answer: Vec::new(),
            }),
            received: 0,
            incoming: MultiHeaders::preallocate(BATCH, control()),
            outgoing: MultiHeaders::preallocate(BATCH, control()),
        }
    }

    /// Waits for datagrams; returns their number, 0 after [`Socket::wake`].
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        self.received = 0;
        let mut buffers = self.queries.each_mut().map(|it| [IoSliceMut::new(it)]);
        let messages = recvmmsg(
            socket.fd.as_raw_fd(),
            &mut self.incoming,
            buffers.iter_mut(),
            MsgFlags::MSG_WAITFORONE,
            None,
        )?;
        for (slot, message) in self.slots.iter_mut().zip(messages) {
            slot.length = message.bytes;
            slot.client = message.address;
            slot.to = message
                .cmsgs()
                .ok()
                .and_then(|it| to(it))
                .unwrap_or(To::Bound);
            slot.answer.clear();
            self.received += 1;
        }
        Ok(self.received)
    }

    /// Sender and our address of a received datagram.
    pub(crate) fn addresses(&self, index: usize) -> (Option<SockaddrStorage>, To) {
        (self.slots[index].client, self.slots[index].to)
    }

    /// Query and, to be filled, answer. An empty answer is not sent.
    pub(crate) fn exchange(&mut self, index: usize) -> (&[u8], &mut Vec<u8>) {
        let slot = &mut self.slots[index];
        (&self.queries[index][..slot.length], &mut slot.answer)
    }

    /// Sends all answers.
    pub(crate) fn send(&mut self, socket: &Socket) {
        let mut rest = &self.slots[..self.received];
        while let Some(first) = rest.first() {
            // All messages of a call leave from one address.
            let same = rest.iter().take_while(|it| it.to == first.to).count();
            let (group, others) = rest.split_at(same);
            send_group(socket, &mut self.outgoing, group, first.to);
            rest = others;
        }
    }
}

fn send_group(
    socket: &Socket,
    headers: &mut MultiHeaders<SockaddrStorage>,
    slots: &[Slot],
    from: To,
) {
    let answered = || slots.iter().filter(|it| !it.answer.is_empty());
    let mut addresses = [None; BATCH];
    let mut bytes = [[IoSlice::new(&[])]; BATCH];
    let mut count = 0;
    for slot in answered() {
        addresses[count] = slot.client;
        bytes[count] = [IoSlice::new(&slot.answer)];
        count += 1;
    }
    let from = match (socket.is_wildcard(), from, socket.local) {
        // The kernel told no address, which costs the choice of the source, not the answer.
        (true, To::Bound, SocketAddr::V4(_)) => To::V4(Ipv4Addr::UNSPECIFIED),
        (true, To::Bound, SocketAddr::V6(_)) => To::V6(Ipv6Addr::UNSPECIFIED, 0),
        _ => from,
    };
    let (v4, v6) = packet_info(from);
    let control = control(from, &v4, &v6);
    let mut sent = 0;
    while sent < count {
        let result = sendmmsg(
            socket.fd.as_raw_fd(),
            headers,
            bytes[sent..count].iter(),
            &addresses[sent..count],
            &control,
            MsgFlags::empty(),
        );
        sent += match result {
            Ok(results) => results.count(),
            Err(Errno::EINTR) => 0,
            // The first message cannot be sent: no route, or a firewall. The others may.
            Err(_) => 1,
        };
    }
}

/// The address that a datagram was sent to.
fn to(mut messages: nix::sys::socket::CmsgIterator<'_>) -> Option<To> {
    messages.find_map(|it| match it {
        ControlMessageOwned::Ipv4PacketInfo(it) => {
            Some(To::V4(Ipv4Addr::from(u32::from_be(it.ipi_spec_dst.s_addr))))
        }
        ControlMessageOwned::Ipv6PacketInfo(it) => {
            let ip = Ipv6Addr::from(it.ipi6_addr.s6_addr);
            let interface = if ip.is_unicast_link_local() {
                it.ipi6_ifindex
            } else {
                0
            };
            Some(To::V6(ip, interface))
        }
        _ => None,
    })
}
