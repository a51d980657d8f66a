//! Lists addresses.

use std::net::IpAddr;

use nix::sys::socket::SockProtocol;

use sluice_netlink::Family;
use sluice_netlink::message::Message;
use sluice_netlink::request::{Request, RequestError};
use sluice_netlink::socket::{Socket, SocketError};

use super::{RTM_GETADDR, RTM_NEWADDR};

/// `ifaddrmsg { u8 family, u8 prefix length, u8 flags, u8 scope, u32 interface }`.
const HEADER: usize = 8;
const INDEX_OFFSET: usize = 4;

pub(crate) const IFA_ADDRESS: u16 = 1;
pub(crate) const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
pub(crate) const IFA_RT_PRIORITY: u16 = 9;

const IFA_F_OPTIMISTIC: u32 = 0x04;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;

/// Attempts to list the addresses when they change during the listing.
const ATTEMPTS: usize = 16;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The address of this machine, also on a link between two machines.
    pub ip: IpAddr,
    /// Index of the interface.
    pub interface: u32,
    /// The machine accepts packets to it, and programs can bind it. Not so while the uniqueness of an
    /// IPv6 address is not proven (RFC 4862: tentative), or when it is refuted.
    pub is_usable: bool,
    /// It is the source of packets only when there is no other (RFC 4862).
    pub is_deprecated: bool,
    /// Metric of the routes that follow from it; 0 is the kernel's usual one (Linux 4.18).
    pub metric: u32,
}

impl Address {
    /// `None` when the message is not about an IPv4 or IPv6 address.
    fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != RTM_NEWADDR {
            return None;
        }
        let attrs = message.attrs_at(HEADER);
        let found = attrs.find(IFA_LOCAL).or_else(|| attrs.find(IFA_ADDRESS))?;
        let flags = attrs.u32_ne(IFA_FLAGS)?;
        let unproven = flags & IFA_F_TENTATIVE != 0 && flags & IFA_F_OPTIMISTIC == 0;
        Some(Self {
            ip: Family::from_number(message.family())?.address(found.value)?,
            interface: message.u32_at(INDEX_OFFSET)?,
            is_usable: !unproven && flags & IFA_F_DADFAILED == 0,
            is_deprecated: flags & IFA_F_DEPRECATED != 0,
            metric: attrs.u32_ne(IFA_RT_PRIORITY).unwrap_or_default(),
        })
    }
}

/// Every address in the network namespace of the calling thread, loopback included.
///
/// # Errors
/// Any [`RequestError`]; [`RequestError::Interrupted`] when the addresses changed during 16 listings.
pub fn addresses() -> Result<Vec<Address>, RequestError> {
    // The header is four bytes longer than that of netfilter.
    let request = Request::new("list", "addresses", RTM_GETADDR, |it| it.raw(&[0; 4]));
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

pub(crate) fn open() -> Result<Socket, SocketError> {
    Socket::open(SockProtocol::NetlinkRoute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sluice_netlink::attr::AttrWriter;

    fn decode(family: i32, fill: impl FnOnce(&mut AttrWriter)) -> Option<Address> {
        let mut writer = AttrWriter::new();
        let family = u8::try_from(family).expect("a small number");
        writer.raw(&[family, 64, 0, 0, 1, 0, 0, 0]);
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
            let found = decode(libc::AF_INET6, |it| {
                it.bytes(IFA_ADDRESS, &[1; 16]);
                it.u32_ne(IFA_FLAGS, flags | 0x100);
            });
            let found = found.map(|it| (it.is_usable, it.is_deprecated));
            assert_eq!(found, Some((expected, is_deprecated)), "{flags:#x}");
        }
    }

    #[test]
    fn the_local_address_of_a_link_between_two_machines_counts() {
        let found = decode(libc::AF_INET, |it| {
            it.u32_ne(IFA_FLAGS, 0x80);
            it.bytes(IFA_ADDRESS, &[10, 0, 0, 2]);
            it.bytes(IFA_LOCAL, &[10, 0, 0, 1]);
        });
        assert_eq!(found.map(|it| it.ip), Some(IpAddr::from([10, 0, 0, 1])));
    }

    fn bytes_and_flags(writer: &mut AttrWriter, bytes: &[u8]) {
        writer.u32_ne(IFA_FLAGS, 0x80);
        writer.bytes(IFA_LOCAL, bytes);
    }

    #[test]
    fn other_addresses_are_left_out() {
        assert_eq!(
            decode(libc::AF_PHONET, |it| bytes_and_flags(it, &[1])),
            None
        );
        assert_eq!(
            decode(libc::AF_INET, |it| bytes_and_flags(it, &[1, 2])),
            None
        );
        assert_eq!(decode(libc::AF_INET, |it| it.u32_ne(IFA_FLAGS, 0x80)), None);
    }

    proptest! {
        #[test]
        fn never_panics_on_random_messages(kind in 19_u16..22, body in prop::collection::vec(0_u8..24, 0..60)) {
            let message = Message { kind, flags: 0, sequence: 0, port: 0, body: &body };
            let _ = Address::decode(&message);
        }
    }
}
