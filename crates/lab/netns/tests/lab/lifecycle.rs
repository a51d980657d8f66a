//! Namespaces are removed, also after panics and kills; tests without privileges skip.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    sync::OnceLock,
};

use sluice_lab::{Cluster, LabError, Netns, require_netns, sweep};

use crate::common::namespaces;

/// Set in processes that a test starts from its own binary.
const CHILD: &str = "SLUICE_LAB_TEST_CHILD";

/// One test of this binary, in a process of its own.
fn child(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1");
    command
}

fn small() -> Result<Cluster, LabError> {
    Cluster::builder()
        .node("node-a")
        .pod("web-1", "node-a")
        .client("client")
        .build()
}

#[test]
fn a_panic_leaves_nothing() {
    require_netns!();
    let prefix = OnceLock::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let cluster = small().unwrap();
        prefix.set(format!("{}-", cluster.prefix())).unwrap();
        assert_eq!(namespaces(prefix.get().unwrap()).len(), 4);
        panic!("on purpose");
    }));
    assert!(result.is_err());
    assert_eq!(namespaces(prefix.get().unwrap()), Vec::<String>::new());
}

#[test]
fn a_failed_build_leaves_nothing_and_says_why() {
    require_netns!();
    let contradictions = [
        (
            Cluster::builder().node("a").node("a"),
            "cluster topology: name a is taken",
        ),
        (
            Cluster::builder().node("lan"),
            "cluster topology: name lan is taken",
        ),
        (
            Cluster::builder().pod("web", "a"),
            "cluster topology: pod web is on node a, which does not exist",
        ),
        (
            Cluster::builder().node("A b"),
            "cluster topology: name `A b` is not 1 to 63 of a-z, 0-9 and -",
        ),
    ];
    for (plan, message) in contradictions {
        assert_eq!(plan.build().unwrap_err().to_string(), message);
    }
    let too_many = (0..91).fold(Cluster::builder(), |plan, number| {
        plan.node(&format!("node-{number}"))
    });
    let message = "cluster topology: 91 nodes, but there are addresses for 90";
    assert_eq!(too_many.build().unwrap_err().to_string(), message);
    let netns = Netns::new("taken").unwrap();
    let refused = netns.sysctl("net.ipv4.no_such_key", "1").unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("write /proc/sys/net/ipv4/no_such_key: "),
        "{refused}"
    );
}

#[test]
fn a_namespace_is_entered_and_left() {
    require_netns!();
    let here = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let netns = Netns::new("guarded").unwrap();
    let caller = here();
    {
        let _guard = netns.enter().unwrap();
        assert_ne!(here(), caller);
        assert_eq!(here(), netns.run(here));
    }
    assert_eq!(here(), caller);
    netns.sysctl("net.ipv4.ip_forward", "1").unwrap();
    let output = netns
        .command("cat", &["/proc/sys/net/ipv4/ip_forward"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
    assert_eq!(
        netns.shell_line(),
        format!("ip netns exec {} sh", netns.name())
    );
}

/// Other programs find the names, also those that have mounts of their own.
#[test]
fn the_names_are_those_of_ip_netns() {
    require_netns!();
    let netns = Netns::new("named").unwrap();
    let ip = |words: &[&str]| {
        let output = Command::new("ip").args(words).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(ip(&["netns"]).contains(netns.name()));
    let links = ip(&["netns", "exec", netns.name(), "ip", "-brief", "link"]);
    assert!(
        links.starts_with("lo ") && links.lines().count() == 1,
        "{links}"
    );
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut folder = mounts.lines().filter(|it| it.contains(" /run/netns "));
    assert!(folder.next_back().unwrap().contains(" shared:"), "{mounts}");
    ip(&["netns", "del", netns.name()]);
    drop(netns);
}

#[test]
fn namespaces_of_a_killed_process_are_swept() {
    require_netns!();
    if env::var_os(CHILD).is_some() {
        let cluster = small().unwrap();
        println!("\nprefix {}", cluster.prefix());
        // Waits until the parent kills this process; when the parent is gone, reading ends.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let mut child = child("lifecycle::namespaces_of_a_killed_process_are_swept")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let prefix = lines
        .map_while(Result::ok)
        .find_map(|it| it.strip_prefix("prefix ").map(str::to_owned));
    let prefix = prefix.expect("the child prints its prefix before it waits");
    assert_eq!(
        sweep()
            .removed
            .iter()
            .filter(|it| it.starts_with(&prefix))
            .count(),
        0,
        "it is alive"
    );
    assert_eq!(namespaces(&prefix).len(), 4);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(sweep().errors.is_empty());
    assert_eq!(namespaces(&prefix), Vec::<String>::new());
}

#[test]
fn without_privilege_tests_skip_but_not_in_ci() {
    require_netns!();
    if env::var_os(CHILD).is_some() {
        panic!("the child has the privilege: nothing was tested");
    }
    // Still root, so that it can read its own binary, but without any capability.
    let powerless = |ci: Option<&str>| {
        let inner = child("lifecycle::without_privilege_tests_skip_but_not_in_ci");
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set=-all", "--inh-caps=-all"])
            .arg(inner.get_program())
            .args(inner.get_args());
        command
            .env(CHILD, "1")
            .env_remove("CI")
            .env("RUST_BACKTRACE", "0");
        ci.map(|value| command.env("CI", value));
        let output = command.output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (passed, stderr) = powerless(None);
    assert!(
        passed && stderr.contains("SKIP: needs network namespaces: prepare"),
        "{stderr}"
    );
    let (passed, stderr) = powerless(Some("true"));
    assert!(
        !passed && stderr.contains("CI must run the tests that need network namespaces"),
        "{stderr}"
    );
}
