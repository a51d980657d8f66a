//! The pages of the book that run.

use std::fs;
use std::process::{Command, Stdio};

use sluice_lab::{eventually, netns_available};

use crate::lab::{SLUICE, WITHIN, text};

pub(crate) fn runs(name: &str) {
    if !netns_available() {
        return;
    }
    let output = Command::new(SLUICE)
        .args(["lab", "experiment", name, "--fast"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

macro_rules! experiments {
    ($($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            runs($name);
        })*

        #[test]
        fn all_have_a_test() {
            let output = Command::new(SLUICE).args(["lab", "experiment"]).output().unwrap();
            let listed = text(&output.stdout);
            let listed: Vec<&str> = listed.lines().filter_map(|it| it.split_whitespace().next()).collect();
            let mut tested = vec![$($name,)* "ipvs-table", "race"];
            let mut listed = listed;
            (tested.sort_unstable(), listed.sort_unstable());
            assert_eq!(listed, tested);
        }
    };
}

experiments! {
    conntrack_full "conntrack-full"
    ebpf_maps "ebpf-maps"
    iptables_chains "iptables-chains"
    nftables_maps "nftables-maps"
    nodeport_hops "nodeport-hops"
    external_policy "external-policy"
    dsr "dsr"
    session_affinity "session-affinity"
    headless "headless"
    rolling_update "rolling-update"
    node_dies "node-dies"
    stale_udp "stale-udp"
    hairpin "hairpin"
}

/// The modes of this machine, which are measured; the others have a reason.
#[test]
fn the_race_measures_every_mode_or_says_why_not() {
    if !netns_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("race.svg");
    let mut race = Command::new(SLUICE);
    race.args(["lab", "experiment", "race", "--sizes", "10", "--svg"]);
    let output = race.arg(&svg).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    for mode in ["nftables", "iptables", "ipvs", "ebpf"] {
        let reason = format!("not measured: {mode}: ");
        let bars = said.lines().filter(|it| {
            let mut words = it.split_whitespace();
            words.next() == Some(mode) && words.next().is_some_and(|it| it.starts_with('█'))
        });
        let wanted = if said.contains(&reason) { 0 } else { 6 };
        assert_eq!(bars.count(), wanted, "{mode}: {said}");
    }
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.contains("connect() over TCP"), "{svg}");
}

#[test]
fn a_race_that_is_killed_leaves_nothing() {
    if !netns_available() {
        return;
    }
    let before = crate::lab::life::machine();
    // So many that it cannot be over before it is killed.
    let mut race = Command::new(SLUICE)
        .args([
            "lab",
            "experiment",
            "race",
            "--sizes",
            "4321",
            "--modes",
            "iptables",
        ])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let runs = || {
        let lines = fs::read_dir("/proc").unwrap().flatten();
        let lines = lines.filter_map(|it| fs::read(it.path().join("cmdline")).ok());
        let mut lines = lines.map(|it| text(&it).replace('\0', " "));
        lines.any(|it| it.contains(" lap iptables 4321 "))
    };
    eventually(WITHIN, || runs().then_some(())).expect("a measurement");
    race.kill().unwrap();
    race.wait().unwrap();
    eventually(WITHIN, || (!runs()).then_some(())).expect("the end");
    assert_eq!(crate::lab::life::machine(), before);
}
