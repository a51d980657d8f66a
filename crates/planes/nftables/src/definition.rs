//! How each set is declared to the kernel, and described to nft.
//!
//! The kernel stores numbers and lengths; nft prints a set by the numbers of its own data types
//! and by descriptions that it finds in the set's user data (`set_make_key` and
//! `expr_ops_by_type` in nft's `src/netlink.c` and `src/expression.c`). Without a description a
//! slot is a bare integer, and nft 1.0.6 aborts on a listing.

use sluice_model::IpFamily;
use sluice_nft::{Set, SetData, SetFlags, push_tlv};

use crate::set::{Counting, KeyKind, SetName, ValueKind};
use crate::sources::SourceList;

/// nft's data types (`enum datatypes` in `include/datatype.h`).
pub(crate) const TYPE_INTEGER: u32 = 4;
pub(crate) const TYPE_IPV4_ADDR: u32 = 7;
pub(crate) const TYPE_IPV6_ADDR: u32 = 8;
pub(crate) const TYPE_INET_PROTO: u32 = 12;
pub(crate) const TYPE_INET_SERVICE: u32 = 13;

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

/// Protocol headers and their fields (`enum proto_desc_id`, `include/proto.h`).
const HEADER_TH: u32 = 11;
const HEADER_IP: u32 = 12;
const HEADER_IP6: u32 = 13;
const FIELD_TH_DPORT: u32 = 2;
const FIELD_IP_SADDR: u32 = 11;
const FIELD_IP_DADDR: u32 = 12;
const FIELD_IP6_SADDR: u32 = 8;
const FIELD_IP6_DADDR: u32 = 9;
/// `NFT_META_L4PROTO`.
const META_L4PROTO: u32 = 16;
/// `NFT_NG_RANDOM`.
const NUMGEN_RANDOM: u32 = 1;

/// Clients that one service port may have; the kernel wants a limit for sets that rules fill. More
/// connections than this are not tracked by default (`nf_conntrack_max` of a machine with 4 GiB), and
/// a client without a place in the set still gets an endpoint.
pub(crate) const STICKY_CLIENTS: u32 = 262_144;

/// The declaration of a set that is always there.
pub(crate) fn standing(family: IpFamily, name: SetName, counting: Counting) -> Set {
    let fields = key_fields(family, name.key());
    let is_concat = fields.len() > 1;
    let interval = match name.key() {
        KeyKind::Range => SetFlags::INTERVAL,
        _ => SetFlags::NONE,
    };
    Set {
        name: name.as_str().to_owned(),
        flags: interval,
        key_type: concat_type(fields.iter().map(|it| it.type_id)),
        key_length: fields.iter().map(|it| it.padded_len()).sum(),
        data: data(family, name.value()),
        counter: counting == Counting::Connections,
        userdata: describe(family, name, is_concat),
        comment: Some(name.comment().to_owned()),
        ..Set::default()
    }
}

/// The declaration of a set that remembers clients, with a comment for people.
pub(crate) fn sticky(family: IpFamily, name: &str, comment: &str) -> Set {
    let addr = address(family);
    let mut userdata = number(UDATA_KEY_BYTEORDER, BYTEORDER_UNKNOWN);
    let saddr = match family {
        IpFamily::V4 => payload(HEADER_IP, FIELD_IP_SADDR),
        IpFamily::V6 => payload(HEADER_IP6, FIELD_IP6_SADDR),
    };
    let key = concat(&[saddr, random_slot()]);
    push_tlv(&mut userdata, UDATA_KEY_TYPEOF, &key);
    Set {
        name: name.to_owned(),
        flags: SetFlags::TIMEOUT | SetFlags::DYNAMIC,
        key_type: concat_type([addr.type_id, TYPE_INTEGER].into_iter()),
        key_length: addr.padded_len() + 4,
        size: Some(STICKY_CLIENTS),
        userdata,
        comment: Some(crate::text::comment(comment).into_owned()),
        ..Set::default()
    }
}

/// The declaration of a list of sources.
pub(crate) fn sources(family: IpFamily, list: SourceList) -> Set {
    let addr = address(family);
    Set {
        name: list.to_string(),
        flags: SetFlags::INTERVAL,
        key_type: addr.type_id,
        key_length: addr.len,
        userdata: number(UDATA_KEY_BYTEORDER, BYTEORDER_NETWORK),
        ..Set::default()
    }
}

/// One field of a key.
struct Field {
    type_id: u32,
    len: u32,
}

impl Field {
    /// Bytes in registers, which are four bytes wide.
    fn padded_len(&self) -> u32 {
        self.len.next_multiple_of(4)
    }
}

fn address(family: IpFamily) -> Field {
    match family {
        IpFamily::V4 => Field {
            type_id: TYPE_IPV4_ADDR,
            len: 4,
        },
        IpFamily::V6 => Field {
            type_id: TYPE_IPV6_ADDR,
            len: 16,
        },
    }
}

fn key_fields(family: IpFamily, key: KeyKind) -> Vec<Field> {
    let addr = || address(family);
    let protocol = || Field {
        type_id: TYPE_INET_PROTO,
        len: 1,
    };
    let port = || Field {
        type_id: TYPE_INET_SERVICE,
        len: 2,
    };
    let slot = || Field {
        type_id: TYPE_INTEGER,
        len: 4,
    };
    match key {
        KeyKind::Address | KeyKind::Range => vec![addr()],
        KeyKind::Frontend => vec![addr(), protocol(), port()],
        KeyKind::NodePort => vec![protocol(), port()],
        KeyKind::FrontendSlot => vec![addr(), protocol(), port(), slot()],
        KeyKind::NodePortSlot => vec![protocol(), port(), slot()],
        KeyKind::Hairpin => vec![addr(), addr(), protocol(), port()],
    }
}

fn data(family: IpFamily, value: ValueKind) -> Option<SetData> {
    match value {
        ValueKind::Member => None,
        ValueKind::Verdict => Some(SetData::Verdict),
        ValueKind::Endpoint => {
            let addr = address(family);
            Some(SetData::Value {
                type_id: concat_type([addr.type_id, TYPE_INET_SERVICE].into_iter()),
                length: addr.padded_len() + 4,
            })
        }
    }
}

/// Six bits for each type (`TYPE_BITS` in nft's `include/datatype.h`).
fn concat_type(fields: impl Iterator<Item = u32>) -> u32 {
    fields.fold(0, |packed, field| packed << 6 | field)
}

/// User data by which nft prints the set.
fn describe(family: IpFamily, name: SetName, is_concat: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let key_order = if is_concat {
        BYTEORDER_UNKNOWN
    } else {
        BYTEORDER_NETWORK
    };
    push_tlv(&mut out, UDATA_KEY_BYTEORDER, &key_order.to_ne_bytes());
    let daddr = match family {
        IpFamily::V4 => payload(HEADER_IP, FIELD_IP_DADDR),
        IpFamily::V6 => payload(HEADER_IP6, FIELD_IP6_DADDR),
    };
    let dport = payload(HEADER_TH, FIELD_TH_DPORT);
    let protocol = expression(EXPR_META, &number(0, META_L4PROTO));
    if name.value() != ValueKind::Member {
        // Any other order makes nft abort on a verdict map (`netlink_delinearize_setelem`).
        let order = BYTEORDER_UNKNOWN.to_ne_bytes();
        push_tlv(&mut out, UDATA_DATA_BYTEORDER, &order);
    }
    match name.value() {
        ValueKind::Member | ValueKind::Verdict => {}
        ValueKind::Endpoint => {
            let mut key = vec![protocol, dport.clone(), random_slot()];
            if name.key() == KeyKind::FrontendSlot {
                key.insert(0, daddr.clone());
            }
            push_tlv(&mut out, UDATA_KEY_TYPEOF, &concat(&key));
            push_tlv(&mut out, UDATA_DATA_TYPEOF, &concat(&[daddr, dport]));
        }
    }
    out
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

fn payload(header: u32, field: u32) -> Vec<u8> {
    let description = [number(0, header), number(1, field)].concat();
    expression(EXPR_PAYLOAD, &description)
}

fn random_slot() -> Vec<u8> {
    let description = [number(0, NUMGEN_RANDOM), number(1, 1), number(2, 0)].concat();
    expression(EXPR_NUMGEN, &description)
}

fn concat(fields: &[Vec<u8>]) -> Vec<u8> {
    let mut description = Vec::new();
    for (index, field) in (0..).zip(fields) {
        push_tlv(&mut description, index, field);
    }
    expression(EXPR_CONCAT, &description)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|it| format!("{it:02x}")).collect()
    }

    /// What nft 1.0.6 itself writes for
    /// `typeof ip daddr . meta l4proto . th dport . numgen random mod 1 : ip daddr . th dport`.
    #[test]
    fn endpoints_are_described_as_nft_describes_them() {
        let set = standing(IpFamily::V4, SetName::Endpoints, Counting::Nothing);
        assert_eq!(set.key_type, 0x001c_c344);
        assert_eq!(set.key_length, 16);
        assert_eq!(
            set.data,
            Some(SetData::Value {
                type_id: 0x1cd,
                length: 8
            })
        );
        assert_eq!(
            hex(&set.userdata),
            "000400000000010400000000036000040d00000001580014000407000000010c00040c00000001040c00\
             0000010e00040900000001060004100000000214000407000000010c00040b000000010402000000031a\
             0004170000000112000401000000010401000000020400000000043400040d000000012c001400040700\
             0000010c00040c0000000104\
             0c0000000114000407000000010c00040b000000010402000000"
        );
    }
}
