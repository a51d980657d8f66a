//! Notices of changes of addresses, of the routes that choose among them, and of forwarding.

use std::time::{Duration, Instant};

use nix::poll::PollTimeout;
use nix::sys::socket::SockProtocol;

use sluice_netlink::Stopper;
use sluice_netlink::filter;
use sluice_netlink::socket::{Socket, SocketError};

use super::{RTM_DELROUTE, RTM_NEWROUTE};

/// Numbers of the `RTNLGRP_*` to receive. Links are among them, because the kernel removes the IPv4
/// routes of a link that goes down without a notice (`fib_table_flush`).
const GROUPS: [u32; 9] = [
    1,  // LINK
    5,  // IPV4_IFADDR
    7,  // IPV4_ROUTE
    8,  // IPV4_RULE
    9,  // IPV6_IFADDR
    11, // IPV6_ROUTE
    19, // IPV6_RULE
    24, // IPV4_NETCONF
    25, // IPV6_NETCONF
];

/// Longest prefix that can be part of a default route: `0.0.0.0/1` and `128.0.0.0/1` are often one,
/// `2000::/3` is. Changes of smaller routes are dropped: a machine that speaks BGP has thousands.
const LONGEST_PREFIX: u32 = 3;

/// Why [`Monitor::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something changed, or the kernel dropped notices, so that anything may have changed.
    Changed,
    /// Nothing changed until the time that was given.
    Due,
    /// A [`Stopper`] was used; every later wait returns this.
    Stopped,
}

/// A subscription to changes of addresses, default routes, routing rules, links and forwarding in one
/// network namespace. It tells that something changed, not what.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
    stopper: Stopper,
}

impl Monitor {
    /// Watches the network namespace of the calling thread. No later change is missed.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        let groups = GROUPS.iter().fold(0, |mask, it| mask | 1 << (it - 1));
        let types = [RTM_NEWROUTE, RTM_DELROUTE];
        let mut filter = filter::without_small_routes(types, LONGEST_PREFIX);
        Ok(Self {
            socket: Socket::bound(SockProtocol::NetlinkRoute, 0, groups, &mut filter)?,
            buffer: Vec::new(),
            stopper: Stopper::new()?,
        })
    }

    /// A handle that ends the wait from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for the next change, or until `due`. Returns once for all changes that came meanwhile.
    ///
    /// # Errors
    /// [`SocketError::Io`] and [`SocketError::Truncated`].
    pub fn wait(&mut self, due: Option<Instant>) -> Result<Wake, SocketError> {
        loop {
            if self.stopper.is_stopped() {
                return Ok(Wake::Stopped);
            }
            if self.take_changes()? {
                return Ok(Wake::Changed);
            }
            let left = due.map(|it| it.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Wake::Due);
            }
            // One millisecond more, because poll cuts.
            let timeout = left.map_or(PollTimeout::NONE, |it| {
                PollTimeout::try_from(it + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            self.socket.wait(Some(&self.stopper), timeout)?;
        }
    }

    /// Whether anything changed since the last call; does not wait.
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
