//! The types of a set's elements, how the set is declared to the kernel, and how it is described to nft.
//!
//! The kernel stores numbers and lengths; nft prints a set by the numbers of its own data types
//! and by descriptions that it finds in the set's user data (`set_make_key` and
//! `expr_ops_by_type` in nft's `src/netlink.c` and `src/expression.c`). Without a description a
//! number is a bare integer, and nft 1.0.6 aborts on a listing.

use sluice_netlink::Family;

use crate::object::{Set, SetData, SetFlags};
use crate::rule::{Field, Side};
use crate::userdata::push_tlv;

/// nft's data types (`enum datatypes` in `include/datatype.h`).
pub const TYPE_INTEGER: u32 = 4;
/// An IPv4 address.
pub const TYPE_IPV4_ADDR: u32 = 7;
/// An IPv6 address.
pub const TYPE_IPV6_ADDR: u32 = 8;
pub const TYPE_INET_PROTO: u32 = 12;
/// A port.
pub const TYPE_INET_SERVICE: u32 = 13;

/// User data of a set (`enum nftnl_udata_set_types` in libnftnl's `udata.h`).
const UDATA_KEY_BYTEORDER: u8 = 0;
const UDATA_DATA_BYTEORDER: u8 = 1;
const UDATA_KEY_TYPEOF: u8 = 3;
const UDATA_DATA_TYPEOF: u8 = 4;
/// A described expression: its kind, then its own description.
const UDATA_TYPEOF_EXPR: u8 = 0;
const UDATA_TYPEOF_DATA: u8 = 1;

const BYTEORDER_UNKNOWN: u32 = 0;
const BYTEORDER_NETWORK: u32 = 2;

/// Kinds of expressions (`enum expr_types` in nft's `include/expression.h`).
const EXPR_PAYLOAD: u32 = 7;
const EXPR_META: u32 = 9;
const EXPR_CONCAT: u32 = 13;
const EXPR_NUMGEN: u32 = 23;

/// Protocol headers (`enum proto_desc_id`, `include/proto.h`).
const HEADER_TH: u32 = 11;
const HEADER_IP: u32 = 12;
const HEADER_IP6: u32 = 13;
/// `NFT_META_L4PROTO`.
const META_L4PROTO: u32 = 16;
/// `NFT_NG_RANDOM`.
const NUMGEN_RANDOM: u32 = 1;

/// The types of the elements of a set or map.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    pub key: &'a [Field],
    /// The type of a value.
    pub value: Value<'a>,
}

/// The type of an element's value.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// No value: the element is a member of a set.
    None,
    Verdict,
    /// Values of these fields.
    Fields(&'a [Field]),
}

impl Shape<'_> {
    /// The declaration of a set of this name in a table of this family. Flags, counter, limits and comment are
    /// the caller's to add.
    #[must_use]
    pub fn set(self, family: Family, name: impl Into<String>) -> Set {
        Set {
            name: name.into(),
            key_type: concat_type(family, self.key),
            key_length: length(family, self.key),
            data: match self.value {
                Value::None => None,
                Value::Verdict => Some(SetData::Verdict),
                Value::Fields(fields) => Some(SetData::Value {
                    type_id: concat_type(family, fields),
                    length: length(family, fields),
                }),
            },
            userdata: self.describe(family),
            ..Set::default()
        }
    }

    /// The declaration of a set whose keys are concatenations with ranges in some of their fields.
    #[must_use]
    pub fn set_of_ranges(self, family: Family, name: impl Into<String>) -> Set {
        let lengths = self.key.iter().map(|it| data_type(family, it).1);
        Set {
            flags: SetFlags::INTERVAL | SetFlags::CONCAT,
            field_lengths: lengths.collect(),
            ..self.set(family, name)
        }
    }

    /// Whether a number is part of the key.
    pub(crate) fn has_number(self) -> bool {
        let is_number = |it: &Field| matches!(it, Field::Random { .. });
        self.key.iter().any(is_number)
    }

    /// The user data by which nft prints the set.
    fn describe(self, family: Family) -> Vec<u8> {
        let order = match self.key {
            [_] => BYTEORDER_NETWORK,
            _ => BYTEORDER_UNKNOWN,
        };
        let mut out = number(UDATA_KEY_BYTEORDER, order);
        if !matches!(self.value, Value::None) {
            // Any other order makes nft abort on a verdict map (`netlink_delinearize_setelem`).
            push_tlv(
                &mut out,
                UDATA_DATA_BYTEORDER,
                &BYTEORDER_UNKNOWN.to_ne_bytes(),
            );
        }
        if self.has_number() {
            push_tlv(&mut out, UDATA_KEY_TYPEOF, &concat(family, self.key));
            if let Value::Fields(fields) = self.value {
                push_tlv(&mut out, UDATA_DATA_TYPEOF, &concat(family, fields));
            }
        }
        out
    }
}

/// Number of the data type, and bytes.
fn data_type(family: Family, field: &Field) -> (u32, u32) {
    match (field, family) {
        (Field::Address(_), Family::Ipv4) => (TYPE_IPV4_ADDR, 4),
        (Field::Address(_), Family::Ipv6) => (TYPE_IPV6_ADDR, 16),
        (Field::Protocol, _) => (TYPE_INET_PROTO, 1),
        (Field::Port(_), _) => (TYPE_INET_SERVICE, 2),
        (Field::Random { .. }, _) => (TYPE_INTEGER, 4),
    }
}

/// Bytes in registers, which are four bytes wide.
fn length(family: Family, fields: &[Field]) -> u32 {
    let padded = |it: &Field| data_type(family, it).1.next_multiple_of(4);
    fields.iter().map(padded).sum()
}

/// Six bits for each type (`TYPE_BITS` in nft's `include/datatype.h`).
fn concat_type(family: Family, fields: &[Field]) -> u32 {
    let pack = |packed, field| packed << 6 | data_type(family, field).0;
    fields.iter().fold(0, pack)
}

fn number(tlv: u8, value: u32) -> Vec<u8> {
    let mut out = Vec::new();
    push_tlv(&mut out, tlv, &value.to_ne_bytes());
    out
}

fn expression(kind: u32, description: &[u8]) -> Vec<u8> {
    let mut out = number(UDATA_TYPEOF_EXPR, kind);
    push_tlv(&mut out, UDATA_TYPEOF_DATA, description);
    out
}

/// The description of a field; those of headers have the numbers of nft's `include/proto.h`.
fn typeof_field(family: Family, field: &Field) -> Vec<u8> {
    let payload = |header, field| {
        let description = [number(0, header), number(1, field)].concat();
        expression(EXPR_PAYLOAD, &description)
    };
    match (field, family) {
        (Field::Address(Side::Source), Family::Ipv4) => payload(HEADER_IP, 11),
        (Field::Address(Side::Destination), Family::Ipv4) => payload(HEADER_IP, 12),
        (Field::Address(Side::Source), Family::Ipv6) => payload(HEADER_IP6, 8),
        (Field::Address(Side::Destination), Family::Ipv6) => payload(HEADER_IP6, 9),
        (Field::Port(Side::Source), _) => payload(HEADER_TH, 1),
        (Field::Port(Side::Destination), _) => payload(HEADER_TH, 2),
        (Field::Protocol, _) => expression(EXPR_META, &number(0, META_L4PROTO)),
        (Field::Random { modulus, offset }, _) => {
            let numbers = [NUMGEN_RANDOM, *modulus, *offset];
            let description = (0..).zip(numbers).flat_map(|(at, it)| number(at, it));
            expression(EXPR_NUMGEN, &description.collect::<Vec<_>>())
        }
    }
}

fn concat(family: Family, fields: &[Field]) -> Vec<u8> {
    let mut description = Vec::new();
    for (index, field) in (0..).zip(fields) {
        push_tlv(&mut description, index, &typeof_field(family, field));
    }
    expression(EXPR_CONCAT, &description)
}
