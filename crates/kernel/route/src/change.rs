//! Adds and deletes addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use sluice_netlink::attr::AttrWriter;
use sluice_netlink::bulk::{Bulk, Failure};
use sluice_netlink::message::{self, Head};
use sluice_netlink::request::RequestError;
use sluice_netlink::socket::{Socket, SocketError};

use crate::address::Address;
use crate::connection::{Listed, Object};
use crate::scope::Scope;
use crate::way::is_local;

/// Longest wait for the local route of an address that the kernel acknowledged.
const ROUTE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two requests for the route.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

const IFA_LABEL: u16 = 3;

/// A change of the addresses of an interface. Each address has all its bits as prefix (/32, /128).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressChange {
    /// Adds an address; an existing one is no error. An IPv6 address becomes deprecated, also an
    /// existing one: the kernel uses it as a source for packets to itself, and otherwise only when
    /// there is no other (RFC 6724, rules 1 and 3).
    Add(IpAddr),
    /// Adds an address that means something on this machine alone. An existing one gets the metric; the
    /// scope of an IPv4 address stays what it was. An IPv6 address becomes deprecated.
    AddOwn {
        /// The address.
        ip: IpAddr,
        /// Shown by `ip address`, of an IPv4 address only; at most 15 bytes, the name of the interface and
        /// a colon first.
        label: &'static str,
        /// [`Address::metric`](super::Address::metric), by which the address can be recognised.
        metric: u32,
    },
    /// Deletes an address; a missing one is no error.
    Delete(IpAddr),
}

impl AddressChange {
    fn ip(self) -> IpAddr {
        match self {
            Self::Add(ip) | Self::AddOwn { ip, .. } | Self::Delete(ip) => ip,
        }
    }

    fn name(&self) -> (&'static str, String) {
        let operation = match self {
            Self::Add(_) | Self::AddOwn { .. } => "add address",
            Self::Delete(_) => "delete address",
        };
        (operation, self.ip().to_string())
    }

    /// The address of the change.
    fn address(&self, interface: u32) -> Address {
        let added = Address {
            is_deprecated: self.ip().is_ipv6(),
            ..Address::new(interface, self.ip())
        };
        match *self {
            Self::Add(_) => added,
            Self::AddOwn { metric, .. } => Address {
                scope: Scope::HOST,
                metric,
                ..added
            },
            Self::Delete(_) => Address {
                is_deprecated: false,
                ..added
            },
        }
    }

    fn head(&self) -> Head {
        let (kind, flags) = match self {
            Self::Add(IpAddr::V4(_)) => {
                (Address::MESSAGES.new, message::CREATE | message::EXCLUSIVE)
            }
            Self::Add(IpAddr::V6(_)) | Self::AddOwn { .. } => {
                (Address::MESSAGES.new, message::CREATE | message::REPLACE)
            }
            Self::Delete(_) => (Address::MESSAGES.delete, 0),
        };
        Head {
            kind,
            flags,
            first: self.address(0).first(),
        }
    }

    fn put(&self, interface: u32, writer: &mut AttrWriter) {
        self.address(interface).put(writer);
        if let Self::AddOwn { ip, label, .. } = self
            && ip.is_ipv4()
        {
            writer.string(IFA_LABEL, label);
        }
    }

    fn is_done(&self, errno: Errno) -> bool {
        match self {
            Self::Add(_) | Self::AddOwn { .. } => errno == Errno::EEXIST,
            Self::Delete(_) => errno == Errno::EADDRNOTAVAIL,
        }
    }
}

/// The result of changes.
#[derive(Debug)]
pub struct Applied {
    /// The refused changes, in their order: `ENODEV` when there is no such interface, `EACCES` or
    /// `EOPNOTSUPP` where IPv6 is switched off.
    pub refused: Vec<Failure>,
    /// The first added address that may not accept packets yet; `None` when all do.
    pub late: Option<Late>,
}

/// An added address that may not accept packets yet, nor the addresses that were added after it.
#[derive(Debug)]
pub struct Late {
    /// The first of these addresses.
    pub ip: Ipv6Addr,
    /// The error of asking for the route; `None` when the kernel has no local route after a second.
    pub error: Option<RequestError>,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{error}"),
            None => write!(f, "no local route to {} after {ROUTE_TIMEOUT:?}", self.ip),
        }
    }
}

/// Changes the addresses of interfaces in one network namespace.
#[derive(Debug)]
pub struct Addresses {
    socket: Socket,
}

impl Addresses {
    /// Connects to the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        Ok(Self {
            socket: Socket::open(SockProtocol::NetlinkRoute)?,
        })
    }

    /// Makes the changes in their order, 512 with each system call. The kernel makes the others when it
    /// refuses one. On return the machine accepts packets to the added addresses, unless
    /// [`Applied::late`] tells otherwise.
    ///
    /// # Errors
    /// [`RequestError::Socket`] when it is unknown which changes were made.
    pub fn apply(
        &mut self,
        interface: u32,
        changes: &[AddressChange],
    ) -> Result<Applied, RequestError> {
        let refused = Bulk {
            changes,
            name: &AddressChange::name,
            head: &AddressChange::head,
            attrs: &|change, writer| change.put(interface, writer),
            is_done: &|change, errno| change.is_done(errno),
        }
        .apply(&mut self.socket)?;
        let late = self.settle(changes, &refused)?;
        Ok(Applied { refused, late })
    }

    /// Waits until the machine accepts packets to the added addresses. The kernel acknowledges an
    /// IPv6 address before that: a work queue adds its route, also without the question whether it is
    /// unique (`addrconf_dad_start`, addrconf.c).
    fn settle(
        &mut self,
        changes: &[AddressChange],
        refused: &[Failure],
    ) -> Result<Option<Late>, RequestError> {
        let deadline = Instant::now() + ROUTE_TIMEOUT;
        let mut refused = refused.iter().map(|it| it.index).peekable();
        for (index, change) in changes.iter().enumerate() {
            if refused.next_if_eq(&index).is_some() {
                continue;
            }
            let (AddressChange::Add(IpAddr::V6(ip))
            | AddressChange::AddOwn {
                ip: IpAddr::V6(ip), ..
            }) = *change
            else {
                continue;
            };
            let late = loop {
                match is_local(&mut self.socket, ip) {
                    Ok(true) => break None,
                    #[expect(clippy::disallowed_methods, reason = "the kernel tells nobody")]
                    Ok(false) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
                    Ok(false) => break Some(None),
                    Err(error @ RequestError::Socket { .. }) => return Err(error),
                    Err(error) => break Some(Some(error)),
                }
            };
            if let Some(error) = late {
                return Ok(Some(Late { ip, error }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_header_of_the_kernel() {
        for (ip, first, length) in [
            ("10.96.0.1", [2, 32, 0, 0], 4 + 2 * 8),
            ("fd00::1", [10, 128, 2, 0], 4 + 3 * 20),
        ] {
            let change = AddressChange::Add(ip.parse().unwrap());
            assert_eq!(change.head().first, first, "{ip}");
            let mut writer = AttrWriter::new();
            change.put(7, &mut writer);
            assert_eq!(writer.as_bytes()[..4], 7_u32.to_ne_bytes());
            assert_eq!(writer.len(), length, "{ip}");
        }
    }
}
