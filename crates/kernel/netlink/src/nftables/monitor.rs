//! Changes of the ruleset, by whomever.

mod filter;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;
use nix::sys::socket::SockProtocol;

use crate::message::{Message, Messages};
use crate::socket::{Socket, SocketError};
use crate::stop::{Stop, Stopper};

use super::generation::Generation;
use super::uapi;

/// Unread notices that the kernel keeps for us, in bytes: a large table of somebody else.
const QUEUE: usize = 4 << 20;

/// What happened to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum ChangeKind {
    NewTable,
    DelTable,
    NewChain,
    DelChain,
    NewRule,
    DelRule,
    NewSet,
    DelSet,
    NewElement,
    DelElement,
    /// A named object, a flow table, or something newer than this crate.
    Other,
}

/// One change of the ruleset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// `NFPROTO_*` of the table; also of families that [`super::Family`] does not name.
    pub family: u8,
    /// The table.
    pub table: Option<String>,
    /// The chain, of chains and rules.
    pub chain: Option<String>,
    /// Port id of the socket that asked for it; 0 is the kernel itself.
    pub port_id: u32,
}

/// What a monitor reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// One change of a transaction.
    Change(Change),
    /// The end of a transaction.
    Generation {
        /// The new number, and the process behind it.
        generation: Generation,
        /// Port id of the socket that asked for it.
        port_id: u32,
    },
    /// The kernel dropped notices: anything may have changed.
    Lost,
}

impl Notice {
    /// Reads one message of the group; `None` when it is none of nftables'.
    #[must_use]
    pub fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind >> 8 != uapi::NFNL_SUBSYS_NFTABLES {
            return None;
        }
        let attrs = message.attrs();
        let port_id = message.port;
        let kind = match message.kind & 0xff {
            uapi::NFT_MSG_NEWGEN => {
                return Some(Self::Generation {
                    generation: Generation::decode(&attrs),
                    port_id,
                });
            }
            uapi::NFT_MSG_NEWTABLE => ChangeKind::NewTable,
            uapi::NFT_MSG_DELTABLE => ChangeKind::DelTable,
            uapi::NFT_MSG_NEWCHAIN => ChangeKind::NewChain,
            uapi::NFT_MSG_DELCHAIN => ChangeKind::DelChain,
            uapi::NFT_MSG_NEWRULE => ChangeKind::NewRule,
            uapi::NFT_MSG_DELRULE => ChangeKind::DelRule,
            uapi::NFT_MSG_NEWSET => ChangeKind::NewSet,
            uapi::NFT_MSG_DELSET => ChangeKind::DelSet,
            uapi::NFT_MSG_NEWSETELEM => ChangeKind::NewElement,
            uapi::NFT_MSG_DELSETELEM => ChangeKind::DelElement,
            _ => ChangeKind::Other,
        };
        // The table's name is the first attribute of every kind of object.
        let text = |attr| attrs.find(attr).and_then(|it| it.str()).map(str::to_owned);
        let chain = match kind {
            ChangeKind::NewChain | ChangeKind::DelChain => text(uapi::NFTA_CHAIN_NAME),
            ChangeKind::NewRule | ChangeKind::DelRule => text(uapi::NFTA_RULE_CHAIN),
            _ => None,
        };
        Some(Self::Change(Change {
            kind,
            family: message.family(),
            table: text(uapi::NFTA_TABLE_NAME),
            chain,
            port_id,
        }))
    }
}

/// Why [`Monitor::wait`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something changed.
    Notice(Notice),
    /// Nothing happened in the given time.
    TimedOut,
    /// A [`Stopper`] was pulled; from now on every wait returns this.
    Stopped,
}

/// A subscription to changes of the ruleset in one network namespace.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
    pending: VecDeque<Notice>,
    stop: Stop,
}

impl Monitor {
    /// Watches the network namespace of the calling thread, except for what the sockets with these
    /// port ids do: the kernel drops those notices, so that our own writes do not wake us.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn ignoring(port_ids: &[u32]) -> Result<Self, SocketError> {
        let socket = Socket::subscribed(
            SockProtocol::NetlinkNetFilter,
            1 << (uapi::NFNLGRP_NFTABLES - 1),
            &mut filter::dropping(port_ids),
        )?;
        socket.grow_receive_buffer(QUEUE);
        Ok(Self {
            socket,
            buffer: Vec::new(),
            pending: VecDeque::new(),
            stop: Stop::new()?,
        })
    }

    /// A handle that ends the wait from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stop.stopper()
    }

    /// Replaces the port ids whose changes are not reported, as after a reconnect.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn ignore(&mut self, port_ids: &[u32]) -> Result<(), SocketError> {
        self.socket.attach_filter(&mut filter::dropping(port_ids))
    }

    /// Waits for the next notice; without a timeout, for ever.
    ///
    /// # Errors
    /// [`SocketError::Io`] and [`SocketError::Truncated`]; lost notices are [`Notice::Lost`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Wake, SocketError> {
        let deadline = timeout.and_then(|it| Instant::now().checked_add(it));
        loop {
            if self.stop.is_stopped() {
                return Ok(Wake::Stopped);
            }
            if let Some(notice) = self.next_notice()? {
                return Ok(Wake::Notice(notice));
            }
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            if left.is_some_and(|it| it.is_zero()) {
                return Ok(Wake::TimedOut);
            }
            self.socket.wait(self.stop.as_fd(), poll_timeout(left))?;
        }
    }

    fn next_notice(&mut self) -> Result<Option<Notice>, SocketError> {
        while self.pending.is_empty() {
            match self.socket.try_receive(&mut self.buffer) {
                Ok(Some(datagram)) => {
                    self.pending
                        .extend(Messages::new(datagram).filter_map(|it| Notice::decode(&it)));
                }
                Ok(None) => return Ok(None),
                Err(SocketError::Overrun) => self.pending.push_back(Notice::Lost),
                Err(error) => return Err(error),
            }
        }
        Ok(self.pending.pop_front())
    }
}

/// Rounds up, so that a rest below a millisecond is not a busy loop; long ones are cut, and the
/// caller's loop goes round again.
fn poll_timeout(left: Option<Duration>) -> PollTimeout {
    match left {
        None => PollTimeout::NONE,
        Some(left) => {
            let millis = left.as_micros().div_ceil(1000);
            PollTimeout::try_from(i32::try_from(millis).unwrap_or(i32::MAX))
                .unwrap_or(PollTimeout::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timeouts_round_up_and_saturate() {
        assert_eq!(poll_timeout(None), PollTimeout::NONE);
        assert_eq!(
            poll_timeout(Some(Duration::from_micros(1))).as_millis(),
            Some(1)
        );
        assert_eq!(
            poll_timeout(Some(Duration::MAX)).as_millis(),
            Some(i32::MAX.cast_unsigned())
        );
    }

    proptest! {
        #[test]
        fn never_panics_on_random_messages(kind in 0xa00_u16..0xa30, body in prop::collection::vec(0_u8..16, 0..120)) {
            let message = Message { kind, flags: 0, sequence: 0, port: 0, body: &body };
            prop_assert!(Notice::decode(&message).is_some());
        }
    }
}
