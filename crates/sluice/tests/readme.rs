//! Every command of the README works.
//!
//! A fence with `sh` has commands. Those of `sluice` and of the kernel's programs run, a fence as one
//! script. `kubectl` and `helm` read their command lines, without a cluster. [`NOT_RUN`] has the rest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sluice_lab::require_netns;

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

/// Commands that no test runs as they are, each with the reason.
const NOT_RUN: [(&str, &str); 6] = [
    (
        "make demo",
        "builds a release; tests/demo.rs runs the demonstration",
    ),
    ("make test", "runs this test"),
    (
        "make package",
        "builds a release; deploy/tests/test_deb.py builds and installs a package",
    ),
    (
        "make static",
        "builds a release; deploy/tests run a static binary",
    ),
    (
        "apt install ./target/package/sluice.deb",
        "changes the machine; deploy/tests/test_deb.py installs it in a folder",
    ),
    (
        "sluice doctor default/web\nsluice status --service default/web\n\
         sluice explain default/client-1 default/web",
        "needs a node of a cluster; tests/doctor.rs and tests/questions.rs run these commands",
    ),
];

fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    here.canonicalize().expect("the repository")
}

/// The commands of each `sh` fence.
fn fences() -> Vec<String> {
    let readme = fs::read_to_string(repository().join("README.md")).expect("README.md");
    let fences = readme.split("\n```sh\n").skip(1);
    let fences = fences.map(|it| it.split("\n```").next().expect("an end").to_owned());
    let fences: Vec<String> = fences.collect();
    assert!(fences.len() > 5, "{fences:?}");
    fences
}

/// Fences whose first word is one of these.
fn fences_of(programs: &[&str]) -> Vec<String> {
    let first = |it: &String| it.split(' ').next().expect("a word").to_owned();
    let not_run = |it: &String| NOT_RUN.iter().any(|(command, _)| command == it);
    fences()
        .into_iter()
        .filter(|it| programs.contains(&&*first(it)) && !not_run(it))
        .collect()
}

/// A folder in which commands may write, with what the README's commands read.
fn checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["examples", "deploy"] {
        symlink(repository().join(name), folder.path().join(name)).expect("a link");
    }
    folder
}

/// The output of a script of bash that must succeed. It has its own `/run`, with the names of its
/// network namespaces and the agent's socket. Its processes end with it.
fn run(script: &str) -> String {
    let folder = checkout();
    let private = "mount -t tmpfs tmpfs /run && exec bash -euo pipefail -c \"$1\"";
    let path = std::env::var("PATH").expect("a PATH");
    let sluice = Path::new(SLUICE).parent().expect("a folder").display();
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--mount-proc",
        ])
        .args(["sh", "-c", private, "sh", script])
        .env("PATH", format!("{sluice}:{path}"))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("unshare runs");
    text_of(&output, script)
}

#[track_caller]
fn text_of(output: &Output, what: &str) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}\n{said}\n{error}");
    said
}

#[test]
fn commands_of_sluice_and_of_the_kernel() {
    require_netns!();
    let scripts = fences_of(&["ip", "sluice"]);
    assert_eq!(scripts.len(), 2, "{scripts:?}");
    let said: String = scripts.iter().map(|it| run(it)).collect();
    for part in [
        // nft, status of all Services and of one, two explanations, and the text of two modes.
        "10.96.10.1 . tcp . 80 comment \"default/web\" : goto cluster-ip-3",
        "default/dashboard",
        "10.244.1.10:8080",
        "balance over 3 endpoints",
        "drop",
        "table ip sluice",
        "-A KUBE-SERVICES",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
}

/// A program from where `make setup-deploy` puts it, or of this machine; `None` skips the test.
fn tool(name: &str) -> Option<Command> {
    let here = repository().join("target/deploy-tools/bin").join(name);
    let path = if here.exists() { here } else { name.into() };
    let found = Command::new(&path).arg("--help").output().is_ok();
    if !found {
        let why = format!("needs {name}: make setup-deploy");
        assert!(std::env::var_os("CI").is_none(), "CI {why}");
        eprintln!("SKIP: {why}");
    }
    found.then(|| Command::new(path))
}

#[test]
fn commands_of_kubectl() {
    let fences = fences_of(&["kubectl"]);
    assert!(!fences.is_empty());
    for line in fences.iter().flat_map(|it| it.lines()) {
        let Some(mut kubectl) = tool("kubectl") else {
            return;
        };
        let command = line.split(" > ").next().expect("a command");
        // Nobody listens there: kubectl says so after it has understood the rest.
        let output = kubectl
            .arg("--server=http://127.0.0.1:1")
            .args(command.split(' ').skip(1))
            .output()
            .expect("kubectl runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("127.0.0.1:1 was refused"), "{line}: {error}");
    }
}

#[test]
fn commands_of_helm() {
    let fences = fences_of(&["helm"]);
    let line = fences[0].lines().next().expect("a command");
    let Some(mut helm) = tool("helm") else {
        return;
    };
    let line = line.replacen("helm install", "template", 1);
    let output = helm
        .args(line.split(' '))
        .current_dir(repository())
        .output();
    let said = text_of(&output.expect("helm runs"), &line);
    assert!(said.contains("REGISTRY/sluice:"), "{said}");
}

#[test]
fn every_other_command_is_listed_with_its_reason() {
    let tested = fences_of(&["ip", "kubectl", "sluice"]);
    let others = fences().into_iter().filter(|it| !tested.contains(it));
    for fence in others {
        let is_listed = |command: &str| {
            let mut listed = NOT_RUN.iter().map(|(command, _reason)| command);
            listed.any(|it| *it == command)
        };
        let unknown = fence
            .lines()
            .filter(|it| !is_listed(it) && !it.starts_with("helm "))
            .collect::<Vec<_>>();
        assert!(unknown.is_empty() || is_listed(&fence), "{unknown:?}");
        // What make would do, without doing it: the target exists.
        for target in fence.lines().filter_map(|it| it.strip_prefix("make ")) {
            let output = Command::new("make")
                .args(["--dry-run", target])
                .current_dir(repository())
                .output();
            text_of(&output.expect("make runs"), target);
        }
    }
}

/// A fence with the name of a mode has lines of the rules of `examples/`.
#[test]
fn rules_in_how_it_works_are_those_of_the_examples() {
    let path = repository().join("docs/how-it-works.md");
    let text = fs::read_to_string(path).expect("the page");
    for mode in ["nftables", "iptables", "ipvs"] {
        let output = Command::new(SLUICE)
            .args([
                "render",
                "--manifests",
                "examples",
                "--hostname-override",
                "node-a",
            ])
            .args(["--cluster-cidr", "10.244.0.0/16", "--proxy-mode", mode])
            .current_dir(repository())
            .output()
            .expect("it was built");
        let rules = text_of(&output, mode);
        let rules: Vec<&str> = rules.lines().map(str::trim).collect();
        let fence = format!("\n```{mode}\n");
        let shown = text.split(&*fence).skip(1);
        let shown: Vec<&str> = shown
            .flat_map(|it| it.split("\n```").next().expect("an end").lines())
            .collect();
        assert!(shown.len() > 4, "{mode}: {shown:?}");
        for line in shown {
            assert!(rules.contains(&line), "{mode}: {line}");
        }
    }
}
