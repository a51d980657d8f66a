//! Expressions as attributes.

use sluice_netlink::attr::AttrWriter;

use super::super::register::Register;
use super::super::uapi;
use super::super::value::{put_value, put_verdict};
use super::{Expr, PayloadBase};

impl Expr {
    /// The kernel's name of the expression.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Payload { .. } | Self::PayloadSet { .. } => "payload",
            Self::Meta { .. } | Self::MetaSet { .. } => "meta",
            Self::Ct { .. } => "ct",
            Self::FibType { .. } => "fib",
            Self::Cmp { .. } => "cmp",
            Self::Bitwise { .. } => "bitwise",
            Self::ImmediateData { .. } | Self::Verdict(_) => "immediate",
            Self::Lookup { .. } => "lookup",
            Self::Numgen { .. } => "numgen",
            Self::ToNetworkOrder { .. } => "byteorder",
            Self::Snat { .. } | Self::Dnat { .. } => "nat",
            Self::Masquerade => "masq",
            Self::OnePerSecond => "limit",
            Self::Log { .. } => "log",
            Self::Reject { .. } => "reject",
            Self::Untrack => "notrack",
            Self::Counter => uapi::COUNTER,
            Self::Update { .. } => "dynset",
            Self::Other { name } => name,
        }
    }

    /// Writes the expression as one element of a list.
    pub(crate) fn put(&self, writer: &mut AttrWriter) {
        writer.nested(uapi::NFTA_LIST_ELEM, |it| {
            it.string(uapi::NFTA_EXPR_NAME, self.name());
            it.nested(uapi::NFTA_EXPR_DATA, |it| self.put_operands(it));
        });
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
                writer.u32_be(uapi::NFTA_PAYLOAD_BASE, *base as u32);
                writer.u32_be(uapi::NFTA_PAYLOAD_OFFSET, *offset);
                writer.u32_be(uapi::NFTA_PAYLOAD_LEN, *len);
            }
            Self::PayloadSet {
                sreg,
                offset,
                len,
                checksum,
            } => {
                register(writer, uapi::NFTA_PAYLOAD_SREG, *sreg);
                writer.u32_be(uapi::NFTA_PAYLOAD_BASE, PayloadBase::Transport as u32);
                writer.u32_be(uapi::NFTA_PAYLOAD_OFFSET, *offset);
                writer.u32_be(uapi::NFTA_PAYLOAD_LEN, *len);
                writer.u32_be(uapi::NFTA_PAYLOAD_CSUM_TYPE, uapi::NFT_PAYLOAD_CSUM_INET);
                writer.u32_be(uapi::NFTA_PAYLOAD_CSUM_OFFSET, *checksum);
            }
            Self::Meta { key, dreg } => {
                writer.u32_be(uapi::NFTA_META_KEY, *key as u32);
                register(writer, uapi::NFTA_META_DREG, *dreg);
            }
            Self::MetaSet { key, sreg } => {
                writer.u32_be(uapi::NFTA_META_KEY, *key as u32);
                register(writer, uapi::NFTA_META_SREG, *sreg);
            }
            Self::Ct { key, dreg } => {
                writer.u32_be(uapi::NFTA_CT_KEY, *key as u32);
                register(writer, uapi::NFTA_CT_DREG, *dreg);
            }
            Self::FibType { dreg, address } => {
                register(writer, uapi::NFTA_FIB_DREG, *dreg);
                writer.u32_be(uapi::NFTA_FIB_RESULT, uapi::NFT_FIB_RESULT_ADDRTYPE);
                writer.u32_be(uapi::NFTA_FIB_FLAGS, *address as u32);
            }
            Self::Numgen {
                dreg,
                modulus,
                offset,
            } => {
                register(writer, uapi::NFTA_NG_DREG, *dreg);
                writer.u32_be(uapi::NFTA_NG_MODULUS, *modulus);
                writer.u32_be(uapi::NFTA_NG_TYPE, uapi::NFT_NG_RANDOM);
                writer.u32_be(uapi::NFTA_NG_OFFSET, *offset);
            }
            Self::ToNetworkOrder { reg } => {
                register(writer, uapi::NFTA_BYTEORDER_SREG, *reg);
                register(writer, uapi::NFTA_BYTEORDER_DREG, *reg);
                writer.u32_be(uapi::NFTA_BYTEORDER_OP, uapi::NFT_BYTEORDER_HTON);
                writer.u32_be(uapi::NFTA_BYTEORDER_LEN, 4);
                writer.u32_be(uapi::NFTA_BYTEORDER_SIZE, 4);
            }
            Self::Cmp { op, sreg, data } => {
                register(writer, uapi::NFTA_CMP_SREG, *sreg);
                writer.u32_be(uapi::NFTA_CMP_OP, *op as u32);
                put_value(writer, uapi::NFTA_CMP_DATA, data);
            }
            Self::Bitwise {
                sreg,
                dreg,
                mask,
                xor,
            } => {
                let length = u32::try_from(mask.len()).unwrap_or(u32::MAX);
                register(writer, uapi::NFTA_BITWISE_SREG, *sreg);
                register(writer, uapi::NFTA_BITWISE_DREG, *dreg);
                writer.u32_be(uapi::NFTA_BITWISE_LEN, length);
                put_value(writer, uapi::NFTA_BITWISE_MASK, mask);
                put_value(writer, uapi::NFTA_BITWISE_XOR, xor);
            }
            Self::ImmediateData { dreg, data } => {
                register(writer, uapi::NFTA_IMMEDIATE_DREG, *dreg);
                put_value(writer, uapi::NFTA_IMMEDIATE_DATA, data);
            }
            Self::Lookup { .. }
            | Self::Update { .. }
            | Self::Verdict(_)
            | Self::Snat { .. }
            | Self::Dnat { .. }
            | Self::Masquerade
            | Self::OnePerSecond
            | Self::Log { .. }
            | Self::Reject { .. }
            | Self::Untrack
            | Self::Counter
            | Self::Other { .. } => self.put_action_operands(writer),
        }
    }

    /// The operands of expressions that look at a set or decide about the packet.
    fn put_action_operands(&self, writer: &mut AttrWriter) {
        match self {
            Self::Lookup {
                set,
                sreg,
                dreg,
                invert,
            } => {
                writer.string(uapi::NFTA_LOOKUP_SET, set);
                register(writer, uapi::NFTA_LOOKUP_SREG, *sreg);
                writer.u32_be(uapi::NFTA_LOOKUP_DREG, dreg.map(Register::number));
                let invert = invert.then_some(uapi::NFT_LOOKUP_F_INV);
                writer.u32_be(uapi::NFTA_LOOKUP_FLAGS, invert);
            }
            Self::Update {
                set,
                key_reg,
                timeout_ms,
            } => {
                writer.string(uapi::NFTA_DYNSET_SET_NAME, set);
                writer.u32_be(uapi::NFTA_DYNSET_OP, uapi::NFT_DYNSET_OP_UPDATE);
                register(writer, uapi::NFTA_DYNSET_SREG_KEY, *key_reg);
                writer.u64_be(uapi::NFTA_DYNSET_TIMEOUT, *timeout_ms);
            }
            Self::Verdict(verdict) => {
                register(writer, uapi::NFTA_IMMEDIATE_DREG, Register::VERDICT);
                put_verdict(writer, uapi::NFTA_IMMEDIATE_DATA, verdict);
            }
            Self::Dnat {
                family,
                addr_reg,
                port_reg,
            } => {
                writer.u32_be(uapi::NFTA_NAT_TYPE, uapi::NFT_NAT_DNAT);
                writer.u32_be(uapi::NFTA_NAT_FAMILY, u32::from(family.number()));
                register(writer, uapi::NFTA_NAT_REG_ADDR_MIN, *addr_reg);
                register(writer, uapi::NFTA_NAT_REG_PROTO_MIN, *port_reg);
            }
            Self::Snat { family, addr_reg } => {
                writer.u32_be(uapi::NFTA_NAT_TYPE, uapi::NFT_NAT_SNAT);
                writer.u32_be(uapi::NFTA_NAT_FAMILY, u32::from(family.number()));
                register(writer, uapi::NFTA_NAT_REG_ADDR_MIN, *addr_reg);
                writer.u32_be(uapi::NFTA_NAT_FLAGS, uapi::NF_NAT_RANGE_PROTO_RANDOM_FULLY);
            }
            Self::Masquerade => {
                writer.u32_be(uapi::NFTA_MASQ_FLAGS, uapi::NF_NAT_RANGE_PROTO_RANDOM_FULLY);
            }
            Self::OnePerSecond => {
                writer.u64_be(uapi::NFTA_LIMIT_RATE, 1);
                writer.u64_be(uapi::NFTA_LIMIT_UNIT, 1);
                writer.u32_be(uapi::NFTA_LIMIT_BURST, 1);
            }
            Self::Log { prefix, group } => {
                writer.string(uapi::NFTA_LOG_PREFIX, prefix);
                writer.u16_be(uapi::NFTA_LOG_GROUP, *group);
            }
            Self::Reject { code } => {
                writer.u32_be(uapi::NFTA_REJECT_TYPE, uapi::NFT_REJECT_ICMP_UNREACH);
                writer.u8(uapi::NFTA_REJECT_ICMP_CODE, *code);
            }
            _ => {}
        }
    }
}

fn register(writer: &mut AttrWriter, kind: u16, register: Register) {
    writer.u32_be(kind, register.number());
}
