//! Packet counters that iptables rules name: the objects of `nfacct`.
//!
//! Numbers and layouts are those of `linux/netfilter/nfnetlink_acct.h`.

use nix::errno::Errno;

use crate::attr::AttrWriter;
use crate::message;
use crate::request::{Request, RequestError, unless};
use crate::socket::{Socket, SocketError};

/// `NFNL_SUBSYS_ACCT`.
const SUBSYSTEM: u16 = 7 << 8;

const NFNL_MSG_ACCT_NEW: u16 = 0;
const NFNL_MSG_ACCT_GET: u16 = 1;
const NFNL_MSG_ACCT_DEL: u16 = 3;

const NFACCT_NAME: u16 = 1;
const NFACCT_PKTS: u16 = 2;

/// Whether the error means that the kernel has no counters. Not for a name longer than 31 bytes,
/// which has the same error.
#[must_use]
pub fn is_absent(error: &RequestError) -> bool {
    matches!(error.errno(), Some(Errno::EINVAL | Errno::EOPNOTSUPP))
}

/// Whether a retry cannot help: the kernel has no counters, or we lack the privilege.
#[must_use]
pub fn is_final(error: &RequestError) -> bool {
    is_absent(error) || error.errno() == Some(Errno::EPERM)
}

/// The counters of one network namespace, the same for IPv4 and IPv6.
#[derive(Debug)]
pub struct Accounts {
    socket: Socket,
}

impl Accounts {
    /// Connects to the counters of the calling thread's network namespace. The first request may
    /// make the kernel load the module.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        Ok(Self {
            socket: Socket::netfilter()?,
        })
    }

    /// Creates a counter that starts at zero. A counter that exists keeps its count.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EINVAL` when the kernel has no
    /// counters, or the name more than 31 bytes.
    pub fn ensure(&mut self, name: &str) -> Result<(), RequestError> {
        // Without `NLM_F_REPLACE`, which would reset an existing counter.
        let flags = message::ACK | message::CREATE;
        let object = object(name);
        let request = request("create", NFNL_MSG_ACCT_NEW, &object, name);
        let result = request.exchange(&mut self.socket, flags, &mut |_| {});
        unless(Errno::EBUSY, result).map(drop)
    }

    /// The packets that a counter counted; `None` when there is no counter of this name.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn packets(&mut self, name: &str) -> Result<Option<u64>, RequestError> {
        let object = object(name);
        let request = request("read", NFNL_MSG_ACCT_GET, &object, name);
        request.find(&mut self.socket, Errno::ENOENT, |it| {
            it.attrs().u64_be(NFACCT_PKTS)
        })
    }

    /// Deletes a counter; `false` when there is no counter of this name.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EBUSY` while a rule uses it.
    pub fn delete(&mut self, name: &str) -> Result<bool, RequestError> {
        let object = object(name);
        let request = request("delete", NFNL_MSG_ACCT_DEL, &object, name);
        let result = request.exchange(&mut self.socket, message::ACK, &mut |_| {});
        unless(Errno::ENOENT, result)
    }
}

fn object(name: &str) -> String {
    format!("nfacct object {name}")
}

fn request<'a>(operation: &'static str, message: u16, object: &'a str, name: &str) -> Request<'a> {
    let put = |it: &mut AttrWriter| it.string(NFACCT_NAME, name);
    Request::new(operation, object, SUBSYSTEM | message, put)
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
    fn a_temporary_error_is_not_final() {
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
