//! Firewall marks of near clients.
//!
//! A virtual server has one list of real servers. Where clients on this node get other endpoints
//! than the rest of the world, they get a virtual server of their own, which the kernel finds by
//! the mark of the packet before it looks at its address (`ip_vs_service_find`, `ip_vs_ctl.c`). It
//! compares the whole mark.
//!
//! ```text
//! bit   31     26 25                     16 15 14 13                        0
//!       [ tag    ][ number, upper part     ] 0  0 [ number, lower part       ]
//!                                            │  └ masquerade (or where the operator put it)
//!                                            └ "drop" of older kubelets
//! ```
//!
//! The number comes from the name of the service port, so it is the same after a restart; where two
//! names meet, the later one takes the next free number, and what the kernel holds wins over both.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use sluice_core::plan::PortKey;

/// The bit by which kubelet used to mark what is to be dropped (`--iptables-drop-bit`).
const DROP_BIT: u32 = 0x8000;

/// Bits of the number.
const NUMBER_BITS: u32 = 24;

/// What every mark of ours says in the bits above the number.
const TAG: u32 = 0b01_0110;

/// Which marks are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkLayout {
    /// Bits that no mark of ours has.
    reserved: u32,
}

impl MarkLayout {
    /// Marks beside this one, which says "masquerade".
    pub fn beside(masquerade_mark: u32) -> Self {
        Self {
            reserved: masquerade_mark | DROP_BIT,
        }
    }

    /// The bits that say whether a mark is ours, and what they are then.
    pub fn tag(self) -> (u32, u32) {
        let number = self.spread(u64::from((1_u32 << NUMBER_BITS) - 1));
        let mask = !number;
        (self.mark(0) & mask, mask)
    }

    /// Whether a virtual server of this mark is ours.
    pub fn owns(self, mark: u32) -> bool {
        let (value, mask) = self.tag();
        mark & mask == value
    }

    fn mark(self, number: u32) -> u32 {
        self.spread(u64::from(TAG) << NUMBER_BITS | u64::from(number))
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

/// Who has which mark.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    owners: BTreeMap<u32, PortKey>,
}

impl Marks {
    /// The mark of a service port: the one it had if nobody else has it now, else the first free
    /// one from where its name leads.
    pub(crate) fn claim(&mut self, layout: MarkLayout, port: &PortKey, had: Option<u32>) -> u32 {
        let numbers = 1_u32 << NUMBER_BITS;
        let start = number(port);
        let numbered = (0..numbers).map(|step| layout.mark((start + step) % numbers));
        let had = had.filter(|mark| layout.owns(*mark));
        let is_free = |mark: &u32| self.owners.get(mark).is_none_or(|owner| owner == port);
        let mark = had.into_iter().chain(numbered).find(is_free);
        let mark = mark.unwrap_or_else(|| layout.mark(start));
        self.owners.insert(mark, port.clone());
        mark
    }

    /// Nobody has the mark any more.
    pub(crate) fn release(&mut self, mark: u32) {
        self.owners.remove(&mark);
    }
}

/// Where the name of a service port leads. The families have tables of their own in the kernel,
/// but one port should have two marks that differ in a listing.
fn number(port: &PortKey) -> u32 {
    let PortKey { name, family } = port;
    let text = format!("{name}/{}/{family}", name.protocol);
    let digest = Sha256::digest(text.as_bytes());
    let [a, b, c, ..] = digest[..] else { return 0 };
    u32::from_be_bytes([0, a, b, c])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_core::model::{IpFamily, NamespacedName, Protocol, ServicePortName};

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
            for number in [0, 1, 0x3fff, 0x4000, 0xff_ffff] {
                let mark = layout.mark(number);
                assert_eq!(
                    mark & (masquerade | DROP_BIT),
                    0,
                    "{masquerade:#x} {mark:#x}"
                );
                assert!(layout.owns(mark), "{masquerade:#x} {mark:#x}");
            }
            for other in [0, masquerade, DROP_BIT, masquerade | DROP_BIT] {
                assert!(!layout.owns(other), "{masquerade:#x} {other:#x}");
            }
        }
        assert_eq!(MarkLayout::beside(0x4000).mark(0), 0x5800_0000);
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
