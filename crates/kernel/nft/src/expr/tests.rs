use super::*;
use proptest::prelude::*;
use sluice_netlink::attr::{AttrWriter, Attrs};

fn round_trip(expr: &Expr) -> Expr {
    let mut writer = AttrWriter::new();
    expr.put(&mut writer);
    Expr::from_attr(Attrs::new(writer.as_bytes()).next().unwrap())
}

fn register() -> impl Strategy<Value = Register> {
    (0_u32..16).prop_map(Register::word)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..16)
}

fn expr() -> impl Strategy<Value = Expr> {
    let name = || "[a-z][a-z0-9-]{0,30}";
    prop_oneof![
        (register(), any::<u32>(), any::<u32>()).prop_map(|(dreg, offset, len)| Expr::Payload {
            dreg,
            base: PayloadBase::Transport,
            offset,
            len
        }),
        register().prop_map(|sreg| Expr::MetaSet {
            key: MetaKey::Mark,
            sreg
        }),
        register().prop_map(|dreg| Expr::FibType {
            dreg,
            address: FibAddress::Source
        }),
        (register(), bytes()).prop_map(|(sreg, data)| Expr::Cmp {
            op: CmpOp::Less,
            sreg,
            data
        }),
        (register(), bytes()).prop_map(|(dreg, data)| Expr::ImmediateData { dreg, data }),
        (register(), register(), bytes()).prop_map(|(sreg, dreg, mask)| Expr::Bitwise {
            sreg,
            dreg,
            xor: mask.clone(),
            mask
        }),
        name().prop_map(|it| Expr::Verdict(Verdict::Goto(it))),
        (
            name(),
            register(),
            prop::option::of(register()),
            any::<bool>()
        )
            .prop_map(|(set, sreg, dreg, invert)| Expr::Lookup {
                set,
                sreg,
                dreg,
                invert
            }),
        (name(), register(), any::<u64>()).prop_map(|(set, key_reg, timeout_ms)| Expr::Update {
            set,
            key_reg,
            timeout_ms
        }),
        (register(), any::<u32>(), any::<u32>()).prop_map(|(dreg, modulus, offset)| Expr::Numgen {
            dreg,
            modulus,
            offset
        }),
        register().prop_map(|reg| Expr::ToNetworkOrder { reg }),
        register().prop_map(|addr_reg| Expr::Snat {
            family: Family::Ipv6,
            addr_reg
        }),
        Just(Expr::Masquerade),
        Just(Expr::Counter),
        Just(Expr::OnePerSecond),
        ("[a-z]{1,20}", any::<u16>()).prop_map(|(prefix, group)| Expr::Log { prefix, group }),
        any::<u8>().prop_map(|code| Expr::Reject { code }),
    ]
}

#[test]
fn an_unknown_name_is_kept() {
    let other = Expr::Other {
        name: "quota".to_owned(),
    };
    assert_eq!(round_trip(&other), other);
}

#[test]
fn a_known_name_with_missing_operands_is_other() {
    assert_eq!(Expr::decode("cmp", Attrs::new(&[])), None);
    assert_eq!(
        Expr::from_attr(sluice_netlink::attr::Attr {
            kind: 1,
            value: &[]
        }),
        Expr::Other {
            name: String::new()
        }
    );
}

proptest! {
    #[test]
    fn any_expression_reads_back(expr in expr()) {
        prop_assert_eq!(round_trip(&expr), expr);
    }

    #[test]
    fn never_panics_on_random_operands(
        name in prop::sample::select(vec!["payload", "meta", "ct", "fib", "cmp", "bitwise", "immediate", "lookup", "numgen", "byteorder", "nat", "masq", "limit", "reject", "counter", "dynset"]),
        row in prop::collection::vec((0_u16..12, prop::collection::vec(0_u8..20, 0..24)), 0..12),
    ) {
        let mut writer = AttrWriter::new();
        for (kind, value) in &row {
            writer.bytes(*kind, value);
        }
        let _ = Expr::decode(name, Attrs::new(writer.as_bytes()));
    }
}
