//! Tables, chains, rules, sets and elements as values.

mod decode;
mod encode;

use std::ops::BitOr;

use super::expr::Expr;
use super::value::DataRef;

pub(crate) use decode::counted;
pub(crate) use encode::{put_comment, put_element, put_table_name};

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table {
    /// At most 255 bytes.
    pub name: String,
    /// Shown by `nft list`; cut at 127 bytes.
    pub comment: Option<String>,
    /// `flags dormant`: the kernel has taken its base chains from their hooks, so that no packet sees them.
    pub is_dormant: bool,
}

/// The type of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChainKind {
    /// Sees every packet.
    Filter,
    /// Sees the first packet of a connection and may translate its addresses.
    Nat,
    /// As `Filter`, and the kernel routes changed packets again.
    Route,
}

/// The hook of a base chain; the numbers are `NF_INET_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookPoint {
    /// Before routing.
    Prerouting = 0,
    /// Packets to a local socket.
    Input = 1,
    /// Packets through this node.
    Forward = 2,
    /// Packets from a local socket.
    Output = 3,
    /// Before the packet leaves.
    Postrouting = 4,
}

/// The verdict at the end of a base chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Accept the packet.
    #[default]
    Accept,
    /// Drop the packet.
    Drop,
}

/// Type, hook, priority and policy of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hook {
    /// Type of the chain.
    pub kind: ChainKind,
    /// The hook.
    pub point: HookPoint,
    /// Chains of lower numbers come first; `dstnat` is -100, `filter` 0, `srcnat` 100.
    pub priority: i32,
    /// The verdict of packets that no rule decided.
    pub policy: Policy,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chain {
    /// At most 255 bytes.
    pub name: String,
    /// `None`: only goto and jump lead to the chain.
    pub hook: Option<Hook>,
    /// Shown by `nft list`; cut at 127 bytes.
    pub comment: Option<String>,
}

/// A rule at the end of its chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KernelRule {
    /// The name of its chain.
    pub chain: String,
    /// At most 128 (`NFT_RULE_MAXEXPRS`).
    pub exprs: Vec<Expr>,
    /// Shown by `nft list`; cut at 127 bytes.
    pub comment: Option<String>,
}

/// Properties of a set (`NFT_SET_*`); `MAP` is implied by [`Set::data`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetFlags(u32);

impl SetFlags {
    /// Only transactions change the set.
    pub const NONE: Self = Self(0);
    /// Elements are ranges.
    pub const INTERVAL: Self = Self(0x4);
    /// Elements carry data.
    pub const MAP: Self = Self(0x8);
    /// Elements may expire.
    pub const TIMEOUT: Self = Self(0x10);
    /// Rules add elements (`flags dynamic`).
    pub const DYNAMIC: Self = Self(0x20);
    /// Keys are ranges in each of several fields.
    pub const CONCAT: Self = Self(0x80);

    /// The flags of a number. Unknown bits stay, so that they show as a difference.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The number in requests.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for SetFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The data of the elements of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetData {
    Verdict,
    Value {
        /// `nft`'s number of the data type; concatenations are `(a << 6) | b`.
        type_id: u32,
        /// Bytes of the value in registers.
        length: u32,
    },
}

/// A set or a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Set {
    /// At most 255 bytes.
    pub name: String,
    /// Properties, without `MAP`: `data` implies it.
    pub flags: SetFlags,
    /// `nft`'s number of the key's data type; concatenations are `(a << 6) | b`. The kernel only
    /// stores it.
    pub key_type: u32,
    /// Bytes of the key in registers; each field of a concatenation is padded to four.
    pub key_length: u32,
    /// `None`: a set of keys.
    pub data: Option<SetData>,
    /// Timeout in milliseconds of elements without a timeout of their own.
    pub timeout_ms: Option<u64>,
    /// The most elements. Necessary when rules add elements.
    pub size: Option<u32>,
    /// Bytes of each field of the key before padding, in sets with [`SetFlags::CONCAT`] and in no
    /// other: the kernel refuses one without the other (`nf_tables_newset`), also when the key is
    /// a concatenation that is looked up as a whole.
    pub field_lengths: Vec<u32>,
    /// Every element counts the packets whose lookup found it. The kernel adds the counter to each new
    /// element.
    pub counter: bool,
    /// Descriptions for `nft` (`typeof`), in the format of [`super::push_tlv`], without comment.
    pub userdata: Vec<u8>,
    /// Shown by `nft list`; cut at 127 bytes.
    pub comment: Option<String>,
}

/// An element of a set or map, borrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ElementRef<'a> {
    /// The key as in registers, exactly of the set's key length. Empty for the catch-all element, which
    /// every other key finds (Linux 5.13).
    pub key: &'a [u8],
    /// The last key of a range, in sets with [`SetFlags::CONCAT`].
    pub key_end: Option<&'a [u8]>,
    /// The data of a map element; `None` in a set.
    pub data: Option<DataRef<'a>>,
    /// Whether this is the first key after a range, only in sets with [`SetFlags::INTERVAL`].
    pub interval_end: bool,
    /// Timeout in milliseconds; `None` is the timeout of the set.
    pub timeout_ms: Option<u64>,
    /// Shown by `nft list`; cut at 127 bytes.
    pub comment: Option<&'a str>,
    /// Packets whose lookup found the element, in sets with [`Set::counter`]; only in listings.
    pub packets: Option<u64>,
}

#[cfg(test)]
mod tests;
