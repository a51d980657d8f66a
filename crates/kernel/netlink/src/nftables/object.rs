//! Tables, chains, rules, sets and elements as values.

mod decode;
mod encode;

use std::ops::BitOr;

use super::expr::Expr;
use super::value::{DataRef, Verdict};

pub(crate) use encode::{put_element, put_table_name};

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table {
    /// At most 255 bytes.
    pub name: String,
    /// Shown by `nft list`; cut at 127 bytes.
    pub comment: Option<String>,
}

/// What a base chain may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChainKind {
    /// Looks at every packet.
    Filter,
    /// Sees the first packet of a connection and may translate its addresses.
    Nat,
    /// Like `Filter`, and routes again what it changed.
    Route,
}

/// Where a base chain is attached; the numbers are `NF_INET_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookPoint {
    /// Before routing.
    Prerouting = 0,
    /// To a local socket.
    Input = 1,
    /// Through this node.
    Forward = 2,
    /// From a local socket.
    Output = 3,
    /// Before it leaves.
    Postrouting = 4,
}

/// What happens to a packet that reaches the end of a base chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// It goes on.
    #[default]
    Accept,
    /// It ends.
    Drop,
}

/// How a base chain is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hook {
    /// What the chain may do.
    pub kind: ChainKind,
    /// Where it is attached.
    pub point: HookPoint,
    /// Lower comes first; `dstnat` is -100, `filter` 0, `srcnat` 100.
    pub priority: i32,
    /// Fate of packets that no rule decided.
    pub policy: Policy,
}

/// A chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chain {
    /// At most 255 bytes.
    pub name: String,
    /// `None`: packets come only by goto and jump.
    pub hook: Option<Hook>,
    /// Shown by `nft list`; cut at 127 bytes.
    pub comment: Option<String>,
}

/// A rule at the end of its chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The chain that holds it.
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
    /// A plain set, changed only by transactions.
    pub const NONE: Self = Self(0);
    /// Never changes once a rule is bound to it.
    pub const CONSTANT: Self = Self(0x2);
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

    /// The flags of a number; unknown bits are kept so that they show as a difference.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The number that the kernel takes.
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

/// What the elements of a map lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetData {
    /// A verdict.
    Verdict,
    /// A value.
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
    /// Properties. `MAP` is written and read by way of `data`, and never set here.
    pub flags: SetFlags,
    /// `nft`'s number of the key's data type; concatenations are `(a << 6) | b`. The kernel only
    /// stores it.
    pub key_type: u32,
    /// Bytes of the key in registers; each field of a concatenation is padded to four.
    pub key_length: u32,
    /// `None`: a set of keys.
    pub data: Option<SetData>,
    /// Time to live in milliseconds of elements that have none of their own.
    pub timeout_ms: Option<u64>,
    /// Most elements that it may hold; the kernel needs it when rules add elements.
    pub size: Option<u32>,
    /// Bytes of each field of the key before padding, in sets with [`SetFlags::CONCAT`] and in no
    /// other: the kernel refuses one without the other (`nf_tables_newset`), also when the key is
    /// a concatenation that is looked up as a whole.
    pub field_lengths: Vec<u32>,
    /// Every element counts the packets that were looked up and found it; the kernel gives a
    /// counter to each element that is added.
    pub counter: bool,
    /// Descriptions for `nft` (`typeof`), in the format of [`super::push_tlv`], without comment.
    pub userdata: Vec<u8>,
    /// Shown by `nft list`; cut at 127 bytes.
    pub comment: Option<String>,
}

/// An element of a set or map, borrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ElementRef<'a> {
    /// As it lies in registers; exactly the set's key length.
    pub key: &'a [u8],
    /// The last key of a range, in sets with [`SetFlags::CONCAT`].
    pub key_end: Option<&'a [u8]>,
    /// What the key leads to; `None` in a set, and when an element is deleted by its key alone.
    pub data: Option<DataRef<'a>>,
    /// Whether this is the first key after a range, in sets with [`SetFlags::INTERVAL`] alone.
    pub interval_end: bool,
    /// Time to live in milliseconds; `None` is the set's.
    pub timeout_ms: Option<u64>,
    /// Shown by `nft list`; cut at 127 bytes.
    pub comment: Option<&'a str>,
    /// Packets that found it, in sets with [`Set::counter`]; never written.
    pub packets: Option<u64>,
}

/// The data of a map element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ElementData {
    /// The verdict of a verdict map.
    Verdict(Verdict),
    /// The value of a data map, as it lies in registers.
    Value(Vec<u8>),
}

impl ElementData {
    /// The same data, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> DataRef<'_> {
        match self {
            Self::Verdict(verdict) => DataRef::Verdict(verdict.as_ref()),
            Self::Value(value) => DataRef::Value(value),
        }
    }
}

/// An element of a set or map; fields as in [`ElementRef`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "documented at ElementRef")]
pub struct Element {
    pub key: Vec<u8>,
    pub key_end: Option<Vec<u8>>,
    pub data: Option<ElementData>,
    pub interval_end: bool,
    pub timeout_ms: Option<u64>,
    pub comment: Option<String>,
}

impl Element {
    /// The same element, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> ElementRef<'_> {
        ElementRef {
            key: &self.key,
            key_end: self.key_end.as_deref(),
            data: self.data.as_ref().map(ElementData::as_ref),
            interval_end: self.interval_end,
            timeout_ms: self.timeout_ms,
            comment: self.comment.as_deref(),
            packets: None,
        }
    }
}

impl ElementRef<'_> {
    /// The same element with memory of its own.
    #[must_use]
    pub fn to_owned(&self) -> Element {
        Element {
            key: self.key.to_vec(),
            key_end: self.key_end.map(<[u8]>::to_vec),
            data: self.data.map(|data| match data {
                DataRef::Verdict(verdict) => ElementData::Verdict(verdict.to_owned()),
                DataRef::Value(value) => ElementData::Value(value.to_vec()),
            }),
            interval_end: self.interval_end,
            timeout_ms: self.timeout_ms,
            comment: self.comment.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests;
