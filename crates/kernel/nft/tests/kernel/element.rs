//! An element that owns its bytes, to compare the written elements with the listed ones.

use sluice_nft::{DataRef, ElementRef, Verdict};

/// The data of an [`Element`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElementData {
    Verdict(Verdict),
    Value(Vec<u8>),
}

/// Fields as in [`ElementRef`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) key: Vec<u8>,
    pub(crate) key_end: Option<Vec<u8>>,
    pub(crate) data: Option<ElementData>,
    pub(crate) interval_end: bool,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) comment: Option<String>,
}

impl Element {
    pub(crate) fn of(element: &ElementRef<'_>) -> Self {
        Self {
            key: element.key.to_vec(),
            key_end: element.key_end.map(<[u8]>::to_vec),
            data: element.data.map(|it| match it {
                DataRef::Verdict(verdict) => ElementData::Verdict(verdict.to_owned()),
                DataRef::Value(value) => ElementData::Value(value.to_vec()),
            }),
            interval_end: element.interval_end,
            timeout_ms: element.timeout_ms,
            comment: element.comment.map(str::to_owned),
        }
    }

    pub(crate) fn as_ref(&self) -> ElementRef<'_> {
        ElementRef {
            key: &self.key,
            key_end: self.key_end.as_deref(),
            data: self.data.as_ref().map(|it| match it {
                ElementData::Verdict(verdict) => DataRef::Verdict(borrowed(verdict)),
                ElementData::Value(value) => DataRef::Value(value),
            }),
            interval_end: self.interval_end,
            timeout_ms: self.timeout_ms,
            comment: self.comment.as_deref(),
            packets: None,
        }
    }
}

fn borrowed(verdict: &Verdict) -> Verdict<&str> {
    match verdict {
        Verdict::Accept => Verdict::Accept,
        Verdict::Drop => Verdict::Drop,
        Verdict::Return => Verdict::Return,
        Verdict::Goto(chain) => Verdict::Goto(chain),
        Verdict::Jump(chain) => Verdict::Jump(chain),
    }
}
