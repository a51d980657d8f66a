//! Firewall marks of near clients.
//!
//! A virtual server has one list of real servers. Where clients on this node get other endpoints than
//! remote clients, they have a virtual server of their own. The kernel finds it by the mark of the packet
//! before it looks at its address (`ip_vs_service_find`, `ip_vs_ctl.c`), and compares the whole mark.
//!
//! ```text
//! bit   31     26 25    24 23            16 15 14 13                        0
//!       [ tag    ][protocol][ number, upper ] 0  0 [ number, lower part       ]
//!                                             │  └ masquerade (or where the operator put it)
//!                                             └ "drop" of older kubelets
//! ```
//!
//! The mark has the protocol because the kernel does not list it for such a virtual server, and only
//! real servers of TCP drain. The number is a hash of the name of the service port, so it is the same
//! after a restart. Where two hashes are equal, the later port takes the next free number; a mark in the
//! kernel's sets is kept.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use sluice_model::Protocol;
use sluice_plan::PortKey;

/// The bit by which kubelet used to mark what is to be dropped (`--iptables-drop-bit`).
const DROP_BIT: u32 = 0x8000;

/// Bits of the number.
const NUMBER_BITS: u32 = 22;

/// Bits above it that say which protocol.
const PROTOCOL_BITS: u32 = 2;

/// The value of these bits: the index in this list.
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// The value of the bits above both, in every mark of ours.
const TAG: u32 = 0b01_0110;

/// The marks that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkLayout {
    /// Bits that no mark of ours has.
    reserved: u32,
}

impl MarkLayout {
    /// Marks that leave out the masquerade mark.
    pub fn beside(masquerade_mark: u32) -> Self {
        Self {
            reserved: masquerade_mark | DROP_BIT,
        }
    }

    /// The value of the tag, and the bits that have it.
    pub fn tag(self) -> (u32, u32) {
        let below = self.spread(u64::from((1_u32 << (NUMBER_BITS + PROTOCOL_BITS)) - 1));
        (
            self.spread(u64::from(TAG) << (NUMBER_BITS + PROTOCOL_BITS)),
            !below,
        )
    }

    /// The protocol of packets with this mark; `None` when it is not ours.
    pub fn protocol(self, mark: u32) -> Option<Protocol> {
        let bits = self.spread(u64::from((1_u32 << PROTOCOL_BITS) - 1) << NUMBER_BITS);
        let (value, mask) = self.tag();
        let mut all = PROTOCOLS.into_iter();
        all.find(|it| mark & (mask | bits) == value | self.mark(*it, 0) & bits)
    }

    fn mark(self, protocol: Protocol, number: u32) -> u32 {
        let place = PROTOCOLS.iter().position(|it| *it == protocol);
        let upper = u64::from(TAG) << PROTOCOL_BITS | place.unwrap_or_default() as u64;
        self.spread(upper << NUMBER_BITS | u64::from(number))
    }

    /// Puts bits, lowest first, where no reserved one is.
    fn spread(self, mut bits: u64) -> u32 {
        let mut mark = 0;
        for position in 0..u32::BITS {
            let bit = 1 << position;
            if self.reserved & bit == 0 {
                mark |= if bits & 1 == 1 { bit } else { 0 };
                bits >>= 1;
            }
        }
        mark
    }
}

/// The service ports that have marks.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    owners: BTreeMap<u32, PortKey>,
}

impl Marks {
    /// The mark of a service port: the one it had if that is free, else the first free one from its hash
    /// on.
    pub(crate) fn claim(&mut self, layout: MarkLayout, port: &PortKey, had: Option<u32>) -> u32 {
        let numbers = 1_u32 << NUMBER_BITS;
        let start = number(port);
        let protocol = port.name.protocol;
        let numbered = (0..numbers).map(|step| layout.mark(protocol, (start + step) % numbers));
        let had = had.filter(|mark| layout.protocol(*mark) == Some(protocol));
        let is_free = |mark: &u32| self.owners.get(mark).is_none_or(|owner| owner == port);
        let mark = had.into_iter().chain(numbered).find(is_free);
        let mark = mark.unwrap_or_else(|| layout.mark(protocol, start));
        self.owners.insert(mark, port.clone());
        mark
    }

    /// The mark is free again.
    pub(crate) fn release(&mut self, mark: u32) {
        self.owners.remove(&mark);
    }
}

/// The hash of the name of a service port. The family is part of it, so that the two virtual servers of
/// one port differ in a listing.
fn number(port: &PortKey) -> u32 {
    let PortKey { name, family } = port;
    let text = format!("{name}/{}/{family}", name.protocol);
    let digest = Sha256::digest(text.as_bytes());
    let [a, b, c, ..] = digest[..] else { return 0 };
    u32::from_be_bytes([0, a, b, c]) % (1 << NUMBER_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::{IpFamily, NamespacedName, Protocol, ServicePortName};

    fn port(name: &str) -> PortKey {
        PortKey {
            name: ServicePortName {
                service: NamespacedName::new("default", name),
                port: "http".into(),
                protocol: Protocol::Tcp,
            },
            family: IpFamily::V4,
        }
    }

    #[test]
    fn marks_keep_clear_of_bits_that_mean_something() {
        for masquerade in [0x4000, 0x1, 0x8000, 0x8000_0000, 0x100_0000] {
            let layout = MarkLayout::beside(masquerade);
            let (value, mask) = layout.tag();
            for number in [0, 1, 0x3fff, 0x4000, 0x3f_ffff] {
                for protocol in PROTOCOLS {
                    let mark = layout.mark(protocol, number);
                    assert_eq!(
                        mark & (masquerade | DROP_BIT),
                        0,
                        "{masquerade:#x} {mark:#x}"
                    );
                    assert_eq!(mark & mask, value, "{masquerade:#x} {mark:#x}");
                    let said = layout.protocol(mark);
                    assert_eq!(said, Some(protocol), "{masquerade:#x} {mark:#x}");
                }
            }
            let mark = layout.mark(Protocol::Udp, 1);
            for other in [0, masquerade, DROP_BIT, mark | masquerade, mark | DROP_BIT] {
                assert_eq!(layout.protocol(other), None, "{masquerade:#x} {other:#x}");
            }
        }
        let marks = PROTOCOLS.map(|it| MarkLayout::beside(0x4000).mark(it, 1));
        assert_eq!(marks, [0x5800_0001, 0x5900_0001, 0x5a00_0001]);
        let no_protocol = MarkLayout::beside(0x4000).protocol(0x5b00_0001);
        assert_eq!(no_protocol, None);
    }

    #[test]
    fn a_mark_stays_and_two_ports_never_share_one() {
        let layout = MarkLayout::beside(0x4000);
        let mut marks = Marks::default();
        let first = marks.claim(layout, &port("a"), None);
        assert_eq!(marks.claim(layout, &port("a"), None), first, "stable");
        let taken = marks.claim(layout, &port("b"), Some(first));
        assert_ne!(taken, first, "taken by another");
        assert_eq!(marks.claim(layout, &port("b"), Some(taken)), taken);
        marks.release(first);
        assert_eq!(marks.claim(layout, &port("c"), Some(first)), first);
        assert_ne!(marks.claim(layout, &port("a"), None), first);
    }
}
