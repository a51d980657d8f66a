//! The ruleset of every example, as text. `make bless` rewrites the files; review the diff.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use sluice_core::model::Event;
use sluice_core::plan::Planner;
use sluice_core::settings::{LocalDetector, NodePortAddresses, Settings};
use sluice_iptables::{Conntrack, render_plan, text};

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The rules of node-a for one example, with the nodes and the ServiceCIDR of the examples.
fn ruleset(example: &Path) -> String {
    let manifests = tempfile::tempdir().unwrap();
    let nodes = folder("../../examples/nodes.yaml");
    let cidr = folder("../../examples/service-cidr.yaml");
    for file in [example, &nodes, &cidr] {
        let name = file.file_name().unwrap();
        std::fs::copy(file, manifests.path().join(name)).unwrap();
    }
    let loaded = sluice_source::load(manifests.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let mut settings = Settings::for_node("node-a");
    // kube-proxy's defaults in this mode.
    settings.node_ports = NodePortAddresses::Within(Vec::new());
    settings.localhost_node_ports = true;
    let cidrs = ["10.244.0.0/16", "fd00:10:244::/56"];
    settings.local_detector =
        LocalDetector::ClusterCidrs(cidrs.iter().map(|it| it.parse().unwrap()).collect());
    let mut planner = Planner::new(settings);
    for object in loaded.objects {
        planner.absorb(Event::Set(object));
    }
    planner.replan();
    text::ruleset(&render_plan(planner.plan(), Conntrack::Strict))
}

fn examples() -> Vec<(String, String)> {
    let mut examples: Vec<PathBuf> = std::fs::read_dir(folder("../../examples"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "yaml"))
        .collect();
    examples.sort();
    assert!(examples.len() >= 11, "{examples:?}");
    let examples = examples.iter().map(|it| {
        let name = it.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, ruleset(it))
    });
    examples.collect()
}

#[test]
fn golden_rulesets_of_the_examples() {
    let bless = std::env::var_os("SLUICE_BLESS").is_some();
    let mut differing = Vec::new();
    for (name, ruleset) in examples() {
        let golden = folder("tests/golden").join(format!("{name}.iptables"));
        if bless {
            std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
            std::fs::write(&golden, &ruleset).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        if expected != ruleset {
            let line = ruleset.lines().zip(expected.lines()).find(|(a, b)| a != b);
            differing.push(format!("{name}: first difference {line:?}"));
        }
    }
    assert!(
        differing.is_empty(),
        "`make bless` and review the diff:\n{}",
        differing.join("\n")
    );
}

/// The programs read every line; nothing is written.
#[test]
fn both_variants_load_the_rulesets() {
    sluice_lab::require_netns!();
    let netns = sluice_lab::Netns::new("golden").unwrap();
    for (name, ruleset) in examples() {
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
