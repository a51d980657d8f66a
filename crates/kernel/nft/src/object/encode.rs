//! Objects as the attributes of a request.

use sluice_netlink::attr::AttrWriter;

use super::super::uapi;
use super::super::userdata::{self, fitting};
use super::super::value::{DataRef, put_value, put_verdict};
use super::{Chain, ChainKind, ElementRef, Hook, KernelRule, Policy, Set, SetData, SetFlags};

/// Writes the table's name, whose attribute number is the same in the messages of all objects.
pub(crate) fn put_table_name(writer: &mut AttrWriter, table: &str) {
    writer.string(uapi::NFTA_TABLE_NAME, table);
}

impl Chain {
    pub(crate) fn put(&self, writer: &mut AttrWriter) {
        writer.string(uapi::NFTA_CHAIN_NAME, &self.name);
        if let Some(hook) = &self.hook {
            hook.put(writer);
        }
        put_comment(writer, uapi::NFTA_CHAIN_USERDATA, self.comment.as_deref());
    }
}

impl Hook {
    fn put(&self, writer: &mut AttrWriter) {
        writer.nested(uapi::NFTA_CHAIN_HOOK, |it| {
            it.u32_be(uapi::NFTA_HOOK_HOOKNUM, self.point as u32);
            it.u32_be(uapi::NFTA_HOOK_PRIORITY, self.priority.cast_unsigned());
        });
        let policy = match self.policy {
            Policy::Accept => uapi::NF_ACCEPT,
            Policy::Drop => uapi::NF_DROP,
        };
        writer.u32_be(uapi::NFTA_CHAIN_POLICY, policy.cast_unsigned());
        writer.string(uapi::NFTA_CHAIN_TYPE, self.kind.name());
    }
}

impl ChainKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
            Self::Route => "route",
        }
    }
}

impl KernelRule {
    pub(crate) fn put(&self, writer: &mut AttrWriter) {
        writer.string(uapi::NFTA_RULE_CHAIN, &self.chain);
        writer.nested(uapi::NFTA_RULE_EXPRESSIONS, |list| {
            for expr in &self.exprs {
                expr.put(list);
            }
        });
        put_comment(writer, uapi::NFTA_RULE_USERDATA, self.comment.as_deref());
    }
}

impl Set {
    /// `id` is any number that no other set of the batch has.
    pub(crate) fn put(&self, writer: &mut AttrWriter, id: u32) {
        let map = if self.data.is_some() {
            SetFlags::MAP
        } else {
            SetFlags::NONE
        };
        writer.string(uapi::NFTA_SET_NAME, &self.name);
        writer.u32_be(uapi::NFTA_SET_FLAGS, (self.flags | map).bits());
        writer.u32_be(uapi::NFTA_SET_KEY_TYPE, self.key_type);
        writer.u32_be(uapi::NFTA_SET_KEY_LEN, self.key_length);
        match self.data {
            None => {}
            Some(SetData::Verdict) => {
                writer.u32_be(uapi::NFTA_SET_DATA_TYPE, uapi::NFT_DATA_VERDICT)
            }
            Some(SetData::Value { type_id, length }) => {
                writer.u32_be(uapi::NFTA_SET_DATA_TYPE, type_id);
                writer.u32_be(uapi::NFTA_SET_DATA_LEN, length);
            }
        }
        writer.u32_be(uapi::NFTA_SET_ID, id);
        self.put_description(writer);
        writer.u64_be(uapi::NFTA_SET_TIMEOUT, self.timeout_ms);
        self.put_userdata(writer);
        if self.counter {
            let counter = |it: &mut AttrWriter| it.string(uapi::NFTA_EXPR_NAME, uapi::COUNTER);
            writer.nested(uapi::NFTA_SET_EXPR, counter);
        }
    }

    fn put_description(&self, writer: &mut AttrWriter) {
        if self.size.is_none() && self.field_lengths.is_empty() {
            return;
        }
        writer.nested(uapi::NFTA_SET_DESC, |desc| {
            desc.u32_be(uapi::NFTA_SET_DESC_SIZE, self.size);
            if self.field_lengths.is_empty() {
                return;
            }
            desc.nested(uapi::NFTA_SET_DESC_CONCAT, |fields| {
                for length in &self.field_lengths {
                    fields.nested(uapi::NFTA_LIST_ELEM, |it| {
                        it.u32_be(uapi::NFTA_SET_FIELD_LEN, *length)
                    });
                }
            });
        });
    }

    fn put_userdata(&self, writer: &mut AttrWriter) {
        let mut userdata = self.userdata.clone();
        if let Some(comment) = &self.comment {
            let text = [fitting(comment).as_bytes(), &[0]].concat();
            userdata::push_tlv(&mut userdata, userdata::SET_COMMENT, &text);
        }
        if !userdata.is_empty() {
            writer.bytes(uapi::NFTA_SET_USERDATA, &userdata);
        }
    }
}

/// Writes one element of `NFTA_SET_ELEM_LIST_ELEMENTS`.
pub(crate) fn put_element(writer: &mut AttrWriter, element: &ElementRef<'_>) {
    let nest = writer.begin(uapi::NFTA_LIST_ELEM);
    let is_catch_all = element.key.is_empty();
    if !is_catch_all {
        put_value(writer, uapi::NFTA_SET_ELEM_KEY, element.key);
    }
    if let Some(data) = element.data {
        match data {
            DataRef::Value(value) => put_value(writer, uapi::NFTA_SET_ELEM_DATA, value),
            DataRef::Verdict(it) => put_verdict(writer, uapi::NFTA_SET_ELEM_DATA, &it),
        }
    }
    match (is_catch_all, element.interval_end) {
        (true, _) => writer.u32_be(uapi::NFTA_SET_ELEM_FLAGS, uapi::NFT_SET_ELEM_CATCHALL),
        (_, true) => writer.u32_be(uapi::NFTA_SET_ELEM_FLAGS, uapi::NFT_SET_ELEM_INTERVAL_END),
        (false, false) => {}
    }
    writer.u64_be(uapi::NFTA_SET_ELEM_TIMEOUT, element.timeout_ms);
    put_comment(writer, uapi::NFTA_SET_ELEM_USERDATA, element.comment);
    if let Some(end) = element.key_end {
        put_value(writer, uapi::NFTA_SET_ELEM_KEY_END, end);
    }
    writer.end(nest);
}

/// Writes user data with a comment and nothing else.
pub(crate) fn put_comment(writer: &mut AttrWriter, kind: u16, comment: Option<&str>) {
    if let Some(comment) = comment {
        let text = fitting(comment).as_bytes();
        // At most COMMENT_MAX, which fits a byte.
        let length = (text.len() + 1) as u8;
        writer.joined(kind, &[&[userdata::COMMENT, length], text, &[0]]);
    }
}
