//! Addresses of both families in one form.

use crate::layout;

/// An IPv4 or IPv6 address as 16 bytes in network order. IPv4 addresses are mapped: `::ffff:a.b.c.d`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Addr {
    /// The bytes of the address, four in each word as they lie in memory.
    pub words: [u32; 4],
}

layout!(Addr, 16, words @ 0);

/// The third word of mapped IPv4 addresses.
const MAPPED: u32 = 0x0000_ffff_u32.to_be();

impl Addr {
    /// The unspecified IPv6 address. It stands for "every address" of IPv6 where that has a meaning.
    pub const ANY_V6: Self = Self { words: [0; 4] };
    /// The unspecified IPv4 address, mapped. It stands for "every address" of IPv4.
    pub const ANY_V4: Self = Self::v4(0);

    /// An IPv4 address from its word as it lies in the packet.
    #[must_use]
    #[inline(always)]
    pub const fn v4(word: u32) -> Self {
        Self {
            words: [0, 0, MAPPED, word],
        }
    }

    /// Whether the address is a mapped IPv4 address.
    #[must_use]
    #[inline(always)]
    pub const fn is_v4(&self) -> bool {
        self.words[0] == 0 && self.words[1] == 0 && self.words[2] == MAPPED
    }

    /// Copies another address word by word: for an assignment between maps the compiler would call `memmove`.
    #[inline(always)]
    pub const fn set(&mut self, other: &Self) {
        self.words[0] = other.words[0];
        self.words[1] = other.words[1];
        self.words[2] = other.words[2];
        self.words[3] = other.words[3];
    }

    /// The bytes in network order.
    #[must_use]
    pub fn octets(&self) -> [u8; 16] {
        let mut octets = [0; 16];
        for (part, word) in octets.chunks_exact_mut(4).zip(self.words) {
            part.copy_from_slice(&word.to_ne_bytes());
        }
        octets
    }

    /// An address from its bytes in network order.
    #[must_use]
    pub fn from_octets(octets: [u8; 16]) -> Self {
        let mut words = [0; 4];
        for (word, part) in words.iter_mut().zip(octets.chunks_exact(4)) {
            *word = u32::from_ne_bytes([part[0], part[1], part[2], part[3]]);
        }
        Self { words }
    }
}

impl From<core::net::IpAddr> for Addr {
    fn from(ip: core::net::IpAddr) -> Self {
        match ip {
            core::net::IpAddr::V4(ip) => Self::v4(u32::from_ne_bytes(ip.octets())),
            core::net::IpAddr::V6(ip) => Self::from_octets(ip.octets()),
        }
    }
}

impl From<Addr> for core::net::IpAddr {
    fn from(addr: Addr) -> Self {
        if addr.is_v4() {
            core::net::Ipv4Addr::from(addr.words[3].to_ne_bytes()).into()
        } else {
            core::net::Ipv6Addr::from(addr.octets()).into()
        }
    }
}
