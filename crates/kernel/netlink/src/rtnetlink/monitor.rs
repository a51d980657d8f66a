//! Changes of addresses and of the routes that choose among them.

use std::os::fd::AsFd;

use nix::poll::PollTimeout;
use nix::sys::socket::SockProtocol;

use crate::socket::{Socket, SocketError};
use crate::stop::{Stop, Stopper};

use super::filter;

/// `RTNLGRP_*` of what is heard, by number. Links, because their going down removes IPv4 routes
/// without a word (`fib_table_flush`).
const GROUPS: [u32; 7] = [
    1,  // LINK
    5,  // IPV4_IFADDR
    7,  // IPV4_ROUTE
    8,  // IPV4_RULE
    9,  // IPV6_IFADDR
    11, // IPV6_ROUTE
    19, // IPV6_RULE
];

/// Why [`Monitor::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something changed, or notices were lost and anything may have.
    Changed,
    /// A [`Stopper`] was pulled; from now on every wait returns this.
    Stopped,
}

/// A subscription to changes of addresses, default routes, routing rules and links in one network
/// namespace. Says that something changed, not what: read it again.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
    stop: Stop,
}

impl Monitor {
    /// Watches the network namespace of the calling thread: what changes from now on is not
    /// missed.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        let groups = GROUPS.iter().fold(0, |mask, it| mask | 1 << (it - 1));
        let socket = Socket::subscribed(
            SockProtocol::NetlinkRoute,
            groups,
            &mut filter::without_small_routes(),
        )?;
        Ok(Self {
            socket,
            buffer: Vec::new(),
            stop: Stop::new()?,
        })
    }

    /// A handle that ends the wait from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stop.stopper()
    }

    /// Waits for the next change. Many changes that are there already are one.
    ///
    /// # Errors
    /// [`SocketError::Io`] and [`SocketError::Truncated`].
    pub fn wait(&mut self) -> Result<Wake, SocketError> {
        loop {
            if self.stop.is_stopped() {
                return Ok(Wake::Stopped);
            }
            if self.take_changes()? {
                return Ok(Wake::Changed);
            }
            self.socket.wait(self.stop.as_fd(), PollTimeout::NONE)?;
        }
    }

    /// Whether anything changed since this was asked last; does not wait.
    ///
    /// # Errors
    /// As [`Monitor::wait`].
    pub fn take_changes(&mut self) -> Result<bool, SocketError> {
        let mut any = false;
        loop {
            match self.socket.try_receive(&mut self.buffer) {
                Ok(Some(_)) | Err(SocketError::Overrun) => any = true,
                Ok(None) => return Ok(any),
                Err(error) => return Err(error),
            }
        }
    }
}
