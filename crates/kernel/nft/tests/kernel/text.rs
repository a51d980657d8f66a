//! Tests that this crate writes rules and sets as `nft list` prints them.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sluice_nft::rule::{Action, ConnectionState, Field, Key, Match, Name, Sense, Side};
use sluice_nft::shape::{Shape, Value};
use sluice_nft::testing::Fake;
use sluice_nft::text::{write_chain, write_set};
use sluice_nft::{
    Batch, Chain, Connection, Create, DataRef, Datum, ElementRef, Family, Kernel, KernelRule,
    KeyBytes, Rule, Scope, Set, SetFlags, Verdict, write_fields,
};

use crate::netns::{self, program};

const ADDRESS: &[Field] = &[Field::Address(Side::Source)];
const FRONTEND: &[Field] = &[
    Field::Address(Side::Destination),
    Field::Protocol,
    Field::Port(Side::Destination),
];
const SLOT: Field = Field::Random {
    modulus: 1,
    offset: 0,
};
const SLOTS: &[Field] = &[FRONTEND[0], FRONTEND[1], FRONTEND[2], SLOT];
const CLIENTS: &[Field] = &[ADDRESS[0], SLOT];
const ENDPOINT: &[Field] = &[
    Field::Address(Side::Destination),
    Field::Port(Side::Destination),
];

/// A set with at most one element, and what nft shows of the element's value.
#[derive(Clone, Debug)]
struct Example {
    set: Set,
    key: &'static [Field],
    value: Option<&'static [Field]>,
    element: Option<Vec<Datum>>,
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)]
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Source), Just(Side::Destination)]
}

fn sense() -> impl Strategy<Value = Sense> {
    prop_oneof![Just(Sense::Is), Just(Sense::IsNot)]
}

fn address(family: Family) -> BoxedStrategy<std::net::IpAddr> {
    match family {
        Family::Ipv4 => (0x0b00_0000_u32..0xdf00_0000)
            .prop_map(|it| std::net::Ipv4Addr::from(it).into())
            .boxed(),
        Family::Ipv6 => any::<u64>()
            .prop_map(|it| std::net::Ipv6Addr::from(0xfd_u128 << 120 | u128::from(it)).into())
            .boxed(),
    }
}

fn net(family: Family) -> impl Strategy<Value = ipnet::IpNet> {
    (address(family), 1..=family.bits())
        .prop_map(|(addr, len)| ipnet::IpNet::new(addr, len).unwrap().trunc())
}

fn word() -> impl Strategy<Value = Arc<str>> {
    "[a-z][a-z0-9]{0,9}".prop_map(Arc::from)
}

/// Conditions that belong together, as a protocol and its port.
fn matches(family: Family) -> impl Strategy<Value = Vec<Match>> {
    use ConnectionState::{Established, Invalid, New, Related, Untracked};
    let states = prop_oneof![
        Just(&[New][..]),
        Just(&[Established, Related][..]),
        Just(&[Invalid, Untracked][..])
    ];
    let one = prop_oneof![
        (side(), sense(), net(family)).prop_map(|(a, b, c)| Match::Address(a, b, c)),
        side().prop_map(Match::IsLocal),
        (sense(), word()).prop_map(|(a, b)| Match::Interface(a, b)),
        (sense(), word()).prop_map(|(a, b)| Match::InterfacePrefix(a, b)),
        (sense(), word()).prop_map(|(a, b)| Match::OutgoingInterface(a, b)),
        states.prop_map(Match::State),
        Just(Match::DestinationTranslated),
        // The highest bit alone is a prefix to nft.
        (0_u32..31).prop_map(|it| Match::Marked(1 << it)),
        (side(), 1_u16..).prop_map(|(a, b)| Match::Port(a, b)),
        (1_u32..9, 10_u32..90).prop_map(|(a, b)| Match::Share(a, b)),
        Just(Match::OnePerSecond),
        sense().prop_map(|it| Match::In(it, ADDRESS.into(), "addresses".into())),
        sense().prop_map(|it| Match::In(it, FRONTEND.into(), "members".into())),
        sense().prop_map(|it| Match::In(it, FRONTEND.into(), "ranges".into())),
        any::<u16>().prop_map(|it| {
            let label = Field::Random {
                modulus: 1,
                offset: it.into(),
            };
            Match::In(Sense::Is, vec![ADDRESS[0], label].into(), "clients".into())
        }),
    ];
    let protocol = prop_oneof![Just(6_u8), Just(17), Just(132)];
    let transport =
        (protocol, side(), 1_u16.., any::<bool>()).prop_map(|(protocol, side, port, has_port)| {
            let port = has_port.then_some(Match::Port(side, port));
            [Match::Protocol(protocol)]
                .into_iter()
                .chain(port)
                .collect()
        });
    // nft prints only one of two conditions that name the protocol.
    (
        prop::collection::vec(one, 0..3),
        prop::option::of(transport),
    )
        .prop_map(
            |(one, transport): (Vec<_>, Option<Vec<_>>)| match transport {
                Some(transport) => transport,
                None => one,
            },
        )
}

fn actions(family: Family) -> impl Strategy<Value = Vec<Action>> {
    let target = || Just(Name::from("target"));
    let last = prop_oneof![
        Just(Action::Accept),
        Just(Action::Return),
        Just(Action::Drop),
        Just(Action::Reject),
        target().prop_map(Action::Jump),
        target().prop_map(Action::Goto),
        Just(Action::Masquerade),
        address(family).prop_map(Action::SourceTo),
        Just(Action::Untrack),
        Just(Action::Verdict(FRONTEND.into(), "frontends".into())),
        (1_u32..70_000).prop_map(|size| {
            let slot = Field::Random {
                modulus: size,
                offset: 0,
            };
            let key: Key = [FRONTEND, &[slot]].concat().into();
            Action::DestinationOf(key, "endpoints".into())
        }),
        (address(family), 1_u16..).prop_map(|it| Action::DestinationTo(it.into())),
    ];
    let before = prop_oneof![
        Just(Action::Count),
        (0_u32..32).prop_map(|it| Action::Mark(1 << it)),
        (0_u32..32).prop_map(|it| Action::Unmark(1 << it)),
        Just(Action::Trace),
        (word(), any::<u16>()).prop_map(|(prefix, group)| {
            let prefix = prefix.to_string().into();
            Action::Log { prefix, group }
        }),
        (1_u32..60, any::<u16>()).prop_map(|(seconds, label)| {
            let label = Field::Random {
                modulus: 1,
                offset: label.into(),
            };
            Action::Remember("clients".into(), vec![ADDRESS[0], label].into(), seconds)
        }),
    ];
    (prop::collection::vec(before, 0..3), last).prop_map(|(mut all, last)| {
        all.push(last);
        all
    })
}

fn rule(family: Family) -> impl Strategy<Value = Rule> {
    let rule = (matches(family), actions(family));
    let rule = rule.prop_map(|(matches, actions)| Rule { matches, actions });
    // nft leaves out the protocol before a key with a port.
    rule.prop_filter("says the protocol twice", |rule| {
        let protocol = |it: &Match| matches!(it, Match::Protocol(_));
        let key = |it: &Action| matches!(it, Action::Verdict(..) | Action::DestinationOf(..));
        !(rule.matches.iter().any(protocol) && rule.actions.iter().any(key))
    })
}

fn sets(family: Family) -> impl Strategy<Value = Vec<Example>> {
    let comment = || {
        prop::option::of(
            "[a-zA-Z0-9 :/,.-]{1,40}"
                .prop_map(|it| it.trim().to_owned())
                .prop_filter("empty", |it| !it.is_empty()),
        )
    };
    (
        net(family),
        address(family),
        any::<u16>(),
        0_u32..9,
        comment(),
        any::<bool>(),
    )
        .prop_map(move |(net, addr, port, slot, comment, counts)| {
            let frontend = vec![Datum::Address(addr), Datum::Protocol(6), Datum::Port(port)];
            let slots = SLOTS;
            let example = |name: &str, key, value, element: Vec<Datum>| {
                let shape = Shape {
                    key,
                    value: of(name, value),
                };
                let set = Set {
                    comment: comment.clone(),
                    ..shape.set(family, name)
                };
                Example {
                    set,
                    key,
                    value,
                    element: Some(element),
                }
            };
            let mut addresses = example("addresses", ADDRESS, None, vec![Datum::Range(net)]);
            addresses.set.flags = SetFlags::INTERVAL;
            let members = example("members", FRONTEND, None, frontend.clone());
            let frontends = example("frontends", FRONTEND, None, frontend.clone());
            let slot = frontend.into_iter().chain([Datum::Number(slot)]).collect();
            let mut endpoints = example("endpoints", slots, Some(ENDPOINT), slot);
            endpoints.set.counter = counts;
            if counts {
                endpoints.element = None;
            }
            let to = port.saturating_add(9);
            let peers = vec![
                Datum::Range(net),
                Datum::Protocol(17),
                Datum::Ports(port, to),
            ];
            let mut ranges = example("ranges", FRONTEND, None, peers);
            let of_ranges = Shape {
                key: FRONTEND,
                value: Value::None,
            };
            ranges.set = Set {
                comment: comment.clone(),
                ..of_ranges.set_of_ranges(family, "ranges")
            };
            let mut clients = example("clients", CLIENTS, None, Vec::new());
            clients.set.flags = SetFlags::DYNAMIC | SetFlags::TIMEOUT;
            clients.set.size = Some(1024);
            clients.element = None;
            vec![addresses, clients, endpoints, frontends, members, ranges]
        })
}

fn of(name: &str, value: Option<&'static [Field]>) -> Value<'static> {
    match value {
        Some(fields) => Value::Fields(fields),
        None if name == "frontends" => Value::Verdict,
        None => Value::None,
    }
}

fn write(batch: &mut Batch, family: Family, sets: &[Example], rules: &[Rule]) {
    let scope = Scope { family, table: "t" };
    batch.add_table(0, scope, None, Create::New);
    for name in ["target", "rules"] {
        let chain = Chain {
            name: name.into(),
            ..Chain::default()
        };
        batch.add_chain(1, scope, &chain, Create::New);
    }
    let mut key = KeyBytes::default();
    for it in sets {
        batch.add_set(2, scope, &it.set, Create::New);
        let Some(fields) = &it.element else { continue };
        key.set(fields);
        let mut value = Vec::new();
        [fields[0], Datum::Port(80)]
            .iter()
            .for_each(|it| it.put(&mut value));
        let data = match of(&it.set.name, it.value) {
            Value::None => None,
            Value::Verdict => Some(DataRef::Verdict(Verdict::Goto("target"))),
            Value::Fields(_) => Some(DataRef::Value(&value)),
        };
        let comment = it.set.comment.as_deref();
        key.write(
            ElementRef {
                data,
                comment,
                ..ElementRef::default()
            },
            |element| {
                batch.add_element(3, scope, &it.set.name, element, Create::New);
            },
        );
    }
    for rule in rules {
        let exprs = rule.exprs(family);
        batch.add_rule(
            4,
            scope,
            &KernelRule {
                chain: "rules".into(),
                exprs,
                comment: None,
            },
        );
    }
}

fn text(family: Family, sets: &[Example], rules: &[Rule]) -> String {
    let mut out = format!("table {} t {{ ", sluice_nft::text::family_word(family));
    for it in sets {
        let shape = Shape {
            key: it.key,
            value: of(&it.set.name, it.value),
        };
        write_set(
            &mut out,
            family,
            &it.set,
            shape,
            it.element.as_slice(),
            |out, fields| {
                write_fields(out, fields)?;
                if let Some(comment) = &it.set.comment {
                    write!(out, " comment \"{comment}\"")?;
                }
                match shape.value {
                    Value::None => Ok(()),
                    Value::Verdict => write!(out, " : goto target"),
                    Value::Fields(_) => write!(out, " : {} . 80", fields[0]),
                }
            },
        )
        .unwrap();
    }
    write_chain::<Name, Name>(&mut out, family, &"target", "", None, &[]).unwrap();
    write_chain(&mut out, family, &"rules", "", None, rules).unwrap();
    out + "}"
}

/// One space between words, and counters without their counts.
fn normal(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace(" packets 0 bytes 0", "")
}

fn check(family: Family, sets: &[Example], rules: &[Rule]) {
    let mut batch = Batch::new();
    write(&mut batch, family, sets, rules);
    Fake::new().commit(&batch).unwrap();
    let mut connection = Connection::open().unwrap();
    connection.commit(&batch).unwrap();
    let listed = normal(&program("nft", &["-y", "list", "ruleset"], ""));
    let mut batch = Batch::new();
    batch.delete_table(0, Scope { family, table: "t" });
    connection.commit(&batch).unwrap();
    let written = normal(&text(family, sets, rules));
    let position = listed
        .bytes()
        .zip(written.bytes())
        .position(|(a, b)| a != b);
    let from = position.unwrap_or_default().saturating_sub(80);
    let near = |text: &str| text.chars().skip(from).take(200).collect::<String>();
    assert_eq!(near(&listed), near(&written));
    assert_eq!(listed, written);
}

#[test]
fn what_is_written_is_what_nft_prints() {
    netns::run(|| {
        let example = family().prop_flat_map(|family| {
            let rules = prop::collection::vec(rule(family), 0..40);
            (Just(family), sets(family), rules)
        });
        let config = ProptestConfig {
            cases: 48,
            max_shrink_iters: 200,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let mut runner = TestRunner::new(config);
        let result = runner.run(&example, |(family, sets, rules)| {
            check(family, &sets, &rules);
            Ok(())
        });
        result.unwrap();
    });
}
