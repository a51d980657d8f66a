//! Objects from the messages that the kernel dumps.

use crate::attr::{Attr, Attrs};

use super::super::expr::Expr;
use super::super::uapi;
use super::super::userdata;
use super::super::value;
use super::{
    Chain, ChainKind, ElementRef, Hook, HookPoint, Policy, Rule, Set, SetData, SetFlags, Table,
};

fn text(attrs: &Attrs<'_>, kind: u16) -> Option<String> {
    attrs.find(kind)?.str().map(str::to_owned)
}

fn number(attrs: &Attrs<'_>, kind: u16) -> Option<u32> {
    attrs.find(kind)?.u32_be()
}

fn comment(attrs: &Attrs<'_>, kind: u16) -> Option<String> {
    userdata::comment(attrs.find(kind)?.value, userdata::COMMENT).map(str::to_owned)
}

impl Table {
    /// Reads the attributes of `NFT_MSG_NEWTABLE`; `None` without a name.
    #[must_use]
    pub fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        Some(Self {
            name: text(attrs, uapi::NFTA_TABLE_NAME)?,
            comment: comment(attrs, uapi::NFTA_TABLE_USERDATA),
        })
    }
}

impl Chain {
    /// Reads the attributes of `NFT_MSG_NEWCHAIN`; `None` without a name, or with a hook that
    /// this type cannot say.
    #[must_use]
    pub fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let hook = match attrs.find(uapi::NFTA_CHAIN_HOOK) {
            Some(hook) => Some(Hook::decode(&hook.nested(), attrs)?),
            None => None,
        };
        Some(Self {
            name: text(attrs, uapi::NFTA_CHAIN_NAME)?,
            hook,
            comment: comment(attrs, uapi::NFTA_CHAIN_USERDATA),
        })
    }
}

impl Hook {
    fn decode(hook: &Attrs<'_>, chain: &Attrs<'_>) -> Option<Self> {
        let name = chain.find(uapi::NFTA_CHAIN_TYPE)?.str()?;
        Some(Self {
            kind: [ChainKind::Filter, ChainKind::Nat, ChainKind::Route]
                .into_iter()
                .find(|it| it.name() == name)?,
            point: match number(hook, uapi::NFTA_HOOK_HOOKNUM)? {
                0 => HookPoint::Prerouting,
                1 => HookPoint::Input,
                2 => HookPoint::Forward,
                3 => HookPoint::Output,
                4 => HookPoint::Postrouting,
                _ => return None,
            },
            priority: number(hook, uapi::NFTA_HOOK_PRIORITY)?.cast_signed(),
            policy: match number(chain, uapi::NFTA_CHAIN_POLICY)
                .map_or(uapi::NF_ACCEPT, u32::cast_signed)
            {
                uapi::NF_ACCEPT => Policy::Accept,
                _ => Policy::Drop,
            },
        })
    }
}

impl Rule {
    /// Reads the attributes of `NFT_MSG_NEWRULE`; `None` without a chain.
    #[must_use]
    pub fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let exprs = attrs.find(uapi::NFTA_RULE_EXPRESSIONS);
        Some(Self {
            chain: text(attrs, uapi::NFTA_RULE_CHAIN)?,
            exprs: exprs.map_or(Vec::new(), |it| it.nested().map(Expr::from_attr).collect()),
            comment: comment(attrs, uapi::NFTA_RULE_USERDATA),
        })
    }
}

impl Set {
    /// Reads the attributes of `NFT_MSG_NEWSET`; `None` without a name.
    #[must_use]
    pub fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let description = attrs
            .find(uapi::NFTA_SET_DESC)
            .map_or(Attrs::new(&[]), |it| it.nested());
        let flags = number(attrs, uapi::NFTA_SET_FLAGS).unwrap_or_default();
        let userdata = attrs
            .find(uapi::NFTA_SET_USERDATA)
            .map(|it| it.value)
            .unwrap_or_default();
        Some(Self {
            name: text(attrs, uapi::NFTA_SET_NAME)?,
            flags: SetFlags::from_bits(flags & !SetFlags::MAP.bits()),
            key_type: number(attrs, uapi::NFTA_SET_KEY_TYPE).unwrap_or_default(),
            key_length: number(attrs, uapi::NFTA_SET_KEY_LEN).unwrap_or_default(),
            data: SetFlags::from_bits(flags)
                .contains(SetFlags::MAP)
                .then(|| SetData::decode(attrs)),
            timeout_ms: attrs
                .find(uapi::NFTA_SET_TIMEOUT)
                .and_then(|it| it.u64_be())
                .filter(|it| *it != 0),
            size: number(&description, uapi::NFTA_SET_DESC_SIZE).filter(|it| *it != 0),
            field_lengths: field_lengths(&description),
            counter: is_counter(attrs.find(uapi::NFTA_SET_EXPR)),
            userdata: without_comment(userdata),
            comment: userdata::comment(userdata, userdata::SET_COMMENT).map(str::to_owned),
        })
    }
}

fn is_counter(expression: Option<Attr<'_>>) -> bool {
    let name = expression.and_then(|it| it.nested().find(uapi::NFTA_EXPR_NAME));
    name.and_then(|it| it.str()) == Some(uapi::COUNTER)
}

/// The packets of a counter; `None` for any other expression.
fn packets(expression: Attr<'_>) -> Option<u64> {
    let data = expression.nested().find(uapi::NFTA_EXPR_DATA)?;
    let packets = data.nested().find(uapi::NFTA_COUNTER_PACKETS)?.u64_be();
    packets.filter(|_| is_counter(Some(expression)))
}

impl SetData {
    fn decode(attrs: &Attrs<'_>) -> Self {
        match number(attrs, uapi::NFTA_SET_DATA_TYPE).unwrap_or_default() {
            uapi::NFT_DATA_VERDICT => Self::Verdict,
            type_id => Self::Value {
                type_id,
                length: number(attrs, uapi::NFTA_SET_DATA_LEN).unwrap_or_default(),
            },
        }
    }
}

fn field_lengths(description: &Attrs<'_>) -> Vec<u32> {
    let fields = description
        .find(uapi::NFTA_SET_DESC_CONCAT)
        .map_or(Attrs::new(&[]), |it| it.nested());
    fields
        .map(|field| number(&field.nested(), uapi::NFTA_SET_FIELD_LEN).unwrap_or_default())
        .collect()
}

fn without_comment(userdata: &[u8]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(userdata.len());
    for (kind, value) in userdata::tlvs(userdata).filter(|it| it.0 != userdata::SET_COMMENT) {
        userdata::push_tlv(&mut rest, kind, value);
    }
    rest
}

impl<'a> ElementRef<'a> {
    /// Reads one element of `NFTA_SET_ELEM_LIST_ELEMENTS`; `None` without a key (catch-all
    /// elements have none) or with data that is neither value nor verdict.
    #[must_use]
    pub fn decode(attr: Attr<'a>) -> Option<Self> {
        let mut element = Self::default();
        let mut has_key = false;
        for attr in attr.nested() {
            match attr.kind {
                uapi::NFTA_SET_ELEM_KEY => (element.key, has_key) = (value::value(attr)?, true),
                uapi::NFTA_SET_ELEM_KEY_END => element.key_end = Some(value::value(attr)?),
                uapi::NFTA_SET_ELEM_DATA => element.data = Some(value::data(attr)?),
                uapi::NFTA_SET_ELEM_TIMEOUT => element.timeout_ms = attr.u64_be(),
                uapi::NFTA_SET_ELEM_USERDATA => {
                    element.comment = userdata::comment(attr.value, userdata::COMMENT)
                }
                uapi::NFTA_SET_ELEM_FLAGS => {
                    element.interval_end = attr.u32_be()? & uapi::NFT_SET_ELEM_INTERVAL_END != 0;
                }
                uapi::NFTA_SET_ELEM_EXPR => element.packets = packets(attr),
                _ => {}
            }
        }
        has_key.then_some(element)
    }
}
