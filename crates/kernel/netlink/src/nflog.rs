//! Groups of the `NFLOG` target: packets that rules show to a program. They also work as locks of a network namespace.
//!
//! Numbers and layouts are those of `linux/netfilter/nfnetlink_log.h`. The kernel gives a group to
//! one socket, only with `CAP_NET_ADMIN` in the namespace, and takes it back when the last
//! descriptor of the socket is closed (`nfulnl_recv_config`, `nfulnl_rcv_nl_event`). No listing of
//! rules shows groups. Packets that a rule logs to a group whose socket nobody reads are forgotten,
//! and pass.

use std::time::Instant;

use nix::errno::Errno;

use crate::message::Message;
use crate::notices::Notices;
use crate::request::{Request, RequestError};
use crate::socket::{Socket, SocketError};

/// `NFNL_SUBSYS_ULOG`.
const SUBSYSTEM: u16 = 4 << 8;

const NFULNL_MSG_PACKET: u16 = 0;
const NFULA_PAYLOAD: u16 = 9;
const NFULA_PREFIX: u16 = 10;

const NFULNL_MSG_CONFIG: u16 = 1;
const NFULA_CFG_CMD: u16 = 1;
const NFULA_CFG_MODE: u16 = 2;
const NFULA_CFG_TIMEOUT: u16 = 4;
const NFULNL_CFG_CMD_BIND: u8 = 1;
const NFULNL_COPY_PACKET: u8 = 2;

/// How long the kernel may keep packets to send several together, in hundredths of a second.
const TOGETHER: u32 = 10;

/// Most kernel memory for unread packets in bytes.
const QUEUE: usize = 1 << 20;

/// A group of the calling thread's network namespace, held until this is dropped.
#[derive(Debug)]
pub struct Group(#[expect(dead_code, reason = "only lives")] Socket);

impl Group {
    /// Takes a group; `None` while another socket has it. The request may make the kernel load the
    /// module.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EINVAL` when the kernel has no groups.
    pub fn take(number: u16) -> Result<Option<Self>, RequestError> {
        Ok(bind(number, None)?.map(Self))
    }
}

/// Takes a group. With a number of bytes, its socket gets packets, of each as many bytes at most.
fn bind(number: u16, copied: Option<u32>) -> Result<Option<Socket>, RequestError> {
    let object = format!("NFLOG group {number}");
    let request = Request::new("take", &object, SUBSYSTEM | NFULNL_MSG_CONFIG, |it| {
        it.u8(NFULA_CFG_CMD, NFULNL_CFG_CMD_BIND);
        if let Some(copied) = copied {
            // `struct nfulnl_msg_config_mode`.
            let mode = [&copied.to_be_bytes()[..], &[NFULNL_COPY_PACKET, 0]].concat();
            it.bytes(NFULA_CFG_MODE, &mode);
            it.u32_be(NFULA_CFG_TIMEOUT, TOGETHER);
        }
    });
    let [high, low] = number.to_be_bytes();
    let request = request.first([0, 0, high, low]);
    let mut socket = Socket::netfilter().map_err(|it| request.failed(it))?;
    match request.ask(&mut socket, &mut |_| {}) {
        Ok(()) => Ok(Some(socket)),
        // The same two errors that name a group of another socket; `EPERM` also without the
        // capability.
        Err(error) if matches!(error.errno(), Some(Errno::EPERM | Errno::EBUSY)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A packet that a rule showed to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The text of the rule.
    pub prefix: String,
    /// The first bytes of the packet, from its IP header on.
    pub payload: Vec<u8>,
}

impl Shown {
    fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != SUBSYSTEM | NFULNL_MSG_PACKET {
            return None;
        }
        let attrs = message.attrs();
        Some(Self {
            prefix: attrs.string(NFULA_PREFIX).unwrap_or_default(),
            payload: attrs.find(NFULA_PAYLOAD)?.value.to_vec(),
        })
    }
}

/// Gets the packets that rules show to a group of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Listener(Notices<Shown>);

impl Listener {
    /// Takes a group, as [`Group::take`]. Of each packet it gets this many bytes at most.
    ///
    /// # Errors
    /// As [`Group::take`].
    pub fn open(number: u16, copied: u32) -> Result<Option<Self>, RequestError> {
        let socket = bind(number, Some(copied))?;
        Ok(socket.map(|it| Self(Notices::new(it, QUEUE, Shown::decode))))
    }

    /// Waits for the next packet; `None` at the deadline. Without a deadline it waits for ever.
    ///
    /// # Errors
    /// Any [`SocketError`]; after [`SocketError::Overrun`] some packets are lost, and later ones still come.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Result<Option<Shown>, SocketError> {
        self.0.wait(deadline)
    }
}
