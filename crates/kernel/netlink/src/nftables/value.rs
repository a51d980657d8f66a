//! What a register or a map element holds: bytes or a verdict (`NFTA_DATA_*`).

use crate::attr::{Attr, AttrWriter};

use super::uapi;

/// What happens to a packet next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict<Name = String> {
    /// Ends this base chain; later base chains of the hook still see the packet.
    Accept,
    /// Ends the packet.
    Drop,
    /// Goes back to the chain that jumped here.
    Return,
    /// Continues in a chain that returns to whoever called this one.
    Goto(Name),
    /// Continues in a chain and comes back to the next rule.
    Jump(Name),
}

impl<Name: AsRef<str>> Verdict<Name> {
    /// The same verdict with a borrowed chain name.
    #[must_use]
    pub fn as_ref(&self) -> Verdict<&str> {
        match self {
            Self::Accept => Verdict::Accept,
            Self::Drop => Verdict::Drop,
            Self::Return => Verdict::Return,
            Self::Goto(chain) => Verdict::Goto(chain.as_ref()),
            Self::Jump(chain) => Verdict::Jump(chain.as_ref()),
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
    /// The value of a data map, as it lies in registers.
    Value(&'a [u8]),
}

/// Writes a value inside an attribute of this type.
pub(crate) fn put_value(writer: &mut AttrWriter, kind: u16, value: &[u8]) {
    writer.nested(kind, |it| it.bytes(uapi::NFTA_DATA_VALUE, value));
}

/// Writes a value or a verdict inside an attribute of this type.
pub(crate) fn put_data(writer: &mut AttrWriter, kind: u16, data: DataRef<'_>) {
    match data {
        DataRef::Value(value) => put_value(writer, kind, value),
        DataRef::Verdict(verdict) => {
            let nest = writer.begin(kind);
            put_verdict(writer, verdict);
            writer.end(nest);
        }
    }
}

fn put_verdict(writer: &mut AttrWriter, verdict: Verdict<&str>) {
    let (code, chain) = match verdict {
        Verdict::Accept => (uapi::NF_ACCEPT, None),
        Verdict::Drop => (uapi::NF_DROP, None),
        Verdict::Return => (uapi::NFT_RETURN, None),
        Verdict::Goto(chain) => (uapi::NFT_GOTO, Some(chain)),
        Verdict::Jump(chain) => (uapi::NFT_JUMP, Some(chain)),
    };
    let nest = writer.begin(uapi::NFTA_DATA_VERDICT);
    writer.u32_be(uapi::NFTA_VERDICT_CODE, code.cast_unsigned());
    if let Some(chain) = chain {
        writer.string(uapi::NFTA_VERDICT_CHAIN, chain);
    }
    writer.end(nest);
}

/// Reads the bytes inside a data attribute; `None` when it holds a verdict or nothing.
pub(crate) fn value(attr: Attr<'_>) -> Option<&[u8]> {
    attr.nested().find(uapi::NFTA_DATA_VALUE).map(|it| it.value)
}

/// Reads a value or a verdict; `None` when it is neither, or a verdict that has no name here.
pub(crate) fn data(attr: Attr<'_>) -> Option<DataRef<'_>> {
    if let Some(value) = value(attr) {
        return Some(DataRef::Value(value));
    }
    let attrs = attr.nested().find(uapi::NFTA_DATA_VERDICT)?.nested();
    let code = attrs.find(uapi::NFTA_VERDICT_CODE)?.u32_be()?.cast_signed();
    let chain = || attrs.find(uapi::NFTA_VERDICT_CHAIN)?.str();
    Some(DataRef::Verdict(match code {
        uapi::NF_ACCEPT => Verdict::Accept,
        uapi::NF_DROP => Verdict::Drop,
        uapi::NFT_RETURN => Verdict::Return,
        uapi::NFT_GOTO => Verdict::Goto(chain()?),
        uapi::NFT_JUMP => Verdict::Jump(chain()?),
        _ => return None,
    }))
}
