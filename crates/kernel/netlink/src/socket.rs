//! A netlink socket.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, setsockopt,
    sockopt,
};
use nix::sys::time::TimeVal;

use crate::sys::{self, NetlinkOption};

/// Bytes that one receive may return. The kernel sends dumps in pieces of at most 32 KiB
/// (`netlink_dump`) and notices in pieces of a page or two.
pub const RECEIVE_BUFFER: usize = 64 << 10;

/// Longest wait for an answer in seconds. The kernel answers in the system call itself; this only
/// keeps a lost answer from blocking forever.
const ANSWER_TIMEOUT: i64 = 30;

/// Kernel memory for the answers to one batch in bytes: a few thousand errors.
const LARGEST_RECEIVE_QUEUE: usize = 64 << 20;

/// Single requests count from here; messages of a batch count from 1.
const FIRST_SEQUENCE: u32 = 1 << 31;

/// Why a socket could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A system call failed.
    #[error("{operation} netlink socket: {source}")]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The kernel dropped messages because nobody read them in time (`ENOBUFS`).
    #[error("receive from netlink socket: the kernel dropped messages")]
    Overrun,
    /// A datagram was longer than [`RECEIVE_BUFFER`] and its end is lost.
    #[error("receive from netlink socket: message of {length} bytes is cut")]
    Truncated {
        /// Bytes that the kernel had to say.
        length: usize,
    },
}

/// A connection to a part of the kernel (netfilter, if nothing else is said) with its own port id.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    port: u32,
    send_buffer: usize,
    sequence: u32,
}

impl Socket {
    /// Opens a socket in the network namespace of the calling thread, subscribed to no group.
    ///
    /// # Errors
    /// [`SocketError::Io`] when the kernel has no netfilter netlink.
    pub fn open() -> Result<Self, SocketError> {
        Self::subscribed(SockProtocol::NetlinkNetFilter, 0, &mut [])
    }

    /// The same with this port id.
    ///
    /// # Errors
    /// [`SocketError::Io`], also when another socket has it.
    pub(crate) fn open_at(port: u32) -> Result<Self, SocketError> {
        Self::bound(SockProtocol::NetlinkNetFilter, port, 0, &mut [])
    }

    /// Opens a socket that receives the multicast groups of the mask (bit `group - 1`, groups are
    /// `NFNLGRP_*` or `RTNLGRP_*`), as far as the filter lets them through; an empty filter is none.
    ///
    /// # Errors
    /// [`SocketError::Io`], as [`Socket::open`].
    pub(crate) fn subscribed(
        protocol: SockProtocol,
        groups: u32,
        filter: &mut [libc::sock_filter],
    ) -> Result<Self, SocketError> {
        Self::bound(protocol, 0, groups, filter)
    }

    /// Port 0 is one that the kernel chooses.
    fn bound(
        protocol: SockProtocol,
        port: u32,
        groups: u32,
        filter: &mut [libc::sock_filter],
    ) -> Result<Self, SocketError> {
        let fd = socket::socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            protocol,
        )
        .map_err(io_error("open"))?;
        if !filter.is_empty() {
            attach(fd.as_fd(), filter)?;
        }
        socket::bind(fd.as_raw_fd(), &NetlinkAddr::new(port, groups)).map_err(io_error("bind"))?;
        let address: NetlinkAddr = socket::getsockname(fd.as_raw_fd()).map_err(io_error("name"))?;
        for option in [NetlinkOption::CapAck, NetlinkOption::ExtAck] {
            sys::enable(fd.as_fd(), option).map_err(|source| SocketError::Io {
                operation: "configure",
                source,
            })?;
        }
        setsockopt(
            &fd,
            sockopt::ReceiveTimeout,
            &TimeVal::new(ANSWER_TIMEOUT, 0),
        )
        .map_err(io_error("configure"))?;
        Ok(Self {
            fd,
            port: address.pid(),
            send_buffer: 0,
            sequence: FIRST_SEQUENCE,
        })
    }

    /// The address of this socket: the kernel puts it into `nlmsg_pid` of the notices that this
    /// socket's requests cause.
    #[must_use]
    pub fn port_id(&self) -> u32 {
        self.port
    }

    /// The first of `count` sequence numbers in a row that no recent request on this socket had.
    pub(crate) fn next_sequences(&mut self, count: usize) -> u32 {
        let count = u32::try_from(count).unwrap_or(FIRST_SEQUENCE);
        let first = self.sequence;
        let (first, next) = match first.checked_add(count) {
            Some(next) => (first, next),
            None => (FIRST_SEQUENCE, FIRST_SEQUENCE.saturating_add(count)),
        };
        self.sequence = next;
        first
    }

    /// Replaces the filter of received datagrams.
    pub(crate) fn attach_filter(
        &self,
        filter: &mut [libc::sock_filter],
    ) -> Result<(), SocketError> {
        attach(self.fd.as_fd(), filter)
    }

    /// Makes room in the kernel for `bytes` of unread messages; as much as permitted.
    pub fn grow_receive_buffer(&self, bytes: usize) {
        let bytes = bytes.min(LARGEST_RECEIVE_QUEUE);
        // Too small a queue shows as `Overrun`, so failing to grow it is no error of its own.
        if setsockopt(&self.fd, sockopt::RcvBufForce, &bytes).is_err() {
            let _ = setsockopt(&self.fd, sockopt::RcvBuf, &bytes);
        }
    }

    /// Sends the parts as one datagram, after growing the send buffer to hold it.
    ///
    /// # Errors
    /// [`SocketError::Io`]; `EMSGSIZE` means that the send buffer could not be grown.
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<(), SocketError> {
        let length = parts.iter().map(|it| it.len()).sum::<usize>();
        self.grow_send_buffer(length);
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|it| IoSlice::new(it)).collect();
        let kernel = NetlinkAddr::new(0, 0);
        loop {
            match socket::sendmsg(
                self.fd.as_raw_fd(),
                &slices,
                &[],
                MsgFlags::empty(),
                Some(&kernel),
            ) {
                Ok(_) => return Ok(()),
                // Signals are looked at before the request is handed over, never after.
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(io_error("send to")(errno)),
            }
        }
    }

    /// Waits for one datagram and puts it into `buffer`.
    ///
    /// # Errors
    /// Any [`SocketError`]; [`SocketError::Io`] with `EAGAIN` after half a minute of silence.
    pub fn receive<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], SocketError> {
        match self.receive_with(buffer, MsgFlags::empty())? {
            Some(length) => Ok(&buffer[..length]),
            None => Err(io_error("receive from")(Errno::EAGAIN)),
        }
    }

    /// Takes one datagram that is already there; `None` when there is none.
    ///
    /// # Errors
    /// Any [`SocketError`].
    pub fn try_receive<'b>(
        &self,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<&'b [u8]>, SocketError> {
        let length = self.receive_with(buffer, MsgFlags::MSG_DONTWAIT)?;
        Ok(length.map(|it| &buffer[..it]))
    }

    /// Waits until there is something to read from this socket or from `other`, or until the
    /// timeout passed; `None` waits forever.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub(crate) fn wait(
        &self,
        other: BorrowedFd<'_>,
        timeout: PollTimeout,
    ) -> Result<(), SocketError> {
        let mut fds = [
            PollFd::new(self.fd.as_fd(), PollFlags::POLLIN),
            PollFd::new(other, PollFlags::POLLIN),
        ];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(io_error("wait for")(errno)),
        }
    }

    fn receive_with(
        &self,
        buffer: &mut Vec<u8>,
        flags: MsgFlags,
    ) -> Result<Option<usize>, SocketError> {
        buffer.resize(RECEIVE_BUFFER, 0);
        loop {
            // With MSG_TRUNC the kernel returns the datagram's length, not what was copied.
            match socket::recv(self.fd.as_raw_fd(), buffer, flags | MsgFlags::MSG_TRUNC) {
                Ok(length) if length > buffer.len() => {
                    return Err(SocketError::Truncated { length });
                }
                Ok(length) => return Ok(Some(length)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::ENOBUFS) => return Err(SocketError::Overrun),
                Err(errno) => return Err(io_error("receive from")(errno)),
            }
        }
    }

    /// The kernel refuses a datagram longer than the send buffer (`netlink_sendmsg`).
    fn grow_send_buffer(&mut self, length: usize) {
        let wanted = length.max(64 << 10).next_power_of_two();
        if wanted > self.send_buffer {
            // Too small a buffer shows as EMSGSIZE of the send itself.
            if setsockopt(&self.fd, sockopt::SndBufForce, &wanted).is_err() {
                let _ = setsockopt(&self.fd, sockopt::SndBuf, &wanted);
            }
            self.send_buffer = wanted;
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn attach(fd: BorrowedFd<'_>, filter: &mut [libc::sock_filter]) -> Result<(), SocketError> {
    sys::attach_filter(fd, filter).map_err(|source| SocketError::Io {
        operation: "attach filter to",
        source,
    })
}

fn io_error(operation: &'static str) -> impl Fn(Errno) -> SocketError {
    move |errno| SocketError::Io {
        operation,
        source: errno.into(),
    }
}
