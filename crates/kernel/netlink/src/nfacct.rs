//! Counters of packets that rules of iptables mention by their names: the objects of `nfacct`.
//!
//! Numbers and layouts are those of `linux/netfilter/nfnetlink_acct.h`.

use nix::errno::Errno;

use crate::attr::AttrWriter;
use crate::message;
use crate::request::{Request, RequestError};
use crate::socket::{Socket, SocketError};

/// `NFNL_SUBSYS_ACCT`.
const SUBSYSTEM: u16 = 7;

const NFNL_MSG_ACCT_NEW: u16 = 0;
const NFNL_MSG_ACCT_GET: u16 = 1;
const NFNL_MSG_ACCT_DEL: u16 = 3;

const NFACCT_NAME: u16 = 1;
const NFACCT_PKTS: u16 = 2;

/// Whether an error about a name that is short enough means that the kernel has no counters.
#[must_use]
pub fn is_absent(error: &RequestError) -> bool {
    matches!(error.errno(), Some(Errno::EINVAL | Errno::EOPNOTSUPP))
}

/// Whether asking again is of no use: the kernel has no counters, or we may not use them. Anything
/// else may pass.
#[must_use]
pub fn is_final(error: &RequestError) -> bool {
    is_absent(error) || error.errno() == Some(Errno::EPERM)
}

/// The counters of one network namespace. IPv4 and IPv6 have the same ones.
#[derive(Debug)]
pub struct Accounts {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Accounts {
    /// Connects to the counters of the calling thread's network namespace. The first question
    /// makes a kernel that has them as a module load it.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        Ok(Self {
            socket: Socket::open()?,
            buffer: Vec::new(),
        })
    }

    /// Makes a counter, which begins at zero. One that is there goes on.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EINVAL` when the kernel has no
    /// counters, or the name more than 31 bytes.
    pub fn ensure(&mut self, name: &str) -> Result<(), RequestError> {
        let attrs = |writer: &mut AttrWriter| writer.string(NFACCT_NAME, name);
        let create = Request::of_no_family(
            "create nfacct object",
            name,
            kind(NFNL_MSG_ACCT_NEW),
            &attrs,
        );
        // Without `NLM_F_REPLACE`, which would make it begin anew.
        let flags = message::ACK | message::CREATE;
        match create.exchange(&mut self.socket, &mut self.buffer, flags, &mut |_| {}) {
            Err(RequestError::Refused {
                errno: Errno::EBUSY,
                ..
            }) => Ok(()),
            result => result,
        }
    }

    /// Packets that it has counted; `None` when there is none of this name.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn packets(&mut self, name: &str) -> Result<Option<u64>, RequestError> {
        let mut packets = None;
        let attrs = |writer: &mut AttrWriter| writer.string(NFACCT_NAME, name);
        let ask =
            Request::of_no_family("read nfacct object", name, kind(NFNL_MSG_ACCT_GET), &attrs);
        let result = ask.ask(&mut self.socket, &mut self.buffer, &mut |message| {
            let attr = message.attrs().find(NFACCT_PKTS);
            packets = attr.and_then(|it| it.u64_be());
        });
        match result {
            Err(RequestError::Refused {
                errno: Errno::ENOENT,
                ..
            }) => Ok(None),
            result => result.map(|()| packets),
        }
    }

    /// Removes a counter and tells whether there was one.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EBUSY` when a rule mentions it.
    pub fn delete(&mut self, name: &str) -> Result<bool, RequestError> {
        let attrs = |writer: &mut AttrWriter| writer.string(NFACCT_NAME, name);
        let delete = Request::of_no_family(
            "delete nfacct object",
            name,
            kind(NFNL_MSG_ACCT_DEL),
            &attrs,
        );
        match delete.ask(&mut self.socket, &mut self.buffer, &mut |_| {}) {
            Err(RequestError::Refused {
                errno: Errno::ENOENT,
                ..
            }) => Ok(false),
            result => result.map(|()| true),
        }
    }
}

fn kind(command: u16) -> u16 {
    (SUBSYSTEM << 8) | command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: Errno) -> RequestError {
        RequestError::Refused {
            operation: "read nfacct object",
            object: "some".to_owned(),
            errno,
            message: None,
        }
    }

    #[test]
    fn what_may_pass_is_not_final() {
        for errno in [Errno::EINVAL, Errno::EOPNOTSUPP] {
            let error = refused(errno);
            assert!(is_absent(&error) && is_final(&error), "{errno}");
        }
        let forbidden = refused(Errno::EPERM);
        assert!(!is_absent(&forbidden) && is_final(&forbidden));
        for errno in [Errno::ENOMEM, Errno::EBUSY] {
            let error = refused(errno);
            assert!(!is_absent(&error) && !is_final(&error), "{errno}");
        }
        let failed = RequestError::Socket {
            operation: "read nfacct object",
            object: "some".to_owned(),
            source: SocketError::Overrun,
        };
        assert!(!is_absent(&failed) && !is_final(&failed));
    }
}
