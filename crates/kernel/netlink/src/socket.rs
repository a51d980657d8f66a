//! A netlink socket.

use std::io::{self, IoSlice};
use std::iter;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, setsockopt,
    sockopt,
};
use nix::sys::time::TimeVal;

use crate::message::Answer;
use crate::stop::Stopper;
use crate::sys;

/// Bytes that one receive may return. The kernel sends dumps in pieces of at most 32 KiB
/// (`netlink_dump`) and notices in pieces of a page or two.
const RECEIVE_BUFFER: usize = 64 << 10;

/// Timeout of one answer in seconds. The kernel answers within the system call that sends the
/// request; without a timeout a lost answer would block the thread for ever.
const ANSWER_TIMEOUT: i64 = 30;

/// Most kernel memory for the unread answers to one batch in bytes. An error takes about a kilobyte.
const LARGEST_RECEIVE_QUEUE: usize = 64 << 20;

/// The sequence numbers of single requests start here, those of a batch's messages at 1.
const FIRST_SEQUENCE: u32 = 1 << 31;

/// Why a netlink socket failed.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A system call failed.
    #[error("{operation} netlink socket: {source}")]
    Io {
        /// The verb, as `open`.
        operation: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
    /// The kernel dropped messages because the receive buffer was full (`ENOBUFS`).
    #[error("receive from netlink socket: the kernel dropped messages")]
    Overrun,
    /// A datagram was longer than the buffer of 64 KiB and its end is lost.
    #[error("receive from netlink socket: message of {length} bytes is cut")]
    Truncated {
        /// Length of the whole datagram in bytes.
        length: usize,
    },
}

/// A connection to one part of the kernel, with a port id of its own.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    port: u32,
    send_buffer: usize,
    sequence: u32,
    unknown_error: fn(i32) -> String,
    /// The last datagram.
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket to this part of the kernel in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`SocketError::Io`] when the kernel lacks this part.
    pub fn open(protocol: SockProtocol) -> Result<Self, SocketError> {
        Self::bound(protocol, 0, 0, &mut [])
    }

    /// Opens a socket to netfilter.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn netfilter() -> Result<Self, SocketError> {
        Self::open(SockProtocol::NetlinkNetFilter)
    }

    /// Opens a socket with this port id (0: the kernel chooses one) that receives the multicast
    /// groups of the mask (bit `group - 1`, groups are `NFNLGRP_*` or `RTNLGRP_*`), as far as the
    /// filter lets them through. An empty filter lets all through.
    ///
    /// # Errors
    /// [`SocketError::Io`], also when another socket has the port id.
    pub fn bound(
        protocol: SockProtocol,
        port: u32,
        groups: u32,
        filter: &mut [libc::sock_filter],
    ) -> Result<Self, SocketError> {
        let (family, flags) = (AddressFamily::Netlink, SockFlag::SOCK_CLOEXEC);
        let fd =
            socket::socket(family, SockType::Raw, flags, protocol).map_err(io_error("open"))?;
        if !filter.is_empty() {
            sys::attach_filter(fd.as_fd(), filter).map_err(io_error("attach filter to"))?;
        }
        socket::bind(fd.as_raw_fd(), &NetlinkAddr::new(port, groups)).map_err(io_error("bind"))?;
        let address: NetlinkAddr = socket::getsockname(fd.as_raw_fd()).map_err(io_error("name"))?;
        // Answers do not repeat the request, and carry the kernel's text and the place of the error.
        for option in [libc::NETLINK_CAP_ACK, libc::NETLINK_EXT_ACK] {
            sys::enable(fd.as_fd(), option).map_err(io_error("configure"))?;
        }
        let timeout = TimeVal::new(ANSWER_TIMEOUT, 0);
        setsockopt(&fd, sockopt::ReceiveTimeout, &timeout).map_err(io_error("configure"))?;
        Ok(Self {
            fd,
            port: address.pid(),
            send_buffer: 0,
            sequence: FIRST_SEQUENCE,
            unknown_error: |code| format!("error {code}"),
            buffer: Vec::new(),
        })
    }

    /// Has the texts of error numbers that this part of the kernel alone has, and no C library knows.
    #[must_use]
    pub fn with_errors(self, unknown_error: fn(i32) -> String) -> Self {
        Self {
            unknown_error,
            ..self
        }
    }

    /// Tells the kernel's text of a refusal, or ours for a number that no C library knows.
    pub(crate) fn reasons(&self) -> impl Fn(Answer) -> Option<String> + use<> {
        let unknown_error = self.unknown_error;
        move |answer| {
            let is_unknown = answer.errno == Some(Errno::UnknownErrno);
            let unknown = || is_unknown.then(|| unknown_error(answer.code));
            answer.message.or_else(unknown)
        }
    }

    /// Gives the socket the first free descriptor from this number on.
    ///
    /// # Errors
    /// [`SocketError::Io`]: the number is beyond the limit of this process, or no descriptor is free.
    pub fn renumber(&mut self, least: i32) -> Result<(), SocketError> {
        self.fd = sys::duplicate_from(self.fd.as_fd(), least).map_err(io_error("renumber"))?;
        Ok(())
    }

    /// The port id of this socket. Notices about its changes carry it in `nlmsg_pid`.
    pub fn port_id(&self) -> u32 {
        self.port
    }

    /// Reserves `count` consecutive sequence numbers that no recent request of this socket used, and
    /// returns the first.
    pub fn next_sequences(&mut self, count: usize) -> u32 {
        let count = u32::try_from(count).unwrap_or(FIRST_SEQUENCE);
        let first = self.sequence;
        let (first, next) = match first.checked_add(count) {
            Some(next) => (first, next),
            None => (FIRST_SEQUENCE, FIRST_SEQUENCE.saturating_add(count)),
        };
        self.sequence = next;
        first
    }

    /// Raises the kernel's limit of unread messages to `bytes`, as far as permitted.
    pub fn grow_receive_buffer(&self, bytes: usize) {
        let bytes = bytes.min(LARGEST_RECEIVE_QUEUE);
        // A queue that is too small causes `Overrun` later.
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
            let flags = MsgFlags::empty();
            match socket::sendmsg(self.fd.as_raw_fd(), &slices, &[], flags, Some(&kernel)) {
                Ok(_) => return Ok(()),
                // The kernel was interrupted before it took the request, never after.
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(io_error("send to")(errno)),
            }
        }
    }

    /// Waits for one datagram.
    ///
    /// # Errors
    /// Any [`SocketError`]; [`SocketError::Io`] with `EAGAIN` after 30 seconds.
    pub fn receive(&mut self) -> Result<&[u8], SocketError> {
        match self.receive_with(MsgFlags::empty())? {
            Some(length) => Ok(&self.buffer[..length]),
            None => Err(io_error("receive from")(Errno::EAGAIN)),
        }
    }

    /// Receives one datagram without waiting; `None` when there is none.
    ///
    /// # Errors
    /// Any [`SocketError`].
    pub fn try_receive(&mut self) -> Result<Option<&[u8]>, SocketError> {
        let length = self.receive_with(MsgFlags::MSG_DONTWAIT)?;
        Ok(length.map(|it| &self.buffer[..it]))
    }

    /// Waits until this socket has a message, the stopper was used or the timeout passed.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn wait(&self, stopper: Option<&Stopper>, timeout: PollTimeout) -> Result<(), SocketError> {
        let fds = iter::once(self.fd.as_fd()).chain(stopper.map(AsFd::as_fd));
        let mut fds: Vec<_> = fds.map(|it| PollFd::new(it, PollFlags::POLLIN)).collect();
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(io_error("wait for")(errno)),
        }
    }

    fn receive_with(&mut self, flags: MsgFlags) -> Result<Option<usize>, SocketError> {
        let buffer = &mut self.buffer;
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
            // A buffer that is too small makes the send fail with EMSGSIZE.
            if setsockopt(&self.fd, sockopt::SndBufForce, &wanted).is_err() {
                let _ = setsockopt(&self.fd, sockopt::SndBuf, &wanted);
            }
            self.send_buffer = wanted;
        }
    }
}

/// Turns the error of a system call that did this to a socket into ours.
pub fn io_error(operation: &'static str) -> impl Fn(Errno) -> SocketError {
    move |errno| SocketError::Io {
        operation,
        source: errno.into(),
    }
}
