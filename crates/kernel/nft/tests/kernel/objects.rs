//! Tests that tables, chains, rules and sets are listed as they were written.

use sluice_netlink::{Errno, RequestError};
use sluice_nft::{
    Batch, Chain, ChainKind, Connection, Create, Expr, Family, Hook, HookPoint, Kernel as _,
    KernelRule, Policy, Scope, Set, SetData, SetFlags, Table, Verdict, push_tlv,
};

use crate::netns;
use crate::table::{self, SCOPE};

#[test]
fn tables_read_back() {
    netns::run(|| {
        let mut batch = Batch::new();
        let long = "é".repeat(100);
        batch.add_table(0, SCOPE, Some("a table"), Create::New);
        batch.add_table(
            1,
            Scope {
                table: "other",
                ..SCOPE
            },
            Some(&long),
            Create::New,
        );
        batch.add_table(
            2,
            Scope {
                family: Family::Ipv6,
                table: "six",
            },
            None,
            Create::New,
        );
        let mut connection = Connection::open().unwrap();
        connection.commit(&batch).unwrap();
        let table = |name: &str, comment: Option<String>| Table {
            name: name.into(),
            comment,
            is_dormant: false,
        };
        assert_eq!(
            connection.tables(Family::Ipv4).unwrap(),
            [
                table("t", Some("a table".into())),
                table("other", Some("é".repeat(63)))
            ]
        );
        assert_eq!(
            connection.tables(Family::Ipv6).unwrap(),
            [table("six", None)]
        );
    });
}

#[test]
fn chains_and_rules_read_back() {
    netns::run(|| {
        let hook = |kind, point, priority, policy| {
            Some(Hook {
                kind,
                point,
                priority,
                policy,
            })
        };
        let chain = |name: &str, hook, comment: Option<&str>| Chain {
            name: name.into(),
            hook,
            comment: comment.map(str::to_owned),
        };
        let chains = [
            chain("plain", None, Some("no hook")),
            chain(
                "pre",
                hook(ChainKind::Nat, HookPoint::Prerouting, -100, Policy::Accept),
                None,
            ),
            chain(
                "in",
                hook(ChainKind::Filter, HookPoint::Input, 0, Policy::Drop),
                Some("drops"),
            ),
            chain(
                "fwd",
                hook(ChainKind::Filter, HookPoint::Forward, 7, Policy::Accept),
                None,
            ),
            chain(
                "out",
                hook(ChainKind::Route, HookPoint::Output, -150, Policy::Accept),
                None,
            ),
            chain(
                "post",
                hook(ChainKind::Nat, HookPoint::Postrouting, 100, Policy::Accept),
                None,
            ),
        ];
        let rule = |chain: &str, comment: Option<&str>| KernelRule {
            chain: chain.into(),
            exprs: vec![Expr::Verdict(Verdict::Accept)],
            comment: comment.map(str::to_owned),
        };
        let rules = [
            rule("in", Some("first")),
            rule("in", None),
            rule("fwd", Some("ns/name:port")),
        ];
        let mut connection = table::commit(|batch| {
            chains
                .iter()
                .for_each(|it| batch.add_chain(1, SCOPE, it, Create::New));
            rules.iter().for_each(|it| batch.add_rule(2, SCOPE, it));
            let other = Scope {
                table: "other",
                ..SCOPE
            };
            batch.add_table(3, other, None, Create::New);
            batch.add_chain(4, other, &chains[0], Create::New);
        });
        assert_eq!(connection.chains(SCOPE).unwrap(), chains);
        assert_eq!(connection.rules(SCOPE, Some("in")).unwrap(), rules[..2]);
        assert_eq!(connection.rules(SCOPE, None).unwrap(), rules);
        assert_eq!(
            connection.rules(SCOPE, Some("none")).unwrap_or_default(),
            []
        );

        let mut batch = Batch::new();
        batch.flush_chain(0, SCOPE, "in");
        batch.delete_chain(1, SCOPE, "plain");
        connection.commit(&batch).unwrap();
        assert_eq!(connection.rules(SCOPE, None).unwrap(), rules[2..]);
        assert_eq!(connection.chains(SCOPE).unwrap(), chains[1..]);
    });
}

fn declared(connection: &mut Connection) -> Vec<Set> {
    let sets = connection.sets(SCOPE).unwrap();
    sets.into_iter().map(|(set, _)| set).collect()
}

#[test]
fn sets_read_back() {
    netns::run(|| {
        let mut userdata = Vec::new();
        push_tlv(&mut userdata, 0, &2_u32.to_ne_bytes());
        let sets = [
            Set {
                name: "plain".into(),
                key_type: 7,
                key_length: 4,
                comment: Some("a set".into()),
                ..Set::default()
            },
            Set {
                name: "ranges".into(),
                flags: SetFlags::INTERVAL,
                key_type: 7,
                key_length: 4,
                userdata,
                comment: Some("with user data".into()),
                ..Set::default()
            },
            Set {
                name: "recent".into(),
                flags: SetFlags::TIMEOUT | SetFlags::DYNAMIC,
                key_type: 7,
                key_length: 4,
                timeout_ms: Some(10_800_000),
                size: Some(65_536),
                ..Set::default()
            },
            Set {
                name: "frontends".into(),
                key_type: (7 << 12) | (12 << 6) | 13,
                key_length: 12,
                data: Some(SetData::Verdict),
                ..Set::default()
            },
            Set {
                name: "endpoints".into(),
                key_type: 7,
                key_length: 4,
                data: Some(SetData::Value {
                    type_id: 7,
                    length: 4,
                }),
                counter: true,
                ..Set::default()
            },
            Set {
                name: "sources".into(),
                flags: SetFlags::INTERVAL | SetFlags::CONCAT,
                key_type: (7 << 6) | 7,
                key_length: 8,
                data: Some(SetData::Value {
                    type_id: (7 << 6) | 13,
                    length: 8,
                }),
                field_lengths: vec![4, 4],
                ..Set::default()
            },
        ];
        let mut connection = table::commit(|batch| {
            sets.iter()
                .for_each(|it| batch.add_set(1, SCOPE, it, Create::New));
        });
        assert_eq!(declared(&mut connection), sets);

        let mut batch = Batch::new();
        sets.iter()
            .for_each(|it| batch.add_set(1, SCOPE, it, Create::IfMissing));
        batch.delete_set(2, SCOPE, "plain");
        connection.commit(&batch).unwrap();
        assert_eq!(declared(&mut connection), sets[1..]);
    });
}

#[test]
fn what_is_not_there_is_said() {
    netns::run(|| {
        let mut connection = Connection::open().unwrap();
        assert_eq!(connection.tables(Family::Ipv4).unwrap(), []);
        assert_eq!(connection.chains(SCOPE).unwrap(), []);
        let result = connection.for_each_element(SCOPE, "none", |_| ());
        assert!(
            matches!(
                result,
                Err(RequestError::Refused {
                    errno: Errno::ENOENT,
                    ..
                })
            ),
            "{result:?}"
        );
    });
}

#[test]
fn every_transaction_raises_the_generation() {
    netns::run(|| {
        let mut connection = Connection::open().unwrap();
        let before = connection.generation().unwrap().id;
        connection.commit(&table::batch_with_table()).unwrap();
        assert_eq!(connection.generation().unwrap().id, before + 1);
        connection.commit(&Batch::new()).unwrap();
        assert_eq!(
            connection.generation().unwrap().id,
            before + 1,
            "an empty batch is not sent"
        );
    });
}
