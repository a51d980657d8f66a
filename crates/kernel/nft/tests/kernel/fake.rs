//! The fake accepts and refuses what the kernel does, for the same reason and the same object.

use std::net::Ipv4Addr;

use sluice_netlink::Errno;
use sluice_nft::rule::{Action, Field, Match, Sense, Side};
use sluice_nft::shape::{Shape, Value};
use sluice_nft::testing::Fake;
use sluice_nft::{
    Batch, Chain, ChainKind, CommitError, Connection, Create, DataRef, ElementRef, Expr, Family,
    Hook, HookPoint, Kernel, KernelRule, Policy, Register, Rule, Set, SetFlags, Verdict,
};

use crate::netns;
use crate::table::SCOPE;

type Case = (&'static str, fn(&mut Batch));

fn hook(priority: i32) -> Option<Hook> {
    Some(Hook {
        kind: ChainKind::Filter,
        point: HookPoint::Input,
        priority,
        policy: Policy::Accept,
    })
}

fn chain(batch: &mut Batch, tag: u32, name: &str, hook: Option<Hook>, create: Create) {
    let chain = Chain {
        name: name.to_owned(),
        hook,
        comment: None,
    };
    batch.add_chain(tag, SCOPE, &chain, create);
}

fn rule(batch: &mut Batch, tag: u32, chain: &str, rule: &Rule) {
    exprs(batch, tag, chain, rule.exprs(Family::Ipv4));
}

fn exprs(batch: &mut Batch, tag: u32, chain: &str, exprs: Vec<Expr>) {
    let rule = KernelRule {
        chain: chain.to_owned(),
        exprs,
        comment: None,
    };
    batch.add_rule(tag, SCOPE, &rule);
}

fn set(name: &str, value: Value<'_>) -> Set {
    let key = &[Field::Address(Side::Source)];
    Shape { key, value }.set(Family::Ipv4, name)
}

const ADDRESS: &[Field] = &[Field::Address(Side::Source)];

fn jump(name: &'static str) -> Rule {
    Rule::always(Action::Jump(name.into()))
}

fn goto(chain: &str) -> Option<DataRef<'_>> {
    Some(DataRef::Verdict(Verdict::Goto(chain)))
}

fn element(batch: &mut Batch, tag: u32, set: &str, key: &[u8], data: Option<DataRef<'_>>) {
    let element = ElementRef {
        key,
        data,
        ..ElementRef::default()
    };
    batch.add_element(tag, SCOPE, set, &element, Create::IfMissing);
}

fn lookup(set: &'static str) -> Rule {
    let is_in = Match::In(Sense::Is, ADDRESS.into(), set.into());
    Rule::when(is_in, Action::Drop)
}

/// The table at the start of every case.
fn base(batch: &mut Batch) {
    batch.add_table(100, SCOPE, None, Create::IfMissing);
    chain(batch, 101, "base", hook(0), Create::New);
    for name in ["free", "jumped", "mapped", "full"] {
        chain(batch, 102, name, None, Create::New);
    }
    batch.add_set(103, SCOPE, &set("free-set", Value::None), Create::New);
    batch.add_set(104, SCOPE, &set("used", Value::None), Create::New);
    batch.add_set(105, SCOPE, &set("verdicts", Value::Verdict), Create::New);
    let values = set("values", Value::Fields(ADDRESS));
    batch.add_set(106, SCOPE, &values, Create::New);
    let small = Set {
        size: Some(1),
        ..set("small", Value::None)
    };
    batch.add_set(107, SCOPE, &small, Create::New);
    let ranges = Set {
        flags: SetFlags::INTERVAL,
        ..set("ranges", Value::None)
    };
    batch.add_set(108, SCOPE, &ranges, Create::New);
    rule(batch, 109, "base", &jump("jumped"));
    rule(batch, 110, "base", &lookup("used"));
    let verdict = Rule::always(Action::Verdict(ADDRESS.into(), "verdicts".into()));
    rule(batch, 111, "base", &verdict);
    element(batch, 112, "verdicts", &[10, 0, 0, 1], goto("mapped"));
    element(
        batch,
        113,
        "values",
        &[10, 0, 0, 1],
        Some(DataRef::Value(&[10, 0, 0, 2])),
    );
    element(batch, 114, "used", &[10, 0, 0, 1], None);
}

const CASES: &[Case] = &[
    ("nothing", |_| {}),
    ("rule, missing set", |it| {
        rule(it, 1, "free", &lookup("nowhere"))
    }),
    ("rule, set of this batch", |it| {
        it.add_set(1, SCOPE, &set("fresh", Value::None), Create::New);
        rule(it, 2, "free", &lookup("fresh"));
    }),
    ("rule, missing chain", |it| {
        rule(it, 1, "nowhere", &jump("free"))
    }),
    ("jump to a missing chain", |it| {
        rule(it, 1, "free", &jump("nowhere"))
    }),
    ("jump to a base chain", |it| {
        rule(it, 1, "free", &jump("base"))
    }),
    ("jump to itself", |it| {
        rule(it, 1, "jumped", &jump("jumped"))
    }),
    ("a loop of two", |it| {
        rule(it, 1, "jumped", &jump("free"));
        rule(it, 2, "free", &jump("jumped"));
    }),
    ("a loop by a map", |it| {
        element(it, 1, "verdicts", &[10, 0, 0, 9], goto("free"));
        let verdict = Rule::always(Action::Verdict(ADDRESS.into(), "verdicts".into()));
        rule(it, 2, "free", &verdict);
    }),
    ("a loop by an element", |it| {
        let verdict = Rule::always(Action::Verdict(ADDRESS.into(), "verdicts".into()));
        rule(it, 1, "free", &verdict);
        element(it, 2, "verdicts", &[10, 0, 0, 9], goto("free"));
    }),
    ("delete a chain", |it| it.delete_chain(1, SCOPE, "free")),
    ("delete a chain twice", |it| {
        it.delete_chain(1, SCOPE, "free");
        it.delete_chain(2, SCOPE, "free");
    }),
    ("delete a chain that is jumped to", |it| {
        it.delete_chain(1, SCOPE, "jumped")
    }),
    ("delete it after its jump", |it| {
        it.flush_chain(1, SCOPE, "base");
        it.delete_chain(2, SCOPE, "jumped");
    }),
    ("delete a chain of an element", |it| {
        it.delete_chain(1, SCOPE, "mapped")
    }),
    ("delete it after its element", |it| {
        let element = ElementRef {
            key: &[10, 0, 0, 1],
            ..ElementRef::default()
        };
        it.delete_element(1, SCOPE, "verdicts", &element);
        it.delete_chain(2, SCOPE, "mapped");
    }),
    ("delete a chain of a flushed map", |it| {
        it.flush_set(1, SCOPE, "verdicts");
        it.delete_chain(2, SCOPE, "mapped");
    }),
    ("delete a missing chain", |it| {
        it.delete_chain(1, SCOPE, "nowhere")
    }),
    ("flush a missing chain", |it| {
        it.flush_chain(1, SCOPE, "nowhere")
    }),
    ("delete a missing rule", |it| {
        it.delete_rule(1, SCOPE, "base", 4711)
    }),
    ("delete a set", |it| it.delete_set(1, SCOPE, "free-set")),
    ("delete a used set", |it| it.delete_set(1, SCOPE, "used")),
    ("delete it after its rule", |it| {
        it.flush_chain(1, SCOPE, "base");
        it.delete_set(2, SCOPE, "used");
    }),
    ("delete a missing set", |it| {
        it.delete_set(1, SCOPE, "nowhere")
    }),
    ("flush a missing set", |it| {
        it.flush_set(1, SCOPE, "nowhere")
    }),
    ("delete the table", |it| it.delete_table(1, SCOPE)),
    ("an object of a deleted table", |it| {
        it.delete_table(1, SCOPE);
        chain(it, 2, "late", None, Create::New);
    }),
    ("the table again", |it| {
        it.add_table(1, SCOPE, None, Create::IfMissing)
    }),
    ("the table anew", |it| {
        it.add_table(1, SCOPE, None, Create::New)
    }),
    ("a chain again", |it| {
        chain(it, 1, "free", None, Create::IfMissing)
    }),
    ("a chain anew", |it| chain(it, 1, "free", None, Create::New)),
    ("a base chain again", |it| {
        chain(it, 1, "base", hook(0), Create::IfMissing)
    }),
    ("a base chain of another priority", |it| {
        chain(it, 1, "base", hook(7), Create::IfMissing)
    }),
    ("a set again", |it| {
        it.add_set(1, SCOPE, &set("used", Value::None), Create::IfMissing)
    }),
    ("a set anew", |it| {
        it.add_set(1, SCOPE, &set("used", Value::None), Create::New)
    }),
    ("a set as a map", |it| {
        it.add_set(1, SCOPE, &set("used", Value::Verdict), Create::IfMissing)
    }),
    ("an element", |it| {
        element(it, 1, "used", &[10, 0, 0, 7], None)
    }),
    ("an element of a missing set", |it| {
        element(it, 1, "nowhere", &[10, 0, 0, 7], None)
    }),
    ("a short key", |it| {
        element(it, 1, "used", &[10, 0, 0], None)
    }),
    ("a long key", |it| {
        element(it, 1, "used", &[10, 0, 0, 1, 0, 0, 0, 1], None)
    }),
    ("a map's element without data", |it| {
        element(it, 1, "values", &[10, 0, 0, 7], None)
    }),
    ("a set's element with data", |it| {
        element(
            it,
            1,
            "used",
            &[10, 0, 0, 7],
            Some(DataRef::Value(&[10, 0, 0, 2])),
        );
    }),
    ("a value in a verdict map", |it| {
        element(
            it,
            1,
            "verdicts",
            &[10, 0, 0, 7],
            Some(DataRef::Value(&[10, 0, 0, 2])),
        );
    }),
    ("a verdict in a value map", |it| {
        element(it, 1, "values", &[10, 0, 0, 7], goto("free"))
    }),
    ("a short value", |it| {
        element(
            it,
            1,
            "values",
            &[10, 0, 0, 7],
            Some(DataRef::Value(&[10, 0])),
        );
    }),
    ("an element to a missing chain", |it| {
        element(it, 1, "verdicts", &[10, 0, 0, 7], goto("nowhere"));
    }),
    ("an element again", |it| {
        element(it, 1, "used", &[10, 0, 0, 1], None)
    }),
    ("an element anew", |it| {
        let element = ElementRef {
            key: &[10, 0, 0, 1],
            ..ElementRef::default()
        };
        it.add_element(1, SCOPE, "used", &element, Create::New);
    }),
    ("an element with other data", |it| {
        element(
            it,
            1,
            "values",
            &[10, 0, 0, 1],
            Some(DataRef::Value(&[10, 0, 0, 3])),
        );
    }),
    ("the third of four elements", |it| {
        element(
            it,
            1,
            "values",
            &[10, 0, 1, 1],
            Some(DataRef::Value(&[10, 0, 0, 3])),
        );
        element(
            it,
            2,
            "values",
            &[10, 0, 1, 2],
            Some(DataRef::Value(&[10, 0, 0, 3])),
        );
        element(it, 3, "values", &[10, 0, 1, 3], None);
        element(
            it,
            4,
            "values",
            &[10, 0, 1, 4],
            Some(DataRef::Value(&[10, 0, 0, 3])),
        );
    }),
    ("a missing element goes", |it| {
        let element = ElementRef {
            key: &[10, 9, 9, 9],
            ..ElementRef::default()
        };
        it.delete_element(1, SCOPE, "used", &element);
    }),
    ("a full set", |it| {
        element(it, 1, "small", &[10, 0, 0, 1], None);
        element(it, 2, "small", &[10, 0, 0, 2], None);
    }),
    ("a timeout in a set without", |it| {
        let element = ElementRef {
            key: &[10, 0, 0, 8],
            timeout_ms: Some(1000),
            ..ElementRef::default()
        };
        it.add_element(1, SCOPE, "used", &element, Create::New);
    }),
    ("the end of a range", |it| {
        for (tag, key, interval_end) in [(1, [10, 0, 0, 0], false), (2, [10, 1, 0, 0], true)] {
            let element = ElementRef {
                key: &key,
                interval_end,
                ..ElementRef::default()
            };
            it.add_element(tag, SCOPE, "ranges", &element, Create::New);
        }
    }),
    ("the end of a range in a set of keys", |it| {
        let element = ElementRef {
            key: &[10, 0, 0, 8],
            interval_end: true,
            ..ElementRef::default()
        };
        it.add_element(1, SCOPE, "used", &element, Create::New);
    }),
    ("remembering in a set without timeouts", |it| {
        let remember = Action::Remember("used".into(), ADDRESS.into(), 10);
        rule(it, 1, "free", &Rule::always(remember));
    }),
    ("the data of a set without", |it| {
        let verdict = Action::Verdict(ADDRESS.into(), "used".into());
        rule(it, 1, "free", &Rule::always(verdict));
    }),
    ("a value as a verdict", |it| {
        let verdict = Action::Verdict(ADDRESS.into(), "values".into());
        rule(it, 1, "free", &Rule::always(verdict));
    }),
    ("a verdict as a value", |it| {
        let mut list = lookup("verdicts").exprs(Family::Ipv4);
        let place = list.iter().position(|it| it.name() == "lookup").unwrap();
        if let Expr::Lookup { dreg, .. } = &mut list[place] {
            *dreg = Some(Register::word(0));
        }
        exprs(it, 1, "free", list);
    }),
    ("a rule that translates the source", |it| {
        let source = Action::SourceTo(Ipv4Addr::new(10, 0, 0, 1).into());
        rule(it, 1, "free", &Rule::always(source));
    }),
    ("two mistakes", |it| {
        it.delete_set(1, SCOPE, "nowhere");
        it.delete_set(2, SCOPE, "free-set");
        it.delete_chain(3, SCOPE, "nowhere");
    }),
];

fn answer(result: Result<(), CommitError>) -> Vec<(Vec<u32>, Errno)> {
    match result {
        Ok(()) => Vec::new(),
        Err(CommitError::Refused { failures }) => {
            failures.into_iter().map(|it| (it.tags, it.errno)).collect()
        }
        Err(error) => panic!("{error}"),
    }
}

/// All objects that can be listed.
fn listing(kernel: &mut impl Kernel) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(
        kernel
            .chains(SCOPE)
            .unwrap()
            .iter()
            .map(|it| format!("{it:?}")),
    );
    all.extend(
        kernel
            .rules(SCOPE, None)
            .unwrap()
            .iter()
            .map(|it| format!("{it:?}")),
    );
    let sets = kernel.sets(SCOPE).unwrap_or_default();
    for (set, _) in sets {
        all.push(format!("{set:?}"));
        let visit = |it: ElementRef<'_>| all.push(format!("{} {it:?}", set.name));
        kernel.for_each_element(SCOPE, &set.name, visit).unwrap();
        if !set.flags.contains(SetFlags::INTERVAL) {
            let visit = |it: ElementRef<'_>| all.push(format!("{} has {it:?}", set.name));
            let keys = [[10, 0, 0, 1], [10, 0, 0, 9]];
            kernel
                .find_elements(SCOPE, &set.name, &keys, visit)
                .unwrap();
        }
    }
    all.sort();
    all
}

#[test]
fn the_fake_answers_as_the_kernel() {
    netns::run(|| {
        let mut kernel = Connection::open().unwrap();
        let mut differences = Vec::new();
        for (name, change) in CASES {
            let mut fake = Fake::new();
            let mut batch = Batch::new();
            base(&mut batch);
            fake.commit(&batch).unwrap();
            kernel.commit(&batch).unwrap();
            let mut batch = Batch::new();
            change(&mut batch);
            let expected = answer(kernel.commit(&batch));
            let found = answer(fake.commit(&batch));
            if expected != found {
                differences.push(format!("{name}: kernel {expected:?}, fake {found:?}"));
            } else if listing(&mut kernel) != listing(&mut fake) {
                differences.push(format!("{name}: another listing"));
            }
            if !kernel.tables(Family::Ipv4).unwrap().is_empty() {
                let mut batch = Batch::new();
                batch.delete_table(0, SCOPE);
                kernel.commit(&batch).unwrap();
            }
        }
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    });
}
