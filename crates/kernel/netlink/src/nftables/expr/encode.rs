//! Expressions as attributes.

use crate::attr::AttrWriter;

use super::super::register::Register;
use super::super::uapi;
use super::super::value::{DataRef, put_data, put_value};
use super::{CmpOp, CtKey, DynsetOp, Expr, FibAddress, MetaKey, NatKind, PayloadBase, Reject};

impl Expr {
    /// The kernel's name of the expression.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Payload { .. } => "payload",
            Self::Meta { .. } | Self::MetaSet { .. } => "meta",
            Self::Ct { .. } => "ct",
            Self::FibType { .. } => "fib",
            Self::Cmp { .. } => "cmp",
            Self::Bitwise { .. } => "bitwise",
            Self::ImmediateData { .. } | Self::Verdict(_) => "immediate",
            Self::Lookup { .. } => "lookup",
            Self::Numgen { .. } => "numgen",
            Self::Nat { .. } => "nat",
            Self::Masquerade { .. } => "masq",
            Self::Reject(_) => "reject",
            Self::Dynset { .. } => "dynset",
            Self::Counter => uapi::COUNTER,
            Self::Other { name } => name,
        }
    }

    /// Writes the expression as one element of a list.
    pub fn put(&self, writer: &mut AttrWriter) {
        let element = writer.begin(uapi::NFTA_LIST_ELEM);
        writer.string(uapi::NFTA_EXPR_NAME, self.name());
        let data = writer.begin(uapi::NFTA_EXPR_DATA);
        self.put_operands(writer);
        writer.end(data);
        writer.end(element);
    }

    fn put_operands(&self, writer: &mut AttrWriter) {
        match self {
            Self::Payload {
                dreg,
                base,
                offset,
                len,
            } => {
                register(writer, uapi::NFTA_PAYLOAD_DREG, *dreg);
                writer.u32_be(uapi::NFTA_PAYLOAD_BASE, base.number());
                writer.u32_be(uapi::NFTA_PAYLOAD_OFFSET, *offset);
                writer.u32_be(uapi::NFTA_PAYLOAD_LEN, *len);
            }
            Self::Meta { key, dreg } => {
                writer.u32_be(uapi::NFTA_META_KEY, key.number());
                register(writer, uapi::NFTA_META_DREG, *dreg);
            }
            Self::MetaSet { key, sreg } => {
                writer.u32_be(uapi::NFTA_META_KEY, key.number());
                register(writer, uapi::NFTA_META_SREG, *sreg);
            }
            Self::Ct { key, dreg } => {
                writer.u32_be(uapi::NFTA_CT_KEY, key.number());
                register(writer, uapi::NFTA_CT_DREG, *dreg);
            }
            Self::FibType { dreg, address } => {
                register(writer, uapi::NFTA_FIB_DREG, *dreg);
                writer.u32_be(uapi::NFTA_FIB_RESULT, uapi::NFT_FIB_RESULT_ADDRTYPE);
                writer.u32_be(uapi::NFTA_FIB_FLAGS, address.number());
            }
            Self::Numgen { dreg, modulus } => {
                register(writer, uapi::NFTA_NG_DREG, *dreg);
                writer.u32_be(uapi::NFTA_NG_MODULUS, *modulus);
                writer.u32_be(uapi::NFTA_NG_TYPE, uapi::NFT_NG_RANDOM);
            }
            Self::Counter => {
                writer.u64_be(uapi::NFTA_COUNTER_BYTES, 0);
                writer.u64_be(uapi::NFTA_COUNTER_PACKETS, 0);
            }
            Self::Cmp { .. }
            | Self::Bitwise { .. }
            | Self::ImmediateData { .. }
            | Self::Verdict(_) => {
                self.put_data_operands(writer);
            }
            Self::Lookup { .. } | Self::Dynset { .. } => self.put_set_operands(writer),
            Self::Nat { .. } | Self::Masquerade { .. } | Self::Reject(_) => {
                self.put_fate_operands(writer)
            }
            Self::Other { .. } => {}
        }
    }

    /// Expressions that carry constants.
    fn put_data_operands(&self, writer: &mut AttrWriter) {
        match self {
            Self::Cmp { op, sreg, data } => {
                register(writer, uapi::NFTA_CMP_SREG, *sreg);
                writer.u32_be(uapi::NFTA_CMP_OP, op.number());
                put_value(writer, uapi::NFTA_CMP_DATA, data);
            }
            Self::Bitwise {
                sreg,
                dreg,
                mask,
                xor,
            } => {
                register(writer, uapi::NFTA_BITWISE_SREG, *sreg);
                register(writer, uapi::NFTA_BITWISE_DREG, *dreg);
                writer.u32_be(
                    uapi::NFTA_BITWISE_LEN,
                    u32::try_from(mask.len()).unwrap_or(u32::MAX),
                );
                put_value(writer, uapi::NFTA_BITWISE_MASK, mask);
                put_value(writer, uapi::NFTA_BITWISE_XOR, xor);
            }
            Self::ImmediateData { dreg, data } => {
                register(writer, uapi::NFTA_IMMEDIATE_DREG, *dreg);
                put_value(writer, uapi::NFTA_IMMEDIATE_DATA, data);
            }
            Self::Verdict(verdict) => {
                register(writer, uapi::NFTA_IMMEDIATE_DREG, Register::VERDICT);
                put_data(
                    writer,
                    uapi::NFTA_IMMEDIATE_DATA,
                    DataRef::Verdict(verdict.as_ref()),
                );
            }
            _ => {}
        }
    }

    /// Expressions that name a set.
    fn put_set_operands(&self, writer: &mut AttrWriter) {
        match self {
            Self::Lookup {
                set,
                sreg,
                dreg,
                invert,
            } => {
                writer.string(uapi::NFTA_LOOKUP_SET, set);
                register(writer, uapi::NFTA_LOOKUP_SREG, *sreg);
                if let Some(dreg) = dreg {
                    register(writer, uapi::NFTA_LOOKUP_DREG, *dreg);
                }
                if *invert {
                    writer.u32_be(uapi::NFTA_LOOKUP_FLAGS, uapi::NFT_LOOKUP_F_INV);
                }
            }
            Self::Dynset {
                op,
                set,
                key_reg,
                data_reg,
                timeout_ms,
            } => {
                writer.string(uapi::NFTA_DYNSET_SET_NAME, set);
                writer.u32_be(uapi::NFTA_DYNSET_OP, op.number());
                register(writer, uapi::NFTA_DYNSET_SREG_KEY, *key_reg);
                if let Some(data_reg) = data_reg {
                    register(writer, uapi::NFTA_DYNSET_SREG_DATA, *data_reg);
                }
                if let Some(timeout) = timeout_ms {
                    writer.u64_be(uapi::NFTA_DYNSET_TIMEOUT, *timeout);
                }
            }
            _ => {}
        }
    }

    /// Expressions that decide where the packet goes.
    fn put_fate_operands(&self, writer: &mut AttrWriter) {
        match self {
            Self::Nat {
                kind,
                family,
                addr_reg,
                port_reg,
            } => {
                writer.u32_be(uapi::NFTA_NAT_TYPE, kind.number());
                writer.u32_be(uapi::NFTA_NAT_FAMILY, u32::from(family.nfproto()));
                register(writer, uapi::NFTA_NAT_REG_ADDR_MIN, *addr_reg);
                if let Some(port_reg) = port_reg {
                    register(writer, uapi::NFTA_NAT_REG_PROTO_MIN, *port_reg);
                }
            }
            Self::Masquerade { fully_random: true } => {
                writer.u32_be(uapi::NFTA_MASQ_FLAGS, uapi::NF_NAT_RANGE_PROTO_RANDOM_FULLY);
            }
            Self::Reject(Reject::IcmpUnreachable { code }) => {
                writer.u32_be(uapi::NFTA_REJECT_TYPE, uapi::NFT_REJECT_ICMP_UNREACH);
                writer.u8(uapi::NFTA_REJECT_ICMP_CODE, *code);
            }
            Self::Reject(Reject::TcpReset) => {
                writer.u32_be(uapi::NFTA_REJECT_TYPE, uapi::NFT_REJECT_TCP_RST)
            }
            _ => {}
        }
    }
}

fn register(writer: &mut AttrWriter, kind: u16, register: Register) {
    writer.u32_be(kind, register.number());
}

/// Gives an enum the kernel's number of each variant, in both directions.
macro_rules! numbers {
    ($name:ident { $($variant:ident = $number:ident,)* }) => {
        impl $name {
            pub(super) fn number(self) -> u32 {
                match self { $(Self::$variant => uapi::$number,)* }
            }

            pub(super) fn from_number(number: u32) -> Option<Self> {
                match number { $(uapi::$number => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

numbers!(PayloadBase { Network = NFT_PAYLOAD_NETWORK_HEADER, Transport = NFT_PAYLOAD_TRANSPORT_HEADER, });
numbers!(CtKey { State = NFT_CT_STATE, Direction = NFT_CT_DIRECTION, Status = NFT_CT_STATUS, });
numbers!(FibAddress { Source = NFTA_FIB_F_SADDR, Destination = NFTA_FIB_F_DADDR, });
numbers!(NatKind { Snat = NFT_NAT_SNAT, Dnat = NFT_NAT_DNAT, });
numbers!(DynsetOp { Add = NFT_DYNSET_OP_ADD, Update = NFT_DYNSET_OP_UPDATE, });
numbers!(CmpOp {
    Equal = NFT_CMP_EQ,
    NotEqual = NFT_CMP_NEQ,
    Less = NFT_CMP_LT,
    LessOrEqual = NFT_CMP_LTE,
    Greater = NFT_CMP_GT,
    GreaterOrEqual = NFT_CMP_GTE,
});
numbers!(MetaKey {
    Protocol = NFT_META_PROTOCOL,
    Mark = NFT_META_MARK,
    IncomingIndex = NFT_META_IIF,
    OutgoingIndex = NFT_META_OIF,
    IncomingName = NFT_META_IIFNAME,
    OutgoingName = NFT_META_OIFNAME,
    NfProto = NFT_META_NFPROTO,
    L4Proto = NFT_META_L4PROTO,
    IncomingType = NFT_META_IIFTYPE,
});
