//! The ruleset of every example, as text. `make bless` rewrites the files; review the diff.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use sluice_iptables::{Accounting, Conntrack, render_plan, text};
use sluice_scenarios::golden;

/// The rules of node-a, with kube-proxy's defaults in this mode.
fn rulesets() -> impl Iterator<Item = (String, String)> {
    let settings = golden::with_localhost_node_ports();
    let planners = golden::planners(&settings).into_iter();
    planners.map(|(name, planner)| {
        let objects = render_plan(planner.plan(), Conntrack::Strict, Accounting::Off);
        (format!("{name}.iptables"), text::ruleset(&objects))
    })
}

#[test]
fn golden_rulesets_of_the_examples() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden::compare(&folder, rulesets());
}

/// The programs read every line; nothing is written.
#[test]
fn both_variants_load_the_rulesets() {
    sluice_lab::require_netns!();
    let netns = sluice_lab::Netns::new("golden").unwrap();
    for (name, ruleset) in rulesets() {
        let parts = ruleset.split_once("# IPv6").unwrap();
        for (program, part) in [
            ("iptables", parts.0),
            ("ip6tables", &format!("# {}", parts.1)),
        ] {
            for variant in ["nft", "legacy"] {
                let restore = format!("{program}-{variant}-restore");
                let mut command = netns.command(&restore, &["--test", "--noflush"]);
                let lock = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtables.lock");
                command.env("XTABLES_LOCKFILE", lock).args(["-w", "60"]);
                let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
                let mut stdin = child.stdin.take().unwrap();
                stdin.write_all(part.as_bytes()).unwrap();
                drop(stdin);
                assert!(child.wait().unwrap().success(), "{restore} refused {name}");
            }
        }
    }
}
