//! Expressions from the attributes that the kernel dumps.

use crate::attr::{Attr, Attrs};

use super::super::register::Register;
use super::super::scope::Family;
use super::super::uapi;
use super::super::value::{self, DataRef};
use super::{CmpOp, CtKey, DynsetOp, Expr, FibAddress, MetaKey, NatKind, PayloadBase, Reject};

impl Expr {
    /// Reads one element of an expression list (`NFTA_EXPR_NAME`, `NFTA_EXPR_DATA`).
    #[must_use]
    pub fn from_attr(attr: Attr<'_>) -> Self {
        let attrs = attr.nested();
        let name = attrs
            .find(uapi::NFTA_EXPR_NAME)
            .and_then(|it| it.str())
            .unwrap_or_default();
        let operands = attrs
            .find(uapi::NFTA_EXPR_DATA)
            .map_or(Attrs::new(&[]), |it| it.nested());
        Self::decode(name, &operands).unwrap_or_else(|| Self::Other {
            name: name.to_owned(),
        })
    }

    /// Reads the operands of the expression with this name; `None` when this type has no value
    /// that means the same.
    #[must_use]
    pub fn decode(name: &str, attrs: &Attrs<'_>) -> Option<Self> {
        let fields = Fields(attrs);
        match name {
            "payload" => fields.payload(),
            "meta" => fields.meta(),
            "ct" => fields.ct(),
            "fib" => fields.fib(),
            "cmp" => fields.cmp(),
            "bitwise" => fields.bitwise(),
            "immediate" => fields.immediate(),
            "lookup" => fields.lookup(),
            "numgen" => fields.numgen(),
            "nat" => fields.nat(),
            "masq" => fields.masquerade(),
            "reject" => fields.reject(),
            "dynset" => fields.dynset(),
            uapi::COUNTER => Some(Self::Counter),
            _ => None,
        }
    }
}

/// The operands of one expression.
struct Fields<'a>(&'a Attrs<'a>);

impl Fields<'_> {
    fn has(&self, kind: u16) -> bool {
        self.0.find(kind).is_some()
    }

    fn number(&self, kind: u16) -> Option<u32> {
        self.0.find(kind)?.u32_be()
    }

    /// Whether the number is zero or absent.
    fn is_zero(&self, kind: u16) -> bool {
        self.number(kind).unwrap_or_default() == 0
    }

    fn register(&self, kind: u16) -> Option<Register> {
        Register::from_number(self.number(kind)?)
    }

    /// `Some(None)` when the register is absent, `None` when it is bad.
    fn optional_register(&self, kind: u16) -> Option<Option<Register>> {
        if self.has(kind) {
            self.register(kind).map(Some)
        } else {
            Some(None)
        }
    }

    fn value(&self, kind: u16) -> Option<Vec<u8>> {
        self.0.find(kind).and_then(value::value).map(<[u8]>::to_vec)
    }

    fn text(&self, kind: u16) -> Option<String> {
        self.0.find(kind)?.str().map(str::to_owned)
    }

    fn payload(&self) -> Option<Expr> {
        Some(Expr::Payload {
            dreg: self.register(uapi::NFTA_PAYLOAD_DREG)?,
            base: PayloadBase::from_number(self.number(uapi::NFTA_PAYLOAD_BASE)?)?,
            offset: self.number(uapi::NFTA_PAYLOAD_OFFSET)?,
            len: self.number(uapi::NFTA_PAYLOAD_LEN)?,
        })
    }

    fn meta(&self) -> Option<Expr> {
        let key = MetaKey::from_number(self.number(uapi::NFTA_META_KEY)?)?;
        if let Some(sreg) = self.optional_register(uapi::NFTA_META_SREG)? {
            return Some(Expr::MetaSet { key, sreg });
        }
        Some(Expr::Meta {
            key,
            dreg: self.register(uapi::NFTA_META_DREG)?,
        })
    }

    fn ct(&self) -> Option<Expr> {
        if self.has(uapi::NFTA_CT_DIRECTION) {
            return None;
        }
        let key = CtKey::from_number(self.number(uapi::NFTA_CT_KEY)?)?;
        Some(Expr::Ct {
            key,
            dreg: self.register(uapi::NFTA_CT_DREG)?,
        })
    }

    fn fib(&self) -> Option<Expr> {
        if self.number(uapi::NFTA_FIB_RESULT)? != uapi::NFT_FIB_RESULT_ADDRTYPE {
            return None;
        }
        let address = FibAddress::from_number(self.number(uapi::NFTA_FIB_FLAGS)?)?;
        Some(Expr::FibType {
            dreg: self.register(uapi::NFTA_FIB_DREG)?,
            address,
        })
    }

    fn cmp(&self) -> Option<Expr> {
        Some(Expr::Cmp {
            op: CmpOp::from_number(self.number(uapi::NFTA_CMP_OP)?)?,
            sreg: self.register(uapi::NFTA_CMP_SREG)?,
            data: self.value(uapi::NFTA_CMP_DATA)?,
        })
    }

    fn bitwise(&self) -> Option<Expr> {
        if self.number(uapi::NFTA_BITWISE_OP).unwrap_or_default() != uapi::NFT_BITWISE_MASK_XOR {
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
        let flags = self.number(uapi::NFTA_LOOKUP_FLAGS).unwrap_or_default();
        if flags & !uapi::NFT_LOOKUP_F_INV != 0 {
            return None;
        }
        Some(Expr::Lookup {
            set: self.text(uapi::NFTA_LOOKUP_SET)?,
            sreg: self.register(uapi::NFTA_LOOKUP_SREG)?,
            dreg: self.optional_register(uapi::NFTA_LOOKUP_DREG)?,
            invert: flags == uapi::NFT_LOOKUP_F_INV,
        })
    }

    fn numgen(&self) -> Option<Expr> {
        if self.number(uapi::NFTA_NG_TYPE)? != uapi::NFT_NG_RANDOM
            || !self.is_zero(uapi::NFTA_NG_OFFSET)
        {
            return None;
        }
        Some(Expr::Numgen {
            dreg: self.register(uapi::NFTA_NG_DREG)?,
            modulus: self.number(uapi::NFTA_NG_MODULUS)?,
        })
    }

    /// The kernel dumps the end of each range even when it equals the beginning, and says in the
    /// flags what the registers already say.
    fn nat(&self) -> Option<Expr> {
        let same = |low, high| !self.has(high) || self.number(low) == self.number(high);
        let implied = uapi::NF_NAT_RANGE_MAP_IPS | uapi::NF_NAT_RANGE_PROTO_SPECIFIED;
        if !same(uapi::NFTA_NAT_REG_ADDR_MIN, uapi::NFTA_NAT_REG_ADDR_MAX)
            || !same(uapi::NFTA_NAT_REG_PROTO_MIN, uapi::NFTA_NAT_REG_PROTO_MAX)
            || self.number(uapi::NFTA_NAT_FLAGS).unwrap_or_default() & !implied != 0
        {
            return None;
        }
        Some(Expr::Nat {
            kind: NatKind::from_number(self.number(uapi::NFTA_NAT_TYPE)?)?,
            family: Family::from_nfproto(u8::try_from(self.number(uapi::NFTA_NAT_FAMILY)?).ok()?)?,
            addr_reg: self.register(uapi::NFTA_NAT_REG_ADDR_MIN)?,
            port_reg: self.optional_register(uapi::NFTA_NAT_REG_PROTO_MIN)?,
        })
    }

    fn masquerade(&self) -> Option<Expr> {
        let flags = self.number(uapi::NFTA_MASQ_FLAGS).unwrap_or_default();
        if self.has(uapi::NFTA_MASQ_REG_PROTO_MIN)
            || flags & !uapi::NF_NAT_RANGE_PROTO_RANDOM_FULLY != 0
        {
            return None;
        }
        Some(Expr::Masquerade {
            fully_random: flags != 0,
        })
    }

    fn reject(&self) -> Option<Expr> {
        match self.number(uapi::NFTA_REJECT_TYPE)? {
            uapi::NFT_REJECT_ICMP_UNREACH => {
                let code = self.0.find(uapi::NFTA_REJECT_ICMP_CODE)?.u8()?;
                Some(Expr::Reject(Reject::IcmpUnreachable { code }))
            }
            uapi::NFT_REJECT_TCP_RST => Some(Expr::Reject(Reject::TcpReset)),
            _ => None,
        }
    }

    fn dynset(&self) -> Option<Expr> {
        let unknown = [uapi::NFTA_DYNSET_EXPR, uapi::NFTA_DYNSET_EXPRESSIONS];
        if unknown.iter().any(|it| self.has(*it)) || !self.is_zero(uapi::NFTA_DYNSET_FLAGS) {
            return None;
        }
        let timeout = self
            .0
            .find(uapi::NFTA_DYNSET_TIMEOUT)
            .and_then(|it| it.u64_be());
        Some(Expr::Dynset {
            op: DynsetOp::from_number(self.number(uapi::NFTA_DYNSET_OP)?)?,
            set: self.text(uapi::NFTA_DYNSET_SET_NAME)?,
            key_reg: self.register(uapi::NFTA_DYNSET_SREG_KEY)?,
            data_reg: self.optional_register(uapi::NFTA_DYNSET_SREG_DATA)?,
            timeout_ms: timeout.filter(|it| *it != 0),
        })
    }
}
