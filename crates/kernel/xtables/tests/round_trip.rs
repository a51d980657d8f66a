//! Text is read back as the rule it was made from, also when the kernel kept it meanwhile.
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sluice_lab::{Netns, require_netns};
use sluice_model::IpFamily;
use sluice_netlink::nfacct::Accounts;
use sluice_xtables::parse::{Ruleset, parse, parse_rule, play};
use sluice_xtables::programs::{Lock, Programs, Variant};
use sluice_xtables::rule::{ChainName, Table};
use sluice_xtables::script::Script;

use crate::common::{ACCOUNT, any_rule, arbitrary_rule, chains};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn rules_survive_their_text(rule in any_rule()) {
        let text = rule.to_string();
        prop_assert_eq!(text.lines().count().max(1), 1);
        let read = parse_rule(&text);
        prop_assert_eq!(&read, &rule, "{}", text);
        // In the same order, too, apart from where negations of a value stand.
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn any_text_is_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        parse(&text);
        parse(&format!("*nat\n-A X {text}\n"));
        parse_rule(&text);
    }

    #[test]
    fn any_words_are_read(
        words in prop::collection::vec(prop_oneof![
            prop::sample::select(vec![
                "*nat", "\n", ":A", "-A", "-I", "-D", "-X", "A", "!", "-m", "recent", "--name",
                "--set", "-j", "DNAT", "SET", "MARK", "--to-destination", "\"", "\\", "-s", "-p",
                "--mark", "0x", "/", "--ctstate", "--mask", "[0:0]", "] ", "é",
            ]).prop_map(str::to_owned),
            "[ -~]{0,5}",
        ], 0..30),
    ) {
        let text = words.join(" ");
        parse(&text);
        parse(&format!("*nat\n{text}"));
        parse_rule(&text);
    }
}

/// Loads `count` random rules and lists them.
fn through_kernel(variant: Variant, family: IpFamily, count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let lock = Lock {
        file: folder.path().join("lock"),
        seconds: 5,
    };
    let programs = Programs::find(variant).unwrap().with_lock(lock);
    let mut runner = TestRunner::deterministic();
    let strategy = arbitrary_rule(family);
    let mut random = || strategy.new_tree(&mut runner).unwrap().current();
    let wanted: Vec<_> = (0..count).map(|_| random()).collect();
    let chain = ChainName::new("RULES");
    let script = Script::new(|lines| {
        lines.table(Table::Nat);
        chains().iter().for_each(|it| lines.declare(it));
        lines.declare(&chain);
        wanted.iter().for_each(|it| lines.append(&chain, it));
    });
    let seen = Netns::new("xtables").unwrap().run(|| {
        Accounts::open().unwrap().ensure(ACCOUNT).unwrap();
        programs.restore(family, &script).unwrap();
        programs.save(family, &Table::ALL).unwrap().rules
    });
    let rules = &seen[&(Table::Nat, chain)];
    assert_eq!(rules.len(), wanted.len());
    for (seen, wanted) in rules.iter().zip(&wanted) {
        assert_eq!(seen, wanted, "{seen}\n{wanted}");
    }
    let mut played = Ruleset::new();
    let text = script.text();
    play(&mut played, &text);
    played
        .into_iter()
        .for_each(|(key, rules)| assert_eq!(seen[&key], rules));
}

#[test]
fn rules_survive_the_kernel() {
    require_netns!();
    for variant in Variant::ALL {
        for family in IpFamily::ALL {
            through_kernel(variant, family, 400);
        }
    }
}

/// What random rules leave out: ipsets, and targets that table nat does not take.
#[test]
fn rules_of_other_tables_survive_the_kernel() {
    require_netns!();
    let lines = [
        (
            Table::Mangle,
            "-m set --match-set SET dst,dst,src -j SET --map-set SET dst,dst,src --map-mark",
        ),
        (
            Table::Filter,
            "-m set ! --match-set SET dst,dst,src -j DROP",
        ),
        (
            Table::Filter,
            "-p tcp -m set --match-set SET dst,dst,src -j RETURN",
        ),
        (Table::Filter, "-m conntrack --ctstate NEW -j REJECT"),
        (Table::Filter, "-m conntrack --ctstate INVALID -j DROP"),
        (Table::Filter, "-m mark --mark 0x4000/0x4000 -j ACCEPT"),
    ];
    let chain = ChainName::new("RULES");
    let script = Script::new(|to| {
        for table in [Table::Mangle, Table::Filter] {
            to.table(table);
            to.declare(&chain);
            for (_, line) in lines.iter().filter(|(of, _)| *of == table) {
                to.append(&chain, &parse_rule(line));
            }
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let lock = Lock {
        file: folder.path().join("lock"),
        seconds: 5,
    };
    for (family, word) in [(IpFamily::V4, "inet"), (IpFamily::V6, "inet6")] {
        let netns = Netns::new("ipsets").unwrap();
        let create = [
            "create",
            "SET",
            "hash:ip,port,ip",
            "family",
            word,
            "skbinfo",
        ];
        let created = netns.command("ipset", &create).status().unwrap();
        assert!(created.success());
        for variant in Variant::ALL {
            let programs = Programs::find(variant).unwrap().with_lock(lock.clone());
            let seen = netns.run(|| {
                programs.restore(family, &script).unwrap();
                programs.save(family, &Table::ALL).unwrap().rules
            });
            for (key, rules) in parse(&script.text()) {
                assert_eq!(seen[&key], rules, "{variant} {family}");
            }
        }
    }
}
