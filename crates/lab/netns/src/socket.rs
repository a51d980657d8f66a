//! Client sockets with a deadline and a chosen source address; closing one leaves no TIME_WAIT.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    sync::LazyLock,
    time::{Duration, Instant},
};

use nix::{
    cmsg_space,
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage,
        bind, connect, getsockopt, listen, recvmsg, setsockopt, socket, sockopt,
    },
};

use crate::{Protocol, wait::eventually};

/// Longest time that a closed socket may still be open in a child between fork and exec.
///
/// Any thread may spawn a program at any time, so a bind that finds its port in use retries for
/// this long.
pub(crate) const FORK_WINDOW: Duration = Duration::from_millis(250);

/// Source of a client socket; the kernel chooses what is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: Option<u16>,
}

/// A non-blocking socket that is connected to `target`.
pub(crate) fn dial(
    target: SocketAddr,
    protocol: Protocol,
    source: Source,
    deadline: Instant,
) -> Result<OwnedFd, Errno> {
    let family = if target.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let fd = open(family, protocol)?;
    // Report every ICMP error: UDP and SCTP sockets otherwise ignore host unreachable.
    match (target, protocol) {
        (SocketAddr::V6(_), _) => setsockopt(&fd, sockopt::Ipv6RecvErr, &true)?,
        (SocketAddr::V4(_), Protocol::Tcp) => {}
        (SocketAddr::V4(_), _) => setsockopt(&fd, sockopt::Ipv4RecvErr, &true)?,
    }
    if source != Source::default() {
        setsockopt(&fd, sockopt::ReuseAddr, &true)?;
        // Without a port, the kernel chooses one in connect(): fresh per connection, not per socket.
        setsockopt(&fd, sockopt::IpBindAddressNoPort, &source.port.is_none())?;
        let any = if target.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let from = SocketAddr::new(source.ip.unwrap_or(any), source.port.unwrap_or(0));
        bind(fd.as_raw_fd(), &SockaddrStorage::from(from))?;
    }
    let connected = eventually(FORK_WINDOW, || {
        match connect(fd.as_raw_fd(), &SockaddrStorage::from(target)) {
            // A connection with the same two addresses and ports exists.
            Err(Errno::EADDRNOTAVAIL) => None,
            result => Some(result),
        }
    });
    match connected.unwrap_or(Err(Errno::EADDRNOTAVAIL)) {
        Err(Errno::EINPROGRESS) => {}
        other => return other.map(|()| fd),
    }
    await_ready(&fd, PollFlags::POLLOUT, deadline)?;
    match getsockopt(&fd, sockopt::SocketError)? {
        // For SCTP, reading the error queue would take the first data.
        0 if protocol == Protocol::Sctp => Ok(fd),
        0 => queued_error(&fd).map_or(Ok(fd), Err),
        error => Err(Errno::from_raw(error)),
    }
}

/// A non-blocking socket.
fn open(family: AddressFamily, protocol: Protocol) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    match protocol {
        Protocol::Tcp => socket(family, SockType::Stream, flags, None),
        Protocol::Udp => socket(family, SockType::Datagram, flags, None),
        Protocol::Sctp => open_sctp(family, flags),
    }
}

/// A one-to-one style socket (RFC 6458, section 4).
fn open_sctp(family: AddressFamily, flags: SockFlag) -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_STREAM | flags.bits();
    #[expect(
        unsafe_code,
        reason = "nix has no name for the protocol; the descriptor is new and nobody else's"
    )]
    unsafe {
        let fd = Errno::result(libc::socket(family as i32, kind, libc::IPPROTO_SCTP))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Whether this kernel has sockets for SCTP.
pub fn sctp_available() -> bool {
    static AVAILABLE: LazyLock<bool> =
        LazyLock::new(|| open_sctp(AddressFamily::Inet6, SockFlag::SOCK_CLOEXEC).is_ok());
    *AVAILABLE
}

/// A socket that accepts associations, over IPv4 and IPv6.
pub(crate) fn listen_sctp(port: u16) -> io::Result<TcpListener> {
    let fd = open_sctp(AddressFamily::Inet6, SockFlag::SOCK_CLOEXEC)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    bind(fd.as_raw_fd(), &SockaddrStorage::from(any))?;
    listen(&fd, Backlog::MAXCONN)?;
    Ok(TcpListener::from(fd))
}

/// The ICMPv6 error that arrived while `connect` was running; `None` without one.
///
/// Between namespaces the SYN and its answer pass inside the `connect` call, which holds the lock of
/// the socket. `tcp_v6_err` ignores the error of a locked socket (6.18, counted as
/// `LockDroppedIcmps`; IPv4 stores it), so only the second SYN, one second later, would be refused.
/// On a real network the error arrives after `connect` released the lock. The error queue has the
/// error in both cases.
fn queued_error(fd: &OwnedFd) -> Option<Errno> {
    let mut space = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message =
        recvmsg::<SockaddrStorage>(fd.as_raw_fd(), &mut [], Some(&mut space), flags).ok()?;
    message.cmsgs().ok()?.find_map(|it| match it {
        ControlMessageOwned::Ipv6RecvErr(error, _) => {
            i32::try_from(error.ee_errno).ok().map(Errno::from_raw)
        }
        _ => None,
    })
}

/// Waits until `fd` is ready for `events` or has an error; `ETIMEDOUT` at the deadline.
pub(crate) fn await_ready(
    fd: &impl AsFd,
    events: PollFlags,
    deadline: Instant,
) -> Result<(), Errno> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up: a wait of 0 ms would spin through the last millisecond.
        let millis = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(fd.as_fd(), events)];
        match poll(&mut fds, PollTimeout::from(millis)) {
            Ok(0) if left.is_zero() => return Err(Errno::ETIMEDOUT),
            Ok(0) | Err(Errno::EINTR) => {}
            result => return result.map(drop),
        }
    }
}

/// Makes closing `fd` send a reset: without TIME_WAIT a client does not run out of ports.
pub(crate) fn reset_on_close(fd: &impl AsFd) {
    let reset = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // Without the option the port stays in TIME_WAIT for a minute.
    let _ = setsockopt(fd, sockopt::Linger, &reset);
}

/// The error number of an I/O error of a socket.
pub(crate) fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
