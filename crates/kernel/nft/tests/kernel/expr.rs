//! Tests that the kernel lists every expression as it was written.

use sluice_nft::{
    Batch, Chain, ChainKind, CmpOp, Connection, Create, CtKey, Expr, Family, FibAddress, Hook,
    HookPoint, Kernel as _, KernelRule, MetaKey, PayloadBase, Policy, Register, Scope, Set,
    SetData, SetFlags, Verdict,
};

use crate::netns;
use crate::table;

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
        let rules: Vec<KernelRule> = rules
            .into_iter()
            .map(|exprs| KernelRule {
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
    let all_meta = [MetaKey::Mark, MetaKey::IncomingName, MetaKey::L4Proto];
    let mut rules: Vec<Vec<Expr>> = all_meta
        .into_iter()
        .map(|key| vec![Expr::Meta { key, dreg: word(4) }])
        .collect();
    for key in [CtKey::State, CtKey::Status] {
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
    for offset in [0, 7] {
        let number = Expr::Numgen {
            dreg: word(3),
            modulus: 1000,
            offset,
        };
        rules.push(vec![number, Expr::ToNetworkOrder { reg: word(3) }]);
    }
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
    let mut rules = Vec::new();
    for op in [CmpOp::Equal, CmpOp::NotEqual, CmpOp::Less] {
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
        .map(|it| vec![Expr::Verdict(it)])
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
    let one = Expr::ImmediateData {
        dreg: word(0),
        data: vec![1],
    };
    let trace = Expr::MetaSet {
        key: MetaKey::Trace,
        sreg: word(0),
    };
    rules.push(vec![Expr::OnePerSecond, one, trace]);
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
    let update = Expr::Update {
        set: "recent".to_owned(),
        key_reg: word(0),
        timeout_ms: 10_800_000,
    };
    let operations = [
        lookup("plain", None, false),
        lookup("plain", None, true),
        lookup("verdicts", Some(Register::VERDICT), false),
        lookup("values", Some(word(5)), false),
        update,
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
        let dnat = Expr::Dnat {
            family,
            addr_reg: word(0),
            port_reg: word(4),
        };
        let snat = Expr::Snat {
            family,
            addr_reg: word(0),
        };
        let rules = vec![vec![address.clone(), port, dnat]];
        check(family, ChainKind::Nat, HookPoint::Prerouting, rules);
        let rules = vec![vec![Expr::Masquerade], vec![address, snat]];
        check(family, ChainKind::Nat, HookPoint::Postrouting, rules);
    }
}

#[test]
fn rejections_read_back() {
    for family in [Family::Ipv4, Family::Ipv6] {
        let reject = Expr::port_unreachable(family);
        let rules = vec![vec![reject.clone()], vec![Expr::Counter, reject]];
        check(family, ChainKind::Filter, HookPoint::Input, rules);
    }
}

#[test]
fn changes_of_ports_and_untracked_packets_read_back() {
    let port = Expr::ImmediateData {
        dreg: word(0),
        data: vec![0x13, 0x88],
    };
    for (offset, checksum) in [(0, 6), (2, 16)] {
        let set = Expr::PayloadSet {
            sreg: word(0),
            offset,
            len: 2,
            checksum,
        };
        let rules = vec![vec![port.clone(), set, Expr::Untrack]];
        check(
            Family::Ipv6,
            ChainKind::Filter,
            HookPoint::Prerouting,
            rules,
        );
    }
}

/// Expressions of the same names with further operands.
#[test]
fn expressions_that_cannot_be_expressed_are_other() {
    netns::run(|| {
        netns::program("nft", &["-f", "-"], OTHER);
        let mut connection = Connection::open().unwrap();
        let rules = connection.rules(table::SCOPE, None).unwrap();
        assert_eq!(rules.len(), 9);
        for rule in rules {
            let is_other = |it: &Expr| matches!(it, Expr::Other { .. });
            assert!(rule.exprs.iter().any(is_other), "{rule:?}");
        }
    });
}

const OTHER: &str = "
table ip t {
    set recent { type ipv4_addr; size 100; flags dynamic, timeout; timeout 1m; }
    chain filter {
        meta oifgroup 7 accept
        ct direction original accept
        ip ttl > 3 accept
        limit rate 1/second accept
        meta l4proto tcp reject with tcp reset
        add @recent { ip saddr }
    }
    chain sources {
        type nat hook postrouting priority 0;
        snat to 10.0.0.1
        masquerade
    }
    chain destinations {
        type nat hook prerouting priority 0;
        dnat to 10.0.0.1
    }
}
";
