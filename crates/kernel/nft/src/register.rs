//! Registers of the nf_tables virtual machine.

use super::uapi;

/// One of the sixteen 4-byte registers, or the verdict register.
///
/// A value longer than four bytes occupies the next registers too. The kernel accepts two
/// numberings, `NFT_REG_1..4` (16 bytes each) and `NFT_REG32_00..15`, and lists an aligned register
/// in the first one, whatever the request had (`nft_dump_register`, `net/netfilter/nf_tables_api.c`).
/// A `Register` is the same value for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(u32);

impl Register {
    /// The verdict register; the destination of a lookup in a verdict map.
    pub const VERDICT: Self = Self(uapi::NFT_REG_VERDICT);

    /// The 4-byte register `index`, 0..=15 (`NFT_REG32_00 + index`).
    ///
    /// # Panics
    /// When there is no such register; in a `const` that is a compile error.
    #[must_use]
    pub const fn word(index: u32) -> Self {
        assert!(index < 16, "there are sixteen registers");
        Self(uapi::NFT_REG32_00 + index)
    }

    /// The number in requests.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The register of a number in either numbering; `None` when there is none.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            uapi::NFT_REG_VERDICT => Some(Self::VERDICT),
            1..=4 => Some(Self::word((number - 1) * 4)),
            8..=23 => Some(Self(number)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numberings_name_the_same_register() {
        for (long, word) in [(1, 0), (2, 4), (3, 8), (4, 12)] {
            assert_eq!(Register::from_number(long), Some(Register::word(word)));
        }
        assert_eq!(Register::from_number(0), Some(Register::VERDICT));
        assert_eq!(
            [5, 6, 7, 24, u32::MAX].map(Register::from_number),
            [None; 5]
        );
        for index in 0..16 {
            assert_eq!(
                Register::from_number(Register::word(index).number()),
                Some(Register::word(index))
            );
        }
    }
}
