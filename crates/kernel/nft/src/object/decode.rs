//! Objects from the messages that the kernel lists.

use sluice_netlink::attr::{Attr, Attrs};

use super::super::expr::Expr;
use super::super::uapi;
use super::super::userdata;
use super::super::value;
use super::{
    Chain, ChainKind, ElementRef, Hook, HookPoint, KernelRule, Policy, Set, SetData, SetFlags,
    Table,
};

fn comment(attrs: &Attrs<'_>, kind: u16) -> Option<String> {
    userdata::comment(attrs.find(kind)?.value, userdata::COMMENT).map(str::to_owned)
}

impl Table {
    /// Reads the attributes of `NFT_MSG_NEWTABLE`; `None` without a name.
    pub(crate) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        Some(Self {
            name: attrs.string(uapi::NFTA_TABLE_NAME)?,
            comment: comment(attrs, uapi::NFTA_TABLE_USERDATA),
            is_dormant: attrs
                .u32_be(uapi::NFTA_TABLE_FLAGS)
                .is_some_and(|it| it & uapi::NFT_TABLE_F_DORMANT != 0),
        })
    }
}

impl Chain {
    /// Reads the attributes of `NFT_MSG_NEWCHAIN`; `None` without a name, or with a hook that
    /// [`Hook`] cannot express.
    pub(crate) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let hook = match attrs.find(uapi::NFTA_CHAIN_HOOK) {
            Some(hook) => Some(Hook::decode(&hook.nested(), attrs)?),
            None => None,
        };
        Some(Self {
            name: attrs.string(uapi::NFTA_CHAIN_NAME)?,
            hook,
            comment: comment(attrs, uapi::NFTA_CHAIN_USERDATA),
        })
    }
}

impl Hook {
    fn decode(hook: &Attrs<'_>, chain: &Attrs<'_>) -> Option<Self> {
        let name = chain.str(uapi::NFTA_CHAIN_TYPE)?;
        let policy = chain.u32_be(uapi::NFTA_CHAIN_POLICY);
        Some(Self {
            kind: [ChainKind::Filter, ChainKind::Nat, ChainKind::Route]
                .into_iter()
                .find(|it| it.name() == name)?,
            point: match hook.u32_be(uapi::NFTA_HOOK_HOOKNUM)? {
                0 => HookPoint::Prerouting,
                1 => HookPoint::Input,
                2 => HookPoint::Forward,
                3 => HookPoint::Output,
                4 => HookPoint::Postrouting,
                _ => return None,
            },
            priority: hook.u32_be(uapi::NFTA_HOOK_PRIORITY)?.cast_signed(),
            policy: match policy.map_or(uapi::NF_ACCEPT, u32::cast_signed) {
                uapi::NF_ACCEPT => Policy::Accept,
                _ => Policy::Drop,
            },
        })
    }
}

impl KernelRule {
    /// Reads the attributes of `NFT_MSG_NEWRULE`; `None` without a chain.
    pub(crate) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let exprs = attrs.nested(uapi::NFTA_RULE_EXPRESSIONS);
        Some(Self {
            chain: attrs.string(uapi::NFTA_RULE_CHAIN)?,
            exprs: exprs.map(Expr::from_attr).collect(),
            comment: comment(attrs, uapi::NFTA_RULE_USERDATA),
        })
    }
}

impl Set {
    /// Reads the attributes of `NFT_MSG_NEWSET`; `None` without a name.
    pub(crate) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let number = |kind| attrs.u32_be(kind).unwrap_or_default();
        let description = attrs.nested(uapi::NFTA_SET_DESC);
        let fields = description.nested(uapi::NFTA_SET_DESC_CONCAT);
        let field_length = |it: Attr<'_>| it.nested().u32_be(uapi::NFTA_SET_FIELD_LEN);
        let flags = number(uapi::NFTA_SET_FLAGS);
        let userdata = attrs.find(uapi::NFTA_SET_USERDATA);
        let userdata = userdata.map(|it| it.value).unwrap_or_default();
        Some(Self {
            name: attrs.string(uapi::NFTA_SET_NAME)?,
            flags: SetFlags::from_bits(flags & !SetFlags::MAP.bits()),
            key_type: number(uapi::NFTA_SET_KEY_TYPE),
            key_length: number(uapi::NFTA_SET_KEY_LEN),
            data: SetFlags::from_bits(flags).contains(SetFlags::MAP).then(|| {
                match number(uapi::NFTA_SET_DATA_TYPE) {
                    uapi::NFT_DATA_VERDICT => SetData::Verdict,
                    type_id => SetData::Value {
                        type_id,
                        length: number(uapi::NFTA_SET_DATA_LEN),
                    },
                }
            }),
            timeout_ms: attrs.u64_be(uapi::NFTA_SET_TIMEOUT).filter(|it| *it != 0),
            size: description
                .u32_be(uapi::NFTA_SET_DESC_SIZE)
                .filter(|it| *it != 0),
            field_lengths: fields
                .map(|it| field_length(it).unwrap_or_default())
                .collect(),
            counter: is_counter(&attrs.nested(uapi::NFTA_SET_EXPR)),
            userdata: without_comment(userdata),
            comment: userdata::comment(userdata, userdata::SET_COMMENT).map(str::to_owned),
        })
    }
}

fn is_counter(expression: &Attrs<'_>) -> bool {
    expression.str(uapi::NFTA_EXPR_NAME) == Some(uapi::COUNTER)
}

/// The packets that an expression has counted; `None` for one that is no counter.
pub(crate) fn counted(expression: &Attrs<'_>) -> Option<u64> {
    let counter = expression.nested(uapi::NFTA_EXPR_DATA);
    is_counter(expression).then(|| counter.u64_be(uapi::NFTA_COUNTER_PACKETS))?
}

fn without_comment(userdata: &[u8]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(userdata.len());
    for (kind, value) in userdata::tlvs(userdata).filter(|it| it.0 != userdata::SET_COMMENT) {
        userdata::push_tlv(&mut rest, kind, value);
    }
    rest
}

impl<'a> ElementRef<'a> {
    /// Reads one element of `NFTA_SET_ELEM_LIST_ELEMENTS`; `None` without a key or with data
    /// that is neither value nor verdict.
    pub(crate) fn decode(attr: Attr<'a>) -> Option<Self> {
        let mut element = Self::default();
        let mut has_key = false;
        for attr in attr.nested() {
            match attr.kind {
                uapi::NFTA_SET_ELEM_KEY => (element.key, has_key) = (value::value(attr)?, true),
                uapi::NFTA_SET_ELEM_KEY_END => element.key_end = Some(value::value(attr)?),
                uapi::NFTA_SET_ELEM_DATA => element.data = Some(value::data(attr)?),
                uapi::NFTA_SET_ELEM_TIMEOUT => {
                    element.timeout_ms = attr.array().map(u64::from_be_bytes);
                }
                uapi::NFTA_SET_ELEM_USERDATA => {
                    element.comment = userdata::comment(attr.value, userdata::COMMENT)
                }
                uapi::NFTA_SET_ELEM_FLAGS => {
                    let flags = u32::from_be_bytes(attr.array()?);
                    element.interval_end = flags & uapi::NFT_SET_ELEM_INTERVAL_END != 0;
                    has_key |= flags & uapi::NFT_SET_ELEM_CATCHALL != 0;
                }
                uapi::NFTA_SET_ELEM_EXPR => element.packets = counted(&attr.nested()),
                _ => {}
            }
        }
        has_key.then_some(element)
    }
}
