//! The pages of the book that run.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use sluice_lab::{eventually, netns_available};

use crate::lab::{SLUICE, WITHIN, text};

/// Runs an experiment to its end. Returns what it printed.
pub(crate) fn run(name: &str) -> String {
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
    text(&output.stdout)
}

macro_rules! experiments {
    ($($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            if netns_available() {
                run($name);
            }
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
    statefulset_dns "statefulset-dns"
    external_name "external-name"
    outside "outside"
    endpoints_300 "endpoints-300"
    rolling_update "rolling-update"
    node_dies "node-dies"
    stale_udp "stale-udp"
    hairpin "hairpin"
    network_policy "network-policy"
    cluster_network_policy "cluster-network-policy"
}

#[test]
fn ctrl_c_leaves_nothing() {
    if !netns_available() {
        return;
    }
    // What the terminal shows: while the lab starts, while manifests are applied, while commands run, and at a pause.
    for (flags, moment) in [
        ("--fast", "Session affinity, and its end"),
        ("--fast --keep", ""),
        ("--fast", "kind: Deployment"),
        ("--fast", "$ sluice lab rollout"),
        ("--fast", "$ sluice lab probe"),
        ("", "[Enter]"),
    ] {
        let before = crate::lab::life::machine();
        let files = tempfile::tempdir().unwrap();
        let labs = files.path().join("labs");
        fs::create_dir(&labs).unwrap();
        let command = format!("exec {SLUICE} lab experiment session-affinity {flags}");
        let mut terminal = Command::new("script")
            .args(["-qefc", &command, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("SLUICE_LABS", &labs)
            .env("TMPDIR", files.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut keyboard, mut screen) = (
            terminal.stdin.take().unwrap(),
            terminal.stdout.take().unwrap(),
        );
        let mut shown = Vec::new();
        if moment.is_empty() {
            let has_lab = || fs::read_dir(&labs).unwrap().next().map(drop);
            eventually(WITHIN, has_lab).expect("a lab");
        }
        let mut byte = [0];
        while !text(&shown).contains(moment) {
            screen.read_exact(&mut byte).unwrap();
            shown.push(byte[0]);
        }
        keyboard.write_all(b"\x03").unwrap();
        screen.read_to_end(&mut shown).unwrap();
        let status = terminal.wait().unwrap();
        assert_eq!(status.code(), Some(1), "{moment}: {}", text(&shown));
        assert!(text(&shown).contains("interrupted"), "{}", text(&shown));
        assert_eq!(fs::read_dir(&labs).unwrap().count(), 0, "{moment}");
        assert_eq!(fs::read_dir(files.path()).unwrap().count(), 1, "{moment}");
        assert_eq!(processes(&files), [""; 0], "{moment}");
        assert_eq!(crate::lab::life::machine(), before, "{moment}");
    }
}

/// The command lines of processes that were started with this folder for their files.
fn processes(files: &tempfile::TempDir) -> Vec<String> {
    let marker = format!("TMPDIR={}", files.path().display());
    let all = fs::read_dir("/proc").unwrap().flatten();
    let theirs = all.filter(|it| {
        let environment = fs::read(it.path().join("environ")).unwrap_or_default();
        text(&environment).contains(&marker)
    });
    let lines = theirs.map(|it| fs::read(it.path().join("cmdline")).unwrap_or_default());
    lines.map(|it| text(&it)).collect()
}

#[test]
fn without_ipvs_and_a_virtual_machine_a_recorded_run_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    // Far from the source tree and its virtual machine.
    let sluice = folder.path().join("sluice");
    fs::copy(SLUICE, &sluice).unwrap();
    if !netns_available() {
        return;
    }
    let mut command = Command::new(sluice);
    command.args(["lab", "experiment", "ipvs-table", "--fast"]);
    let output = command.output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("\nTCP  10.96.0.80:80 rr\n"), "{said}");
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
