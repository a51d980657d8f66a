//! What the kernel holds is what was written.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use sluice_lab::{Netns, require_netns};
use sluice_nft::Connection;
use sluice_policy_plan::testing::{deletions, parse, worlds};

use crate::common::Enforced;

/// The worlds are the same in every run.
#[test]
fn a_restart_finds_everything_as_it_was() {
    require_netns!();
    let mut runner = TestRunner::deterministic();
    let mut worlds = || worlds().new_tree(&mut runner).unwrap().current();
    let netns = Netns::new("policy").unwrap();
    netns.run(|| {
        let mut enforced = Enforced::on(Connection::open().unwrap());
        let mut before = worlds();
        enforced.set(&before);
        for _ in 0..30 {
            let after = worlds();
            enforced.change(&deletions(&before, &after));
            enforced.set(&after);
            let report = enforced.resync();
            assert!(report.full && report.is_empty(), "{report:?}: {after:?}");
            before = after;
        }
    });
}

#[test]
fn what_others_change_is_repaired() {
    require_netns!();
    let netns = Netns::new("policy").unwrap();
    let world = parse(
        "ns a team=red
        pod a/web n1 10.0.0.1 app=web
        np a/deny ingress pods=app=web from=10.0.0.0/8-10.1.0.0/16 port=tcp:80",
    );
    let nft = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = netns.command("nft", &words).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    netns.run(|| {
        let mut enforced = Enforced::on(Connection::open().unwrap());
        enforced.set(&world);
        let before = nft("list ruleset");
        for line in [
            "delete element ip sluice-policy ingress { 10.0.0.1 }",
            "flush chain ip sluice-policy policy-ingress-a/deny",
            "flush chain ip6 sluice-policy ingress",
            "add chain ip sluice-policy foreign",
            "add element ip sluice-policy itself { 10.0.0.9 . 10.0.0.9 }",
            "add element ip sluice-policy itself { 10.0.0.9 . 10.0.0.8 }",
            "delete table ip6 sluice-policy",
            "add table ip sluice-policy { flags dormant; }",
        ] {
            nft(line);
            let report = enforced.resync();
            assert!(report.foreign > 0, "{line}: {report:?}");
            let mut now: Vec<String> = nft("list ruleset").lines().map(str::to_owned).collect();
            let mut then: Vec<String> = before.lines().map(str::to_owned).collect();
            // A table that is made again comes last.
            now.sort();
            then.sort();
            assert_eq!(now, then, "{line}");
        }
    });
}
