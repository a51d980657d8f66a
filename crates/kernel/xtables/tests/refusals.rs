//! What the programs of both variants and families refuse, and how it is told.
use std::fs::{self, File};
use std::path::Path;

use sluice_lab::{Netns, require_netns};
use sluice_model::IpFamily;
use sluice_xtables::parse::parse_rule;
use sluice_xtables::programs::{Lock, Marks, Programs, RestoreError, RunError, SaveError, Variant};
use sluice_xtables::rule::{ChainName, Rule, Table};
use sluice_xtables::script::{Lines, Script};

fn programs(variant: Variant, folder: &Path) -> Programs {
    let file = folder.join("lock");
    let seconds = 1;
    let lock = Lock { file, seconds };
    Programs::find(variant).unwrap().with_lock(lock)
}

/// Two chains, and a change at line 4.
fn script<'a>(change: impl Fn(&mut Lines<'_>) + Sync + 'a) -> Script<'a> {
    Script::new(move |lines| {
        lines.table(Table::Nat);
        lines.declare(&chain("A"));
        lines.declare(&chain("B"));
        change(lines);
        lines.append(&chain("B"), &parse_rule("-j RETURN"));
    })
}

fn chain(name: &str) -> ChainName {
    ChainName::new(name)
}

/// Calls `check` for each variant and family in a namespace of its own.
fn everywhere(check: impl Fn(&Programs, IpFamily) + Sync) {
    let folder = tempfile::tempdir().unwrap();
    for variant in Variant::ALL {
        let programs = programs(variant, folder.path());
        for family in IpFamily::ALL {
            let netns = Netns::new("refusals").unwrap();
            netns.run(|| check(&programs, family));
        }
    }
}

fn foreign(text: &str) -> Rule {
    Rule::Foreign(text.into())
}

#[test]
fn a_refused_line_is_named() {
    require_netns!();
    type Change = fn(&mut Lines<'_>);
    let cases: [(&str, Change); 7] = [
        ("unknown option", |it| {
            it.append(&chain("A"), &foreign("--bogus"))
        }),
        ("unknown match", |it| {
            it.append(&chain("A"), &foreign("-m nosuch"))
        }),
        ("missing set", |it| {
            it.append(&chain("A"), &foreign("-m set --match-set NOSUCH dst"))
        }),
        ("port without protocol", |it| {
            it.append(&chain("A"), &foreign("--dport 80"))
        }),
        ("missing rule", |it| {
            it.delete(&chain("A"), &parse_rule("-j ACCEPT"))
        }),
        ("missing chain", |it| {
            it.append(&chain("GONE"), &parse_rule("-j ACCEPT"))
        }),
        ("chain to remove is missing", |it| it.remove(&chain("GONE"))),
    ];
    everywhere(|programs, family| {
        for (what, change) in cases {
            let script = script(change);
            let error = programs.restore(family, &script).unwrap_err();
            let RestoreError::Refused {
                line: 4,
                text,
                reason,
                ..
            } = &error
            else {
                panic!("{what}: {error}");
            };
            assert_eq!(script.line(4).as_ref(), Some(text));
            assert!(
                !reason.is_empty() && !reason.contains("iptables"),
                "{what}: {reason}"
            );
            assert!(error.to_string().contains(text), "{error}");
            // Nothing of a refused table is written.
            let seen = programs.save(family, &Table::ALL).unwrap().rules;
            assert!(!seen.contains_key(&(Table::Nat, chain("A"))), "{what}");
        }
    });
}

#[test]
fn what_only_the_kernel_refuses_has_a_line() {
    require_netns!();
    let around = script(|it| {
        it.insert(&chain("PREROUTING"), &parse_rule("-j A"));
        it.append(&chain("A"), &parse_rule("-j B"));
        it.append(&chain("B"), &parse_rule("-j A"));
    });
    let lost = script(|it| it.append(&chain("A"), &parse_rule("-j NOSUCH")));
    everywhere(|programs, family| {
        for script in [&around, &lost] {
            let error = programs.restore(family, script).unwrap_err();
            assert!(
                matches!(error, RestoreError::Refused { line: 4.., .. }),
                "{error}"
            );
            let seen = programs.save(family, &Table::ALL).unwrap().rules;
            assert!(!seen.contains_key(&(Table::Nat, chain("A"))));
        }
    });
}

#[test]
fn counters_and_rules_of_others_stay() {
    require_netns!();
    everywhere(|programs, family| {
        let other = "-o lo -m comment --comment \"of somebody else\" -j ACCEPT";
        programs
            .restore(
                family,
                &script(|it| it.append(&chain("A"), &foreign(other))),
            )
            .unwrap();
        let before = programs.save(family, &Table::ALL).unwrap().rules;
        let more = Script::new(|lines| {
            lines.table(Table::Nat);
            lines.declare(&chain("C"));
            lines.insert(&chain("B"), &parse_rule("-j C"));
        });
        programs.restore(family, &more).unwrap();
        let after = programs.save(family, &Table::ALL).unwrap().rules;
        let key = (Table::Nat, chain("A"));
        assert_eq!(before[&key], [foreign(other)]);
        assert_eq!(after[&key], before[&key]);
        let expected = [parse_rule("-j C"), parse_rule("-j RETURN")];
        assert_eq!(after[&(Table::Nat, chain("B"))], expected);
    });
}

/// More than pipes hold, in both directions.
#[test]
fn long_scripts_do_not_get_stuck() {
    require_netns!();
    everywhere(|programs, family| {
        let number = |it: u32| chain(&format!("CHAIN-{it}"));
        let declare = |lines: &mut Lines<'_>| {
            lines.table(Table::Nat);
            for it in 0..20_000 {
                lines.declare(&number(it));
                lines.may_cut(programs.variant().largest_step());
            }
        };
        programs.restore(family, &Script::new(declare)).unwrap();
        assert!(programs.save(family, &Table::ALL).unwrap().rules.len() >= 20_000);
        let refused = Script::new(|lines| {
            declare(lines);
            lines.append(&number(1), &foreign("--bogus"));
            for it in 0..20_000 {
                lines.append(&number(it), &parse_rule("-j RETURN"));
            }
        });
        let error = programs.restore(family, &refused).unwrap_err();
        assert!(error.to_string().contains("-A CHAIN-1 --bogus"), "{error}");
    });
}

#[test]
fn a_busy_lock_is_named() {
    require_netns!();
    let folder = tempfile::tempdir().unwrap();
    let legacy = programs(Variant::Legacy, folder.path());
    let script = script(|_| {});
    Netns::new("lock").unwrap().run(|| {
        let file = folder.path().join("lock");
        let lock = File::create(&file).unwrap();
        lock.lock().unwrap();
        for family in IpFamily::ALL {
            let error = legacy.restore(family, &script).unwrap_err();
            let text = format!(
                "the xtables lock {} was not free within 1 s",
                file.display()
            );
            assert_eq!(error.to_string(), text);
            // Reading and the other variant need no lock.
            legacy.save(family, &Table::ALL).unwrap();
            programs(Variant::Nft, folder.path())
                .restore(family, &script)
                .unwrap();
        }
        lock.unlock().unwrap();
        legacy.restore(IpFamily::V4, &script).unwrap();
    });
}

#[test]
fn what_is_no_lines_fault_is_a_failure() {
    require_netns!();
    let nowhere = Lock {
        file: "/nonexistent/lock".into(),
        seconds: 1,
    };
    let legacy = Programs::find(Variant::Legacy).unwrap().with_lock(nowhere);
    let error = Netns::new("failure")
        .unwrap()
        .run(|| legacy.restore(IpFamily::V4, &script(|_| {})).unwrap_err());
    let is_failure = matches!(error, RestoreError::Failed(RunError::Failed { .. }));
    assert!(is_failure, "{error}");
    assert!(error.to_string().contains("/nonexistent/lock"), "{error}");
}

#[test]
fn a_table_that_only_nft_can_show_is_an_error() {
    require_netns!();
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(Variant::Nft, folder.path());
    let netns = Netns::new("foreign").unwrap();
    let rules = "table ip nat { chain PREROUTING { type nat hook prerouting priority -100; \
                 ct state new accept; }; }";
    let file = folder.path().join("rules");
    fs::write(&file, rules).unwrap();
    let status = netns
        .command("nft", &["-f", &file.display().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    let error = netns.run(|| programs.save(IpFamily::V4, &Table::ALL).unwrap_err());
    let is_told = matches!(&error, SaveError::Incompatible { table, .. } if *table == Table::Nat);
    assert!(is_told, "{error}");
    assert!(
        error.to_string().contains("nft list table ip nat"),
        "{error}"
    );
    let listing = netns.run(|| programs.save(IpFamily::V4, &[Table::Filter]).unwrap());
    assert_eq!(listing.hidden, [Table::Nat]);
    netns.run(|| programs.save(IpFamily::V6, &Table::ALL).unwrap());
}

#[test]
fn the_variant_with_the_hint_is_chosen() {
    require_netns!();
    let marks = Marks {
        hints: &["HINT"],
        own: "OWN",
    };
    let folder = tempfile::tempdir().unwrap();
    let hint = Script::new(|lines| {
        lines.table(Table::Mangle);
        lines.declare(&chain("HINT"));
    });
    let detected = || Programs::detect(marks).unwrap().variant();
    Netns::new("detect").unwrap().run(|| {
        assert_eq!(detected(), Variant::Nft);
        let legacy = programs(Variant::Legacy, folder.path());
        legacy.restore(IpFamily::V4, &script(|_| {})).unwrap();
        assert_eq!(detected(), Variant::Legacy);
        let nft = programs(Variant::Nft, folder.path());
        nft.restore(IpFamily::V6, &hint).unwrap();
        assert_eq!(detected(), Variant::Nft);
    });
    Netns::new("detect").unwrap().run(|| {
        let nft = programs(Variant::Nft, folder.path());
        nft.restore(IpFamily::V4, &script(|_| {})).unwrap();
        let legacy = programs(Variant::Legacy, folder.path());
        legacy.restore(IpFamily::V6, &hint).unwrap();
        assert_eq!(detected(), Variant::Legacy);
    });
}
