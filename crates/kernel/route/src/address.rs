//! Addresses of interfaces.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use nix::errno::Errno;
use sluice_netlink::attr::AttrWriter;
use sluice_netlink::message::Message;
use sluice_netlink::{Family, RequestError};

use crate::connection::{Connection, Listed, Messages, Object};
use crate::scope::Scope;

/// `ifaddrmsg { u8 family, u8 prefix length, u8 flags, u8 scope, u32 interface }`.
const HEADER: usize = 8;
const PREFIX_OFFSET: usize = 1;
const SCOPE_OFFSET: usize = 3;
const INDEX_OFFSET: usize = 4;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// `ifa_cacheinfo { u32 preferred, u32 valid, u32 created, u32 changed }`, the times in seconds.
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;

const IFA_F_NODAD: u8 = 0x02;
const IFA_F_OPTIMISTIC: u32 = 0x04;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;

/// Deprecated at once, valid for ever.
const NEVER_PREFERRED: [u32; 4] = [0, u32::MAX, 0, 0];

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The address of this machine, not of the other end, also on a link between two machines.
    pub ip: IpAddr,
    /// Bits of the network that is reached through the interface.
    pub prefix: u8,
    /// Index of the interface.
    pub interface: u32,
    /// How far the address is valid. The kernel itself decides the scope of an IPv6 address.
    pub scope: Scope,
    /// The machine accepts packets to it, and programs can bind it. An IPv6 address is not usable while its
    /// uniqueness is not proven (RFC 4862: tentative), or when another machine has it. Only the kernel sets this.
    pub is_usable: bool,
    /// The kernel does not ask other machines on the link whether the address is unique: always true of IPv4.
    pub is_unchecked: bool,
    /// The kernel uses it as a source only when there is no other address (RFC 4862). Only an IPv6 address can be
    /// added like this.
    pub is_deprecated: bool,
    /// Metric of the routes that the kernel adds for the address; 0 is the kernel's default (Linux 4.18).
    pub metric: u32,
}

impl Address {
    /// An address to add, unchecked, with this network.
    #[must_use]
    pub fn new(interface: u32, ip: impl Into<IpNet>) -> Self {
        let net = ip.into();
        Self {
            ip: net.addr(),
            prefix: net.prefix_len(),
            interface,
            scope: Scope::GLOBAL,
            is_usable: true,
            is_unchecked: true,
            is_deprecated: false,
            metric: 0,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address {}", self.ip)
    }
}

impl Listed for Address {
    const PLURAL: &'static str = "addresses";
    const MESSAGES: Messages = Messages::from(20);
    const HEADER: usize = HEADER;

    fn decode(message: &Message<'_>) -> Option<Self> {
        let attrs = message.attrs_at(HEADER);
        let found = attrs.find(IFA_LOCAL).or_else(|| attrs.find(IFA_ADDRESS))?;
        let flags = attrs.u32_ne(IFA_FLAGS)?;
        let unproven = flags & IFA_F_TENTATIVE != 0 && flags & IFA_F_OPTIMISTIC == 0;
        let ip = Family::from_number(message.family())?.address(found.value)?;
        Some(Self {
            ip,
            prefix: *message.body.get(PREFIX_OFFSET)?,
            interface: message.u32_at(INDEX_OFFSET)?,
            scope: Scope(*message.body.get(SCOPE_OFFSET)?),
            is_usable: !unproven && flags & IFA_F_DADFAILED == 0,
            is_unchecked: ip.is_ipv4() || flags & u32::from(IFA_F_NODAD) != 0,
            is_deprecated: flags & IFA_F_DEPRECATED != 0,
            metric: attrs.u32_ne(IFA_RT_PRIORITY).unwrap_or_default(),
        })
    }
}

impl Object for Address {
    const MISSING: Errno = Errno::EADDRNOTAVAIL;

    fn first(&self) -> [u8; 4] {
        let flags = if self.is_unchecked && self.ip.is_ipv6() {
            IFA_F_NODAD
        } else {
            0
        };
        let family = Family::of(self.ip).number();
        [family, self.prefix, flags, self.scope.0]
    }

    fn put(&self, writer: &mut AttrWriter) {
        writer.raw(&self.interface.to_ne_bytes());
        writer.address(IFA_LOCAL, self.ip);
        writer.address(IFA_ADDRESS, self.ip);
        writer.u32_ne(IFA_RT_PRIORITY, Some(self.metric).filter(|it| *it != 0));
        if self.is_deprecated && self.ip.is_ipv6() {
            let times = NEVER_PREFERRED.map(u32::to_ne_bytes).concat();
            writer.bytes(IFA_CACHEINFO, &times);
        }
    }
}

/// Every address in the network namespace of the calling thread, loopback included.
///
/// # Errors
/// Any [`RequestError`]; [`RequestError::Interrupted`] when the addresses changed during 20 listings.
pub fn addresses() -> Result<Vec<Address>, RequestError> {
    Connection::open()?.list()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::listed;
    use proptest::prelude::*;

    fn decode(family: i32, fill: impl FnOnce(&mut AttrWriter)) -> Option<Address> {
        let mut writer = AttrWriter::new();
        let family = u8::try_from(family).expect("a small number");
        writer.raw(&[family, 64, 0, 0, 1, 0, 0, 0]);
        fill(&mut writer);
        listed::<Address>(&Message {
            kind: Address::MESSAGES.new,
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
            let _ = listed::<Address>(&message);
        }
    }
}
