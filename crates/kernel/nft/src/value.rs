//! Data of a register or a map element: bytes or a verdict (`NFTA_DATA_*`).

use std::fmt::{self, Display};

use sluice_netlink::attr::{Attr, AttrWriter, Attrs};

use super::uapi;

/// The fate of a packet. Displays as nft writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict<Name = String> {
    /// The packet leaves this base chain; later base chains of the hook still see it.
    Accept,
    /// The packet is dropped.
    Drop,
    /// The packet returns to the chain that jumped here.
    Return,
    /// The packet continues in a chain, which returns to the caller of this one.
    Goto(Name),
    /// The packet continues in a chain, which returns to the next rule.
    Jump(Name),
}

impl<Name: Display> Display for Verdict<Name> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept => f.write_str("accept"),
            Self::Drop => f.write_str("drop"),
            Self::Return => f.write_str("return"),
            Self::Goto(chain) => write!(f, "goto {chain}"),
            Self::Jump(chain) => write!(f, "jump {chain}"),
        }
    }
}

impl Verdict<&str> {
    /// The same verdict with a chain name of its own.
    #[must_use]
    pub fn to_owned(self) -> Verdict {
        match self {
            Self::Accept => Verdict::Accept,
            Self::Drop => Verdict::Drop,
            Self::Return => Verdict::Return,
            Self::Goto(chain) => Verdict::Goto(chain.to_owned()),
            Self::Jump(chain) => Verdict::Jump(chain.to_owned()),
        }
    }
}

/// The data of a map element, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataRef<'a> {
    /// The verdict of a verdict map.
    Verdict(Verdict<&'a str>),
    /// The value of a data map, as in registers.
    Value(&'a [u8]),
}

/// Writes a value inside an attribute of this type.
pub(crate) fn put_value(writer: &mut AttrWriter, kind: u16, value: &[u8]) {
    writer.nested(kind, |it| it.bytes(uapi::NFTA_DATA_VALUE, value));
}

/// Writes a verdict inside an attribute of this type.
pub(crate) fn put_verdict(writer: &mut AttrWriter, kind: u16, verdict: &Verdict<impl AsRef<str>>) {
    let (code, chain) = match verdict {
        Verdict::Accept => (uapi::NF_ACCEPT, None),
        Verdict::Drop => (uapi::NF_DROP, None),
        Verdict::Return => (uapi::NFT_RETURN, None),
        Verdict::Goto(chain) => (uapi::NFT_GOTO, Some(chain)),
        Verdict::Jump(chain) => (uapi::NFT_JUMP, Some(chain)),
    };
    writer.nested(kind, |it| {
        it.nested(uapi::NFTA_DATA_VERDICT, |it| {
            it.u32_be(uapi::NFTA_VERDICT_CODE, code.cast_unsigned());
            if let Some(chain) = chain {
                it.string(uapi::NFTA_VERDICT_CHAIN, chain.as_ref());
            }
        });
    });
}

/// Reads the bytes inside a data attribute; `None` when it holds a verdict or nothing.
pub(crate) fn value(attr: Attr<'_>) -> Option<&[u8]> {
    attr.nested().find(uapi::NFTA_DATA_VALUE).map(|it| it.value)
}

/// Reads a value or a verdict; `None` when it is neither, or a verdict that [`Verdict`] lacks.
pub(crate) fn data(attr: Attr<'_>) -> Option<DataRef<'_>> {
    if let Some(value) = value(attr) {
        return Some(DataRef::Value(value));
    }
    let attrs = attr.nested().find(uapi::NFTA_DATA_VERDICT)?.nested();
    let code = attrs.u32_be(uapi::NFTA_VERDICT_CODE)?.cast_signed();
    verdict(code, &attrs).map(DataRef::Verdict)
}

/// The verdict of this code; `None` for one that [`Verdict`] lacks.
pub(crate) fn verdict<'a>(code: i32, attrs: &Attrs<'a>) -> Option<Verdict<&'a str>> {
    let chain = || attrs.str(uapi::NFTA_VERDICT_CHAIN);
    Some(match code {
        uapi::NF_ACCEPT => Verdict::Accept,
        uapi::NF_DROP => Verdict::Drop,
        uapi::NFT_RETURN => Verdict::Return,
        uapi::NFT_GOTO => Verdict::Goto(chain()?),
        uapi::NFT_JUMP => Verdict::Jump(chain()?),
        _ => return None,
    })
}
