//! Notices of changes of the ruleset, by any process.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;
use nix::sys::socket::SockProtocol;

use sluice_netlink::filter;
use sluice_netlink::message::{Message, Messages};
use sluice_netlink::socket::{Socket, SocketError};

use super::generation::Generation;
use super::uapi;

/// Most kernel memory for unread notices in bytes: a large table of another program.
const QUEUE: usize = 4 << 20;

/// The verb of a change and the kind of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "a verb and an object")]
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
    /// The verb and the kind of object.
    pub kind: ChangeKind,
    /// The name of the table.
    pub table: Option<String>,
    /// Port id of the socket that made the change; 0 is the kernel itself.
    pub port_id: u32,
}

/// A report of a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// One change of a transaction.
    Change(Change),
    /// The end of a transaction, with its author.
    Generation(Generation),
    /// The kernel dropped notices: anything may have changed.
    Lost,
}

impl Notice {
    /// Reads one message of the group; `None` when it is not one of nftables.
    fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind >> 8 != uapi::NFNL_SUBSYS_NFTABLES {
            return None;
        }
        let attrs = message.attrs();
        let kind = match message.kind & 0xff {
            uapi::NFT_MSG_NEWGEN => return Some(Self::Generation(Generation::decode(&attrs))),
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
        Some(Self::Change(Change {
            kind,
            // The table's name is the first attribute of every kind of object.
            table: attrs.string(uapi::NFTA_TABLE_NAME),
            port_id: message.port,
        }))
    }
}

/// A subscription to changes of the ruleset in one network namespace.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    pending: VecDeque<Notice>,
}

impl Monitor {
    /// Watches the network namespace of the calling thread. The kernel drops the notices about
    /// changes of the sockets with these port ids, so that our own writes do not wake us.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn ignoring(port_ids: &[u32]) -> Result<Self, SocketError> {
        let group = 1 << (uapi::NFNLGRP_NFTABLES - 1);
        let mut filter = filter::without_ports(port_ids);
        let socket = Socket::bound(SockProtocol::NetlinkNetFilter, 0, group, &mut filter)?;
        socket.grow_receive_buffer(QUEUE);
        Ok(Self {
            socket,
            pending: VecDeque::new(),
        })
    }

    /// Waits for the next notice; `None` after the timeout. Without a timeout it waits for ever.
    ///
    /// # Errors
    /// [`SocketError::Io`] and [`SocketError::Truncated`]; lost notices are [`Notice::Lost`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Notice>, SocketError> {
        let deadline = timeout.and_then(|it| Instant::now().checked_add(it));
        loop {
            if let Some(notice) = self.next_notice()? {
                return Ok(Some(notice));
            }
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            if left.is_some_and(|it| it.is_zero()) {
                return Ok(None);
            }
            self.socket.wait(None, poll_timeout(left))?;
        }
    }

    fn next_notice(&mut self) -> Result<Option<Notice>, SocketError> {
        while self.pending.is_empty() {
            match self.socket.try_receive() {
                Ok(Some(datagram)) => {
                    let notices = Messages::new(datagram).filter_map(|it| Notice::decode(&it));
                    self.pending.extend(notices);
                }
                Ok(None) => return Ok(None),
                Err(SocketError::Overrun) => self.pending.push_back(Notice::Lost),
                Err(error) => return Err(error),
            }
        }
        Ok(self.pending.pop_front())
    }
}

/// At least one millisecond, so that a shorter rest is not a busy loop. A long timeout is cut to
/// 24 days; the caller's loop waits again.
pub(super) fn poll_timeout(left: Option<Duration>) -> PollTimeout {
    left.map_or(PollTimeout::NONE, |left| {
        let left = left.max(Duration::from_millis(1));
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_panics_on_random_messages(kind in 0xa00_u16..0xa30, body in prop::collection::vec(0_u8..16, 0..120)) {
            let message = Message { kind, flags: 0, sequence: 0, port: 0, body: &body };
            prop_assert!(Notice::decode(&message).is_some());
        }
    }
}
