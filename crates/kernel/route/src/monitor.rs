//! Notices of changes of addresses, of the routes that choose among them, and of forwarding.

use std::time::{Duration, Instant};

use nix::poll::PollTimeout;
use nix::sys::socket::SockProtocol;
use sluice_netlink::message::{Message, Messages};
use sluice_netlink::socket::{Socket, SocketError};
use sluice_netlink::{Stopper, filter};

use crate::connection::Listed;
use crate::{Address, Forward, Link, Neighbour, Route, Rule};

/// Numbers of `RTNLGRP_*`.
const LINK: u32 = 1;
const NEIGHBOUR: u32 = 3;
const IPV4_ADDRESS: u32 = 5;
const IPV4_ROUTE: u32 = 7;
const IPV4_RULE: u32 = 8;
const IPV6_ADDRESS: u32 = 9;
const IPV6_ROUTE: u32 = 11;
const IPV6_RULE: u32 = 19;

/// The multicast groups of [`Monitor::open`]. Links are among them, because the kernel removes the IPv4 routes of a
/// link that goes down without a notice (`fib_table_flush`).
const GROUPS: [u32; 9] = [
    LINK,
    IPV4_ADDRESS,
    IPV4_ROUTE,
    IPV4_RULE,
    IPV6_ADDRESS,
    IPV6_ROUTE,
    IPV6_RULE,
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
    stopper: Stopper,
}

impl Monitor {
    /// Watches the network namespace of the calling thread. No later change is missed.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        let types = [Route::MESSAGES.new, Route::MESSAGES.delete];
        Self::bound(
            &GROUPS,
            &mut filter::without_small_routes(types, LONGEST_PREFIX),
        )
    }

    /// As [`Self::open`], but watches all routes.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open_with_routes() -> Result<Self, SocketError> {
        Self::bound(&GROUPS, &mut [])
    }

    /// Watches all objects of these kinds in the network namespace of the calling thread, for
    /// [`next`](Self::next).
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn follow(kinds: &[Followed]) -> Result<Self, SocketError> {
        let groups: Vec<u32> = kinds.iter().flat_map(|it| it.groups()).copied().collect();
        Self::bound(&groups, &mut [])
    }

    fn bound(groups: &[u32], filter: &mut [libc::sock_filter]) -> Result<Self, SocketError> {
        let groups = groups.iter().fold(0, |mask, it| mask | 1 << (it - 1));
        Ok(Self {
            socket: Socket::bound(SockProtocol::NetlinkRoute, 0, groups, filter)?,
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
        self.until(due, Self::take_changes)
    }

    /// Waits as [`wait`](Self::wait) does, and adds the notices of the changes to `notices`.
    ///
    /// # Errors
    /// As of [`Monitor::wait`].
    pub fn next(
        &mut self,
        due: Option<Instant>,
        notices: &mut Vec<Notice>,
    ) -> Result<Wake, SocketError> {
        let before = notices.len();
        self.until(due, |it| {
            it.take(&mut |notice| notices.push(notice))?;
            Ok(notices.len() > before)
        })
    }

    /// Whether anything changed since the last call; does not wait.
    ///
    /// # Errors
    /// As of [`Monitor::wait`].
    pub fn take_changes(&mut self) -> Result<bool, SocketError> {
        let mut any = false;
        loop {
            match self.socket.try_receive() {
                Ok(Some(_)) | Err(SocketError::Overrun) => any = true,
                Ok(None) => return Ok(any),
                Err(error) => return Err(error),
            }
        }
    }

    /// Shows every notice that has come to `visit`.
    fn take(&mut self, visit: &mut dyn FnMut(Notice)) -> Result<(), SocketError> {
        loop {
            match self.socket.try_receive() {
                Ok(Some(datagram)) => Messages::new(datagram)
                    .filter_map(|it| Notice::decode(&it))
                    .for_each(&mut *visit),
                Err(SocketError::Overrun) => visit(Notice::Lost),
                Ok(None) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn until(
        &mut self,
        due: Option<Instant>,
        mut take: impl FnMut(&mut Self) -> Result<bool, SocketError>,
    ) -> Result<Wake, SocketError> {
        loop {
            if self.stopper.is_stopped() {
                return Ok(Wake::Stopped);
            }
            if take(self)? {
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
}

/// A kind of objects to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the objects say it")]
pub enum Followed {
    Links,
    Addresses,
    Routes,
    Rules,
    /// Neighbours, and the entries of forwarding databases.
    Neighbours,
}

impl Followed {
    const fn groups(self) -> &'static [u32] {
        match self {
            Self::Links => &[LINK],
            Self::Addresses => &[IPV4_ADDRESS, IPV6_ADDRESS],
            Self::Routes => &[IPV4_ROUTE, IPV6_ROUTE],
            Self::Rules => &[IPV4_RULE, IPV6_RULE],
            Self::Neighbours => &[NEIGHBOUR],
        }
    }
}

/// A change in the kernel, made by any program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the objects say it")]
pub enum Notice {
    Link(Change, Link),
    Address(Change, Address),
    Route(Change, Route),
    Rule(Change, Rule),
    Neighbour(Change, Neighbour),
    Forward(Change, Forward),
    /// The kernel dropped notices because nobody read them in time: anything may have changed.
    Lost,
}

/// A change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was added, or changed to this.
    Set,
    /// The object was deleted. The addresses and routes of a link that is deleted may go without a notice.
    Gone,
}

impl Notice {
    /// `None` when the message is about another kind of object.
    fn decode(message: &Message<'_>) -> Option<Self> {
        changed(message, Self::Link)
            .or_else(|| changed(message, Self::Address))
            .or_else(|| changed(message, Self::Route))
            .or_else(|| changed(message, Self::Rule))
            .or_else(|| changed(message, Self::Neighbour))
            .or_else(|| changed(message, Self::Forward))
    }
}

fn changed<O: Listed>(
    message: &Message<'_>,
    notice: impl FnOnce(Change, O) -> Notice,
) -> Option<Notice> {
    let change = if message.kind == O::MESSAGES.new {
        Change::Set
    } else if message.kind == O::MESSAGES.delete {
        Change::Gone
    } else {
        return None;
    };
    O::decode(message).map(|it| notice(change, it))
}
