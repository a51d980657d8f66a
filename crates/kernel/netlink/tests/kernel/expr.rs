//! Every expression comes back from the kernel as it was written.

use sluice_netlink::nftables::{
    Batch, Chain, ChainKind, CmpOp, Connection, Create, CtKey, DynsetOp, Expr, Family, FibAddress,
    Hook, HookPoint, MetaKey, NatKind, PayloadBase, Policy, Register, Reject, Rule, Scope, Set,
    SetData, SetFlags, Verdict,
};

use crate::netns;

fn hook(kind: ChainKind, point: HookPoint) -> Option<Hook> {
    Some(Hook {
        kind,
        point,
        priority: 0,
        policy: Policy::Accept,
    })
}

/// Writes a rule for each list of expressions into a chain of this kind, lists the chain, compares.
#[track_caller]
fn check(family: Family, kind: ChainKind, point: HookPoint, rules: Vec<Vec<Expr>>) {
    netns::run(move || {
        let scope = Scope { family, table: "t" };
        let mut batch = Batch::new();
        batch.add_table(0, scope, None, Create::New);
        let key = Set {
            key_type: 7,
            key_length: 4,
            ..Set::default()
        };
        let sets = [
            Set {
                name: "plain".into(),
                ..key.clone()
            },
            Set {
                name: "verdicts".into(),
                data: Some(SetData::Verdict),
                ..key.clone()
            },
            Set {
                name: "values".into(),
                data: Some(SetData::Value {
                    type_id: 13,
                    length: 2,
                }),
                ..key.clone()
            },
            Set {
                name: "recent".into(),
                flags: SetFlags::TIMEOUT | SetFlags::DYNAMIC,
                timeout_ms: Some(60_000),
                size: Some(1000),
                ..key.clone()
            },
            Set {
                name: "memory".into(),
                flags: SetFlags::DYNAMIC | SetFlags::TIMEOUT,
                size: Some(1000),
                data: Some(SetData::Value {
                    type_id: 7,
                    length: 4,
                }),
                ..key
            },
        ];
        for set in &sets {
            batch.add_set(1, scope, set, Create::New);
        }
        batch.add_chain(
            2,
            scope,
            &Chain {
                name: "leaf".into(),
                ..Chain::default()
            },
            Create::New,
        );
        batch.add_chain(
            3,
            scope,
            &Chain {
                name: "c".into(),
                hook: hook(kind, point),
                comment: None,
            },
            Create::New,
        );
        let rules: Vec<Rule> = rules
            .into_iter()
            .map(|exprs| Rule {
                chain: "c".into(),
                exprs,
                comment: None,
            })
            .collect();
        for (tag, rule) in rules.iter().enumerate() {
            batch.add_rule(u32::try_from(tag).unwrap() + 10, scope, rule);
        }
        let mut connection = Connection::open().unwrap();
        connection.commit(&batch).unwrap();
        let observed = connection.rules(scope, Some("c")).unwrap();
        assert_eq!(observed, rules);
    });
}

fn word(index: u32) -> Register {
    Register::word(index)
}

#[test]
fn every_register_reads_back() {
    let load = |index| {
        vec![Expr::Meta {
            key: MetaKey::Mark,
            dreg: word(index),
        }]
    };
    check(
        Family::Ipv4,
        ChainKind::Filter,
        HookPoint::Input,
        (0..16).map(load).collect(),
    );
}

#[test]
fn loads_read_back() {
    let all_meta = [
        MetaKey::Protocol,
        MetaKey::Mark,
        MetaKey::IncomingIndex,
        MetaKey::OutgoingIndex,
        MetaKey::IncomingName,
        MetaKey::OutgoingName,
        MetaKey::NfProto,
        MetaKey::L4Proto,
        MetaKey::IncomingType,
    ];
    let mut rules: Vec<Vec<Expr>> = all_meta
        .into_iter()
        .map(|key| vec![Expr::Meta { key, dreg: word(4) }])
        .collect();
    for key in [CtKey::State, CtKey::Direction, CtKey::Status] {
        rules.push(vec![Expr::Ct { key, dreg: word(1) }]);
    }
    for address in [FibAddress::Source, FibAddress::Destination] {
        rules.push(vec![Expr::FibType {
            dreg: word(8),
            address,
        }]);
    }
    for (base, offset, len) in [
        (PayloadBase::Network, 16, 4),
        (PayloadBase::Transport, 2, 2),
        (PayloadBase::Network, 8, 16),
    ] {
        rules.push(vec![Expr::Payload {
            dreg: word(0),
            base,
            offset,
            len,
        }]);
    }
    rules.push(vec![Expr::Numgen {
        dreg: word(3),
        modulus: 1000,
    }]);
    check(Family::Ipv4, ChainKind::Filter, HookPoint::Forward, rules);
}

#[test]
fn comparisons_and_constants_read_back() {
    let load = Expr::Payload {
        dreg: word(0),
        base: PayloadBase::Network,
        offset: 0,
        len: 16,
    };
    let ops = [
        CmpOp::Equal,
        CmpOp::NotEqual,
        CmpOp::Less,
        CmpOp::LessOrEqual,
        CmpOp::Greater,
        CmpOp::GreaterOrEqual,
    ];
    let mut rules = Vec::new();
    for op in ops {
        // Short, whole and long values take different paths in the kernel (cmp_fast, cmp16_fast).
        for length in [1, 2, 3, 4, 6, 16] {
            let data = (1..=length).collect();
            rules.push(vec![
                load.clone(),
                Expr::Cmp {
                    op,
                    sreg: word(0),
                    data,
                },
            ]);
        }
    }
    for length in [4, 16] {
        let mask = vec![0xf0; usize::from(length)];
        let xor = (0..length).collect();
        rules.push(vec![
            load.clone(),
            Expr::Bitwise {
                sreg: word(0),
                dreg: word(4),
                mask,
                xor,
            },
        ]);
        rules.push(vec![Expr::ImmediateData {
            dreg: word(5),
            data: (0..length).collect(),
        }]);
    }
    check(Family::Ipv4, ChainKind::Filter, HookPoint::Input, rules);
}

#[test]
fn verdicts_read_back() {
    let verdicts = [
        Verdict::Accept,
        Verdict::Drop,
        Verdict::Return,
        Verdict::Goto("leaf".to_owned()),
        Verdict::Jump("leaf".to_owned()),
    ];
    let mut rules: Vec<Vec<Expr>> = verdicts
        .into_iter()
        .map(|it| vec![Expr::Counter, Expr::Verdict(it)])
        .collect();
    let mark = Expr::ImmediateData {
        dreg: word(0),
        data: vec![0, 0x40, 0, 0],
    };
    rules.push(vec![
        mark,
        Expr::MetaSet {
            key: MetaKey::Mark,
            sreg: word(0),
        },
    ]);
    check(Family::Ipv4, ChainKind::Filter, HookPoint::Output, rules);
}

#[test]
fn lookups_and_dynamic_sets_read_back() {
    let load = Expr::Payload {
        dreg: word(0),
        base: PayloadBase::Network,
        offset: 12,
        len: 4,
    };
    let lookup = |set: &str, dreg, invert| Expr::Lookup {
        set: set.to_owned(),
        sreg: word(0),
        dreg,
        invert,
    };
    let dynset = |op, set: &str, data_reg, timeout_ms| Expr::Dynset {
        op,
        set: set.to_owned(),
        key_reg: word(0),
        data_reg,
        timeout_ms,
    };
    let operations = [
        lookup("plain", None, false),
        lookup("plain", None, true),
        lookup("verdicts", Some(Register::VERDICT), false),
        lookup("values", Some(word(5)), false),
        dynset(DynsetOp::Update, "recent", None, Some(10_800_000)),
        dynset(DynsetOp::Add, "recent", None, None),
        dynset(DynsetOp::Update, "memory", Some(word(0)), Some(10_000)),
    ];
    let rules = operations
        .into_iter()
        .map(|it| vec![load.clone(), it])
        .collect();
    check(Family::Ipv4, ChainKind::Filter, HookPoint::Input, rules);
}

#[test]
fn translation_reads_back() {
    for (family, length) in [(Family::Ipv4, 4), (Family::Ipv6, 16)] {
        let address = Expr::ImmediateData {
            dreg: word(0),
            data: vec![9; length],
        };
        let port = Expr::ImmediateData {
            dreg: word(4),
            data: vec![0, 80],
        };
        let nat = |port_reg| Expr::Nat {
            kind: NatKind::Dnat,
            family,
            addr_reg: word(0),
            port_reg,
        };
        let rules = vec![
            vec![address.clone(), nat(None)],
            vec![address, port, nat(Some(word(4)))],
        ];
        check(family, ChainKind::Nat, HookPoint::Prerouting, rules);
        let masquerade = |fully_random| vec![Expr::Masquerade { fully_random }];
        check(
            family,
            ChainKind::Nat,
            HookPoint::Postrouting,
            vec![masquerade(false), masquerade(true)],
        );
    }
}

#[test]
fn source_translation_reads_back() {
    let address = Expr::ImmediateData {
        dreg: word(0),
        data: vec![9; 4],
    };
    let nat = Expr::Nat {
        kind: NatKind::Snat,
        family: Family::Ipv4,
        addr_reg: word(0),
        port_reg: None,
    };
    check(
        Family::Ipv4,
        ChainKind::Nat,
        HookPoint::Postrouting,
        vec![vec![address, nat]],
    );
}

#[test]
fn rejections_read_back() {
    for family in [Family::Ipv4, Family::Ipv6] {
        let tcp = vec![
            Expr::Meta {
                key: MetaKey::L4Proto,
                dreg: word(0),
            },
            Expr::Cmp {
                op: CmpOp::Equal,
                sreg: word(0),
                data: vec![6],
            },
            Expr::Reject(Reject::TcpReset),
        ];
        let rules = vec![vec![Expr::Reject(Reject::port_unreachable(family))], tcp];
        check(family, ChainKind::Filter, HookPoint::Input, rules);
    }
}
