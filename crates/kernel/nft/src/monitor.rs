//! Notices of changes of the ruleset, by any process.

use std::time::{Duration, Instant};

use nix::sys::socket::SockProtocol;

use sluice_netlink::message::Message;
use sluice_netlink::socket::{Socket, SocketError};
use sluice_netlink::{Notices, filter};

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
pub struct Monitor(Notices<Notice>);

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
        Ok(Self(Notices::new(socket, QUEUE, Notice::decode)))
    }

    /// Waits for the next notice; `None` after the timeout. Without a timeout it waits for ever.
    ///
    /// # Errors
    /// [`SocketError::Io`] and [`SocketError::Truncated`]; lost notices are [`Notice::Lost`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Notice>, SocketError> {
        let deadline = timeout.and_then(|it| Instant::now().checked_add(it));
        match self.0.wait(deadline) {
            Err(SocketError::Overrun) => Ok(Some(Notice::Lost)),
            result => result,
        }
    }
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
