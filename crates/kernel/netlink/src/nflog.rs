//! Groups of the `NFLOG` target, which work as locks of a network namespace.
//!
//! Numbers and layouts are those of `linux/netfilter/nfnetlink_log.h`. The kernel gives a group to
//! one socket, only with `CAP_NET_ADMIN` in the namespace, and takes it back when the last
//! descriptor of the socket is closed (`nfulnl_recv_config`, `nfulnl_rcv_nl_event`). No listing of
//! rules shows groups. Packets that a rule logs to a group whose socket nobody reads are forgotten,
//! and pass.

use nix::errno::Errno;

use crate::request::{Request, RequestError};
use crate::socket::Socket;

/// `NFNL_SUBSYS_ULOG`.
const SUBSYSTEM: u16 = 4 << 8;

const NFULNL_MSG_CONFIG: u16 = 1;
const NFULA_CFG_CMD: u16 = 1;
const NFULNL_CFG_CMD_BIND: u8 = 1;

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
        let object = format!("NFLOG group {number}");
        let request = Request::new("take", &object, SUBSYSTEM | NFULNL_MSG_CONFIG, |it| {
            it.u8(NFULA_CFG_CMD, NFULNL_CFG_CMD_BIND);
        });
        let [high, low] = number.to_be_bytes();
        let request = request.first([0, 0, high, low]);
        let mut socket = Socket::netfilter().map_err(|it| request.failed(it))?;
        match request.ask(&mut socket, &mut |_| {}) {
            Ok(()) => Ok(Some(Self(socket))),
            // The same two errors that name a group of another socket; `EPERM` also without the
            // capability.
            Err(error) if matches!(error.errno(), Some(Errno::EPERM | Errno::EBUSY)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
