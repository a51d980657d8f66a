//! Listing addresses.

use std::net::IpAddr;

use crate::attr::Attrs;
use crate::message::Message;
use crate::request::{Request, RequestError};
use crate::socket::{Socket, SocketError};

use super::{RTM_GETADDR, RTM_NEWADDR};

/// `ifaddrmsg { u8 family, u8 prefix length, u8 flags, u8 scope, u32 interface }`.
const HEADER: usize = 8;
const FLAGS_OFFSET: usize = 2;

pub(super) const IFA_ADDRESS: u16 = 1;
pub(super) const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;

/// Where the interface stands in the header.
const INDEX_OFFSET: usize = 4;
const IFA_F_OPTIMISTIC: u32 = 0x04;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;

/// How often a list that changed while it was read is asked for again.
const ATTEMPTS: usize = 16;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The machine's own end, also of a link between two.
    pub ip: IpAddr,
    /// Index of the interface.
    pub interface: u32,
    /// Packets to it are taken in and it can be bound. Not so for an IPv6 address whose
    /// uniqueness is not established (RFC 4862: tentative) or refuted.
    pub is_usable: bool,
    /// It is the source of packets only where there is no other (RFC 4862).
    pub is_deprecated: bool,
}

impl Address {
    /// `None` when the message is no IPv4 or IPv6 address.
    fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != RTM_NEWADDR {
            return None;
        }
        let attrs = Attrs::new(message.body.get(HEADER..)?);
        let found = attrs.find(IFA_LOCAL).or_else(|| attrs.find(IFA_ADDRESS))?;
        let ip = match i32::from(message.family()) {
            libc::AF_INET => IpAddr::from(*found.value.first_chunk::<4>()?),
            libc::AF_INET6 => IpAddr::from(*found.value.first_chunk::<16>()?),
            _ => return None,
        };
        let short = u32::from(*message.body.get(FLAGS_OFFSET)?);
        let flags = attrs.find(IFA_FLAGS).and_then(|it| it.u32_ne());
        let flags = flags.unwrap_or(short);
        let unproven = flags & IFA_F_TENTATIVE != 0 && flags & IFA_F_OPTIMISTIC == 0;
        let interface = message.body.get(INDEX_OFFSET..)?.first_chunk::<4>()?;
        Some(Self {
            ip,
            interface: u32::from_ne_bytes(*interface),
            is_usable: !unproven && flags & IFA_F_DADFAILED == 0,
            is_deprecated: flags & IFA_F_DEPRECATED != 0,
        })
    }
}

/// Every address in the network namespace of the calling thread, loopback included.
///
/// # Errors
/// [`RequestError::Interrupted`] when the addresses never hold still; any other when there is no
/// rtnetlink.
pub fn addresses() -> Result<Vec<Address>, RequestError> {
    let request = Request {
        operation: "list",
        object: "addresses",
        kind: RTM_GETADDR,
        family: 0,
        // The header of a request is as long as that of netfilter; here it is four bytes longer.
        attrs: &|it| it.raw(&[0; 4]),
    };
    let mut socket = open().map_err(|source| request.failed(source))?;
    let mut buffer = Vec::new();
    let mut attempt = || {
        let mut found = Vec::new();
        request.dump(&mut socket, &mut buffer, &mut |message| {
            found.extend(Address::decode(message));
        })?;
        Ok(found)
    };
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(RequestError::Interrupted { .. }) => {}
            result => return result,
        }
    }
    attempt()
}

pub(super) fn open() -> Result<Socket, SocketError> {
    Socket::subscribed(nix::sys::socket::SockProtocol::NetlinkRoute, 0, &mut [])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::AttrWriter;
    use proptest::prelude::*;

    fn decode(family: i32, short_flags: u8, fill: impl FnOnce(&mut AttrWriter)) -> Option<Address> {
        let mut writer = AttrWriter::new();
        let family = u8::try_from(family).expect("a small number");
        writer.raw(&[family, 64, short_flags, 0, 1, 0, 0, 0]);
        fill(&mut writer);
        Address::decode(&Message {
            kind: RTM_NEWADDR,
            flags: 0,
            sequence: 0,
            port: 0,
            body: writer.as_bytes(),
        })
    }

    #[test]
    fn an_address_is_usable_when_it_is_proven_or_presumed_unique() {
        let cases = [
            (0x80, true),
            (IFA_F_DEPRECATED, true),
            (IFA_F_TENTATIVE, false),
            (IFA_F_TENTATIVE | IFA_F_OPTIMISTIC, true),
            (IFA_F_TENTATIVE | IFA_F_DADFAILED, false),
            (IFA_F_DADFAILED, false),
        ];
        for (flags, expected) in cases {
            let is_deprecated = flags == IFA_F_DEPRECATED;
            let short = u8::try_from(flags).expect("the old flags");
            let long = decode(libc::AF_INET6, 0, |it| {
                it.bytes(IFA_ADDRESS, &[1; 16]);
                it.u32_ne(IFA_FLAGS, flags | 0x100);
            });
            let old = decode(libc::AF_INET6, short, |it| {
                it.bytes(IFA_ADDRESS, &[1; 16]);
            });
            for found in [long, old] {
                let found = found.map(|it| (it.is_usable, it.is_deprecated));
                assert_eq!(found, Some((expected, is_deprecated)), "{flags:#x}");
            }
        }
    }

    #[test]
    fn of_a_link_between_two_our_own_end_counts() {
        let found = decode(libc::AF_INET, 0x80, |it| {
            it.bytes(IFA_ADDRESS, &[10, 0, 0, 2]);
            it.bytes(IFA_LOCAL, &[10, 0, 0, 1]);
        });
        assert_eq!(found.map(|it| it.ip), Some(IpAddr::from([10, 0, 0, 1])));
    }

    #[test]
    fn what_is_no_ip_address_is_none() {
        assert_eq!(
            decode(libc::AF_PHONET, 0, |it| it.bytes(IFA_LOCAL, &[1])),
            None
        );
        assert_eq!(
            decode(libc::AF_INET, 0, |it| it.bytes(IFA_LOCAL, &[1, 2])),
            None
        );
        assert_eq!(decode(libc::AF_INET, 0, |_| ()), None);
    }

    proptest! {
        #[test]
        fn never_panics_on_random_messages(kind in 19_u16..22, body in prop::collection::vec(0_u8..24, 0..60)) {
            let message = Message { kind, flags: 0, sequence: 0, port: 0, body: &body };
            let _ = Address::decode(&message);
        }
    }
}
