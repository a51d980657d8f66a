//! The demonstration tells the truth and leaves nothing behind.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_lab::require_netns;

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

fn demo(flags: &[&str]) -> Output {
    let mut demo = Command::new(SLUICE);
    let output = demo.args(["lab", "demo"]).args(flags).output();
    output.expect("the demonstration starts")
}

/// What a demonstration that ends well says.
#[track_caller]
fn shown(flags: &[&str], parts: &[&str]) -> String {
    let output = demo(flags);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{error}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in:\n{said}");
    }
    let wide = said.lines().find(|it| it.chars().count() > 80);
    assert_eq!(wide, None, "wider than 80 columns");
    said
}

/// The namespaces of the demonstration that said this. `sl<pid>-<n>` is their common prefix.
fn namespaces(said: &str) -> Vec<String> {
    let mut words = said.split(|it: char| !it.is_ascii_alphanumeric() && it != '-');
    let prefix = words.find_map(|it| {
        let digits = it.strip_prefix("sl")?.split_once('-')?.0;
        let parts: Vec<&str> = it.splitn(3, '-').take(2).collect();
        digits.parse::<u32>().is_ok().then(|| parts.join("-"))
    });
    let prefix = prefix.expect("the demonstration names the lab");
    std::fs::read_dir("/run/netns")
        .expect("namespaces can be listed")
        .filter_map(|it| it.ok()?.file_name().into_string().ok())
        .filter(|it| it.starts_with(&format!("{prefix}-")))
        .collect()
}

#[test]
fn the_demonstration_runs_and_cleans_up() {
    require_netns!();
    let said = shown(
        &[],
        &[
            "web-3",
            "█",
            "goto cluster-ip-3",
            "goto cluster-ip-2",
            "0 failed",
        ],
    );
    assert_eq!(namespaces(&said), Vec::<String>::new());
}

#[test]
fn the_iptables_mode_shows_its_rules() {
    require_netns!();
    shown(
        &["--proxy-mode", "iptables"],
        &[
            "-j DNAT --to-destination 10.244.1.2:8080",
            "KUBE-NODEPORTS -p tcp --dport 30080",
            "0 failed",
        ],
    );
}

#[test]
fn a_mode_that_cannot_run_is_an_error() {
    require_netns!();
    let output = demo(&["--proxy-mode", "ebpf"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.contains("the ebpf mode has none"),
        "{error}"
    );
    if !Path::new("/proc/net/ip_vs").exists() && !loads_ipvs() {
        let output = demo(&["--proxy-mode", "ipvs"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && error.contains("modprobe ip_vs"),
            "{error}"
        );
    }
}

/// Whether a module for this kernel is installed.
fn loads_ipvs() -> bool {
    let tried = Command::new("modprobe")
        .args(["--dry-run", "ip_vs"])
        .output();
    tried.is_ok_and(|it| it.status.success())
}

#[test]
fn services_of_a_folder_are_served() {
    require_netns!();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let said = shown(
        &["--manifests", examples],
        &[
            // A ClusterIP, whose endpoints have the addresses of the manifests and their pods' names.
            "ClusterIP of default/web: 10.96.10.1:80",
            "web-6c9f-b1  ██",
            "10.96.10.1 . tcp . 80 . 2 : 10.244.1.10 . 8080",
            // A NodePort, dual stack, and source ranges that leave the client out.
            "NodePort of default/dashboard:http: 192.168.100.10:30080",
            "[fd00:10:96::a07]:80",
            "address of default/gateway:https: 192.0.2.10:443\n  3 connections:\n    timed out",
            "sluice explain 192.168.100.100 192.0.2.10:443/tcp",
        ],
    );
    assert!(!said.contains("web-2 dies"), "{said}");
    let empty = tempfile::tempdir().expect("a folder");
    let output = demo(&["--manifests", &empty.path().to_string_lossy()]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no Service here"), "{error}");
}

#[test]
fn a_kept_cluster_answers_until_it_is_ended() {
    require_netns!();
    let mut demo = Command::new(SLUICE)
        .args(["lab", "demo", "--keep"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the demonstration starts");
    let mut out = BufReader::new(demo.stdout.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("what the agents follow") {
        assert_ne!(
            out.read_line(&mut said).expect("text"),
            0,
            "it ended:\n{said}"
        );
    }
    // The lines that it shows to the user work.
    let command = |start: &str| {
        let line = said.lines().find_map(|it| it.trim().strip_prefix(start));
        line.expect("the way in").trim().to_owned()
    };
    let shell = command("a shell in the pod:");
    let connect = command("connect, in that shell:");
    let answer = Command::new("sh")
        .args(["-c", &format!("{shell} -c '{connect}'")])
        .output()
        .expect("sh runs");
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.starts_with("web-"), "{answer:?}");
    let status = command("what its agent holds:").replacen("sluice", SLUICE, 1);
    let status = Command::new("sh")
        .args(["-c", &status])
        .output()
        .expect("sh runs");
    assert!(status.status.success(), "{status:?}");
    assert!(!namespaces(&said).is_empty());
    kill(Pid::from_raw(demo.id().cast_signed()), Signal::SIGINT).expect("a signal");
    out.read_to_string(&mut said).expect("text");
    assert!(demo.wait().expect("an end").success(), "{said}");
    assert_eq!(namespaces(&said), Vec::<String>::new());
}

#[test]
fn bars_change_in_place_on_a_terminal_and_in_the_recording() {
    require_netns!();
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("demo.svg");
    let line = format!("{SLUICE} lab demo --fast --record {}", svg.display());
    // util-linux's `script` gives the program a terminal.
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .expect("script runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    // Three lines up, and a new picture in which web-2 has nothing.
    let pictures: Vec<&str> = said.split("\x1b[3A\x1b[J").collect();
    assert!(pictures.len() > 10, "{} pictures:\n{said}", pictures.len());
    assert!(
        pictures.iter().any(|it| it.contains("web-2    0%")),
        "{said}"
    );
    let svg = std::fs::read_to_string(svg).expect("the recording");
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
    assert_eq!(
        svg.matches("<g class=\"f\"").count(),
        svg.matches("@keyframes").count()
    );
    assert!(
        svg.contains("web-2 dies") && svg.contains("class=\"b\">██"),
        "{svg}"
    );
    assert!(!svg.contains('\x1b'), "{svg}");
}
