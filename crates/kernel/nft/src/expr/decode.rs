//! Expressions from the attributes that the kernel lists.

use sluice_netlink::attr::{Attr, Attrs};

use super::super::register::Register;
use super::super::scope::Family;
use super::super::uapi;
use super::super::value::{self, DataRef};
use super::{CmpOp, CtKey, Expr, FibAddress, MetaKey, PayloadBase};

impl Expr {
    /// Reads one element of an expression list (`NFTA_EXPR_NAME`, `NFTA_EXPR_DATA`).
    pub(crate) fn from_attr(attr: Attr<'_>) -> Self {
        let attrs = attr.nested();
        let name = attrs.str(uapi::NFTA_EXPR_NAME).unwrap_or_default();
        Self::decode(name, attrs.nested(uapi::NFTA_EXPR_DATA)).unwrap_or_else(|| Self::Other {
            name: name.to_owned(),
        })
    }

    /// Reads the operands of the expression with this name; `None` when this type has no value
    /// that means the same.
    pub(crate) fn decode(name: &str, attrs: Attrs<'_>) -> Option<Self> {
        let operands = Operands(attrs);
        match name {
            "payload" => operands.payload(),
            "meta" => operands.meta(),
            "ct" => operands.ct(),
            "fib" => operands.fib(),
            "cmp" => operands.cmp(),
            "bitwise" => operands.bitwise(),
            "immediate" => operands.immediate(),
            "lookup" => operands.lookup(),
            "numgen" => operands.numgen(),
            "byteorder" => operands.byteorder(),
            "nat" => operands.nat(),
            "masq" => operands.masquerade(),
            "limit" => operands.one_per_second(),
            "log" => operands.log(),
            "reject" => operands.reject(),
            "notrack" => Some(Self::Untrack),
            uapi::COUNTER => Some(Self::Counter),
            "dynset" => operands.update(),
            _ => None,
        }
    }
}

/// The operands of one expression.
struct Operands<'a>(Attrs<'a>);

impl Operands<'_> {
    fn has(&self, kind: u16) -> bool {
        self.0.find(kind).is_some()
    }

    fn number(&self, kind: u16) -> Option<u32> {
        self.0.u32_be(kind)
    }

    fn is(&self, kind: u16, number: u32) -> bool {
        self.number(kind) == Some(number)
    }

    /// The number, or zero without the attribute.
    fn number_or_zero(&self, kind: u16) -> u32 {
        self.number(kind).unwrap_or_default()
    }

    /// The variant whose number is that of the attribute.
    fn variant<T: Copy>(&self, kind: u16, variants: &[T], number: fn(T) -> u32) -> Option<T> {
        let wanted = self.number(kind)?;
        variants.iter().copied().find(|it| number(*it) == wanted)
    }

    fn register(&self, kind: u16) -> Option<Register> {
        Register::from_number(self.number(kind)?)
    }

    fn value(&self, kind: u16) -> Option<Vec<u8>> {
        self.0.find(kind).and_then(value::value).map(<[u8]>::to_vec)
    }

    fn payload(&self) -> Option<Expr> {
        if self.has(uapi::NFTA_PAYLOAD_SREG) {
            return self.payload_set();
        }
        let bases = [PayloadBase::Network, PayloadBase::Transport];
        Some(Expr::Payload {
            dreg: self.register(uapi::NFTA_PAYLOAD_DREG)?,
            base: self.variant(uapi::NFTA_PAYLOAD_BASE, &bases, |it| it as u32)?,
            offset: self.number(uapi::NFTA_PAYLOAD_OFFSET)?,
            len: self.number(uapi::NFTA_PAYLOAD_LEN)?,
        })
    }

    fn payload_set(&self) -> Option<Expr> {
        let is_known = self.is(uapi::NFTA_PAYLOAD_BASE, PayloadBase::Transport as u32)
            && self.is(uapi::NFTA_PAYLOAD_CSUM_TYPE, uapi::NFT_PAYLOAD_CSUM_INET)
            && self.number_or_zero(uapi::NFTA_PAYLOAD_CSUM_FLAGS) == 0;
        is_known.then_some(())?;
        Some(Expr::PayloadSet {
            sreg: self.register(uapi::NFTA_PAYLOAD_SREG)?,
            offset: self.number(uapi::NFTA_PAYLOAD_OFFSET)?,
            len: self.number(uapi::NFTA_PAYLOAD_LEN)?,
            checksum: self.number(uapi::NFTA_PAYLOAD_CSUM_OFFSET)?,
        })
    }

    fn meta(&self) -> Option<Expr> {
        let keys = [
            MetaKey::Mark,
            MetaKey::IncomingName,
            MetaKey::OutgoingName,
            MetaKey::Trace,
            MetaKey::L4Proto,
        ];
        let key = self.variant(uapi::NFTA_META_KEY, &keys, |it| it as u32)?;
        if self.has(uapi::NFTA_META_SREG) {
            let sreg = self.register(uapi::NFTA_META_SREG)?;
            return Some(Expr::MetaSet { key, sreg });
        }
        let dreg = self.register(uapi::NFTA_META_DREG)?;
        Some(Expr::Meta { key, dreg })
    }

    fn ct(&self) -> Option<Expr> {
        if self.has(uapi::NFTA_CT_DIRECTION) {
            return None;
        }
        let keys = [CtKey::State, CtKey::Status];
        Some(Expr::Ct {
            key: self.variant(uapi::NFTA_CT_KEY, &keys, |it| it as u32)?,
            dreg: self.register(uapi::NFTA_CT_DREG)?,
        })
    }

    fn fib(&self) -> Option<Expr> {
        if !self.is(uapi::NFTA_FIB_RESULT, uapi::NFT_FIB_RESULT_ADDRTYPE) {
            return None;
        }
        let addresses = [FibAddress::Source, FibAddress::Destination];
        Some(Expr::FibType {
            dreg: self.register(uapi::NFTA_FIB_DREG)?,
            address: self.variant(uapi::NFTA_FIB_FLAGS, &addresses, |it| it as u32)?,
        })
    }

    fn cmp(&self) -> Option<Expr> {
        let ops = [CmpOp::Equal, CmpOp::NotEqual, CmpOp::Less];
        Some(Expr::Cmp {
            op: self.variant(uapi::NFTA_CMP_OP, &ops, |it| it as u32)?,
            sreg: self.register(uapi::NFTA_CMP_SREG)?,
            data: self.value(uapi::NFTA_CMP_DATA)?,
        })
    }

    fn bitwise(&self) -> Option<Expr> {
        if self.number_or_zero(uapi::NFTA_BITWISE_OP) != uapi::NFT_BITWISE_MASK_XOR {
            return None;
        }
        Some(Expr::Bitwise {
            sreg: self.register(uapi::NFTA_BITWISE_SREG)?,
            dreg: self.register(uapi::NFTA_BITWISE_DREG)?,
            mask: self.value(uapi::NFTA_BITWISE_MASK)?,
            xor: self.value(uapi::NFTA_BITWISE_XOR)?,
        })
    }

    fn immediate(&self) -> Option<Expr> {
        let dreg = self.register(uapi::NFTA_IMMEDIATE_DREG)?;
        match value::data(self.0.find(uapi::NFTA_IMMEDIATE_DATA)?)? {
            DataRef::Value(data) => Some(Expr::ImmediateData {
                dreg,
                data: data.to_vec(),
            }),
            DataRef::Verdict(verdict) if dreg == Register::VERDICT => {
                Some(Expr::Verdict(verdict.to_owned()))
            }
            DataRef::Verdict(_) => None,
        }
    }

    fn lookup(&self) -> Option<Expr> {
        let flags = self.number_or_zero(uapi::NFTA_LOOKUP_FLAGS);
        if flags & !uapi::NFT_LOOKUP_F_INV != 0 {
            return None;
        }
        let dreg = if self.has(uapi::NFTA_LOOKUP_DREG) {
            Some(self.register(uapi::NFTA_LOOKUP_DREG)?)
        } else {
            None
        };
        Some(Expr::Lookup {
            set: self.0.string(uapi::NFTA_LOOKUP_SET)?,
            sreg: self.register(uapi::NFTA_LOOKUP_SREG)?,
            dreg,
            invert: flags == uapi::NFT_LOOKUP_F_INV,
        })
    }

    fn numgen(&self) -> Option<Expr> {
        if !self.is(uapi::NFTA_NG_TYPE, uapi::NFT_NG_RANDOM) {
            return None;
        }
        Some(Expr::Numgen {
            dreg: self.register(uapi::NFTA_NG_DREG)?,
            modulus: self.number(uapi::NFTA_NG_MODULUS)?,
            offset: self.number_or_zero(uapi::NFTA_NG_OFFSET),
        })
    }

    fn byteorder(&self) -> Option<Expr> {
        let is_word = self.is(uapi::NFTA_BYTEORDER_LEN, 4) && self.is(uapi::NFTA_BYTEORDER_SIZE, 4);
        let is_to_network = self.is(uapi::NFTA_BYTEORDER_OP, uapi::NFT_BYTEORDER_HTON);
        let reg = self.register(uapi::NFTA_BYTEORDER_SREG)?;
        let is_in_place = self.register(uapi::NFTA_BYTEORDER_DREG)? == reg;
        (is_word && is_to_network && is_in_place).then_some(Expr::ToNetworkOrder { reg })
    }

    /// The kernel lists the end of each range even when it equals the start, and sets the flags that
    /// the registers imply.
    fn nat(&self) -> Option<Expr> {
        let same = |low, high| !self.has(high) || self.number(low) == self.number(high);
        if !same(uapi::NFTA_NAT_REG_ADDR_MIN, uapi::NFTA_NAT_REG_ADDR_MAX)
            || !same(uapi::NFTA_NAT_REG_PROTO_MIN, uapi::NFTA_NAT_REG_PROTO_MAX)
        {
            return None;
        }
        let family = Family::from_number(self.number(uapi::NFTA_NAT_FAMILY)?)?;
        let addr_reg = self.register(uapi::NFTA_NAT_REG_ADDR_MIN)?;
        let has_port = self.has(uapi::NFTA_NAT_REG_PROTO_MIN);
        let implied = uapi::NF_NAT_RANGE_MAP_IPS | uapi::NF_NAT_RANGE_PROTO_SPECIFIED;
        let flags = self.number_or_zero(uapi::NFTA_NAT_FLAGS) & !implied;
        match (self.number(uapi::NFTA_NAT_TYPE)?, flags) {
            (uapi::NFT_NAT_SNAT, uapi::NF_NAT_RANGE_PROTO_RANDOM_FULLY) if !has_port => {
                Some(Expr::Snat { family, addr_reg })
            }
            (uapi::NFT_NAT_DNAT, 0) => Some(Expr::Dnat {
                family,
                addr_reg,
                port_reg: self.register(uapi::NFTA_NAT_REG_PROTO_MIN)?,
            }),
            _ => None,
        }
    }

    fn masquerade(&self) -> Option<Expr> {
        let is_random = self.is(uapi::NFTA_MASQ_FLAGS, uapi::NF_NAT_RANGE_PROTO_RANDOM_FULLY);
        let has_ports = self.has(uapi::NFTA_MASQ_REG_PROTO_MIN);
        (is_random && !has_ports).then_some(Expr::Masquerade)
    }

    fn one_per_second(&self) -> Option<Expr> {
        let is_one = |kind| self.0.u64_be(kind) == Some(1);
        let is_plain = self.number_or_zero(uapi::NFTA_LIMIT_TYPE) == 0
            && self.number_or_zero(uapi::NFTA_LIMIT_FLAGS) == 0
            && self.is(uapi::NFTA_LIMIT_BURST, 1);
        (is_plain && is_one(uapi::NFTA_LIMIT_RATE) && is_one(uapi::NFTA_LIMIT_UNIT))
            .then_some(Expr::OnePerSecond)
    }

    fn log(&self) -> Option<Expr> {
        let group = self.0.u16_be(uapi::NFTA_LOG_GROUP)?;
        let prefix = self.0.string(uapi::NFTA_LOG_PREFIX)?;
        (!self.has(uapi::NFTA_LOG_LEVEL)).then_some(Expr::Log { prefix, group })
    }

    fn reject(&self) -> Option<Expr> {
        if !self.is(uapi::NFTA_REJECT_TYPE, uapi::NFT_REJECT_ICMP_UNREACH) {
            return None;
        }
        let code = self.0.u8(uapi::NFTA_REJECT_ICMP_CODE)?;
        Some(Expr::Reject { code })
    }

    fn update(&self) -> Option<Expr> {
        let other = [
            uapi::NFTA_DYNSET_SREG_DATA,
            uapi::NFTA_DYNSET_EXPR,
            uapi::NFTA_DYNSET_EXPRESSIONS,
        ];
        if other.iter().any(|it| self.has(*it))
            || self.number_or_zero(uapi::NFTA_DYNSET_FLAGS) != 0
            || !self.is(uapi::NFTA_DYNSET_OP, uapi::NFT_DYNSET_OP_UPDATE)
        {
            return None;
        }
        Some(Expr::Update {
            set: self.0.string(uapi::NFTA_DYNSET_SET_NAME)?,
            key_reg: self.register(uapi::NFTA_DYNSET_SREG_KEY)?,
            timeout_ms: self.0.u64_be(uapi::NFTA_DYNSET_TIMEOUT)?,
        })
    }
}
