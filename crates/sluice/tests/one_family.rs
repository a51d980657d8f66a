//! Nodes with one address family: what the shipped manifests ask, and a family that fails. Needs root.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_agent::status::Status;
use sluice_lab::{Agent, Cluster, Netns, eventually, require_netns, write_program};
use sluice_node::client::{self, is_synced};

use crate::common::get;

/// Longest wait for anything; machines of others are slow.
const WITHIN: Duration = Duration::from_secs(60);
const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kustomize");
    fs::read_to_string(path.join(name)).expect("it is shipped")
}

/// The values of a field of a manifest, in the order of its lines.
fn values<'a>(manifest: &'a str, field: &str) -> Vec<&'a str> {
    let lines = manifest
        .lines()
        .map(|it| it.trim().trim_start_matches("- "));
    lines
        .filter_map(|it| it.strip_prefix(field)?.strip_prefix(": "))
        .collect()
}

/// The first line of the answer to a probe of the kubelet.
fn probe(from: &Netns, to: SocketAddr, path: &str) -> Option<String> {
    let answer = get(from, to, path, WITHIN)?;
    answer.lines().next().map(str::to_owned)
}

/// Both families may ask, with the configuration that is shipped, and also where the node has one alone.
#[test]
fn the_shipped_probes_work_with_either_family() {
    require_netns!();
    let manifest = shipped("daemonset.yaml");
    let port = values(&manifest, "hostPort")[0].parse().expect("a port");
    let paths = values(&manifest, "path");
    let probes: Vec<&str> = paths.into_iter().filter(|it| it.ends_with('z')).collect();
    assert_eq!(probes, ["/livez", "/livez", "/readyz"]);
    for lacks in ["none", "-4", "-6"] {
        let cluster = Cluster::builder().node("node-a").build().expect("root");
        let node = cluster.node("node-a");
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let [config, manifests] = ["config.conf", "manifests"].map(|it| scratch.path().join(it));
        fs::write(&config, shipped("config.conf")).expect("writable");
        fs::create_dir(&manifests).expect("an empty directory");
        let own: [IpAddr; 2] = [node.ipv4().into(), node.ipv6().into()];
        if lacks != "none" {
            for scope in ["global", "host"] {
                let words = [lacks, "address", "flush", "scope", scope];
                let done = node
                    .netns()
                    .command("ip", &words)
                    .status()
                    .expect("ip runs");
                assert!(done.success(), "{words:?}");
            }
        }
        let [config, manifests] = [&config, &manifests].map(|it| it.display().to_string());
        let flags = ["--config", &config, "--manifests", &manifests];
        let agent = Agent::start(Path::new(SLUICE), node, scratch.path(), &flags, is_synced);
        let _agent = agent.expect("the agent starts");
        let has = |it: &IpAddr| !(it.is_ipv4() && lacks == "-4" || it.is_ipv6() && lacks == "-6");
        for ip in own.into_iter().filter(has) {
            for path in &probes {
                let to = SocketAddr::new(ip, port);
                let answer = eventually(WITHIN, || probe(node.netns(), to, path));
                let is_ok = answer.as_ref().is_some_and(|it| it.contains(" 200 "));
                assert!(is_ok, "without {lacks}: {path} at {to}: {answer:?}");
            }
        }
    }
}

/// A program that says its version and does nothing else.
fn versed(then: &str) -> String {
    format!("[ \"$*\" = --version ] && exec echo 'iptables v1.8.9 (nf_tables)'\n{then}")
}

/// A folder for an agent of the iptables mode in this namespace, whose nft variant is in use, with programs of these names and
/// texts ahead of the system's.
fn with_programs(netns: &Netns, programs: &[(String, String)]) -> tempfile::TempDir {
    let hint = ["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"];
    let done = netns.command("iptables-nft", &hint).status();
    assert!(done.expect("it runs").success());
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| scratch.path().join(name);
    fs::create_dir(path("bin")).expect("a new name");
    fs::create_dir(path("manifests")).expect("a new name");
    for (name, text) in programs {
        write_program(&path("bin").join(name), text).expect("writable");
    }
    let lines = format!(
        "export PATH={}:$PATH XTABLES_LOCKFILE={}\nexec {SLUICE} \"$@\"",
        path("bin").display(),
        path("lock").display()
    );
    write_program(&path("agent"), &lines).expect("writable");
    scratch
}

const FLAGS: [&str; 4] = ["--proxy-mode", "iptables", "--sandbox", "off"];

/// In the iptables mode the programs of either family may fail or hang from the start: the other one is served.
#[test]
fn programs_of_one_family_that_do_not_work_do_not_end_the_agent() {
    require_netns!();
    let hangs = "exec sleep 1000";
    for (broken, text, lost) in [
        ("iptables-nft-restore", versed("exit 1"), "IPv4 "),
        ("ip6tables-nft-restore", versed("exit 1"), "IPv6 "),
        ("iptables-nft-save", hangs.to_owned(), "IPv4 "),
        ("ip6tables-nft-restore", versed(hangs), "IPv6 "),
    ] {
        let cluster = Cluster::builder().node("node-a").build().expect("root");
        let node = cluster.node("node-a");
        let scratch = with_programs(node.netns(), &[(broken.to_owned(), text)]);
        let manifests = scratch.path().join("manifests").display().to_string();
        let flags = [&FLAGS[..], &["--manifests", &manifests]].concat();
        let program = scratch.path().join("agent");
        let agent = Agent::start(&program, node, scratch.path(), &flags, is_synced);
        let agent = agent.expect("the other family is served");
        let status: Status = client::get(agent.socket(), "/status").expect("it answers");
        let unserved = status.unserved.as_deref().unwrap_or_default();
        assert!(unserved.starts_with(lost), "{broken}: {unserved}");
    }
}

/// An agent that waits for a program at its start ends at once when it is asked to, and leaves no program behind.
#[test]
fn a_signal_at_the_start_ends_the_agent_and_its_program() {
    require_netns!();
    let cluster = Cluster::builder().node("node-a").build().expect("root");
    let node = cluster.node("node-a");
    let pids = tempfile::NamedTempFile::new().expect("a temporary file");
    let text = versed(&format!(
        "echo $$ >> {}; exec sleep 1000",
        pids.path().display()
    ));
    let names = ["iptables-nft-save", "ip6tables-nft-save"];
    let programs = names.map(|it| (it.to_owned(), text.clone()));
    let scratch = with_programs(node.netns(), &programs);
    let [manifests, socket] = ["manifests", "socket"].map(|it| scratch.path().join(it));
    let [manifests, socket] = [manifests, socket].map(|it| it.display().to_string());
    let own = ["proxy", "--manifests", &manifests, "--socket", &socket];
    let program = scratch.path().join("agent").display().to_string();
    let mut agent = node.netns().command(&program, &[&own[..], &FLAGS].concat());
    let mut agent = agent.spawn().expect("it starts");
    let both = eventually(WITHIN, || {
        let pids = fs::read_to_string(pids.path()).ok()?;
        let pids: Vec<String> = pids.lines().map(str::to_owned).collect();
        (pids.len() == names.len()).then_some(pids)
    });
    let agent_id = Pid::from_raw(agent.id().cast_signed());
    kill(agent_id, Signal::SIGTERM).expect("it runs");
    let status = agent.wait().expect("it ends");
    assert_eq!(status.code(), Some(0), "a signal ended it");
    for pid in both.expect("it waits for the programs of both families") {
        let is_gone = || (!Path::new("/proc").join(&pid).exists()).then_some(());
        assert!(eventually(WITHIN, is_gone).is_some(), "{pid} runs");
    }
}

/// The system's program of this name, which does something else while a file is there.
fn unless(file: &Path, then: &str, name: &str) -> (String, String) {
    let text = format!(
        "[ -e {} ] && {then}\nexec /usr/sbin/{name} \"$@\"",
        file.display()
    );
    (name.to_owned(), text)
}

/// The log says what is lost before it says that the rest works, and a program that hangs is named to whoever asks the kernel.
#[test]
fn what_does_not_work_is_named() {
    require_netns!();
    let cluster = Cluster::builder().node("node-a").build().expect("root");
    let node = cluster.node("node-a");
    let switches = tempfile::tempdir().expect("a temporary directory");
    let [fails, hangs] = ["fails", "hangs"].map(|it| switches.path().join(it));
    let restore = "ip6tables-nft-restore";
    let programs = [
        unless(&fails, "{ echo no memory >&2; exit 4; }", restore),
        unless(&hangs, "exec sleep 1000", "iptables-nft-save"),
    ];
    let scratch = with_programs(node.netns(), &programs);
    let manifests = scratch.path().join("manifests");
    let folder = manifests.display().to_string();
    let flags = [&FLAGS[..], &["--manifests", &folder]].concat();
    let program = scratch.path().join("agent");
    let agent = Agent::start(&program, node, scratch.path(), &flags, is_synced);
    let agent = agent.expect("it starts");
    fs::write(&fails, "").expect("writable");
    let service = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, \
                    spec: {clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10, 'fd00:10:96::10'], \
                    ipFamilies: [IPv4, IPv6], ports: [{port: 80}]}}";
    fs::write(manifests.join("web.yaml"), service).expect("writable");
    let works = eventually(WITHIN, || {
        let log = fs::read_to_string(scratch.path().join("node-a.log")).ok()?;
        log.contains("sync works again").then_some(log)
    });
    let log = works.expect("IPv4 is served");
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text}? {log}"));
    let lost = at("IPv6 is not written until this works");
    assert!(lost < at("sync works again, without IPv6"), "{log}");

    fs::write(&hangs, "").expect("writable");
    let socket = agent.socket().display().to_string();
    let program = program.display().to_string();
    for question in [
        &["explain", "--live", "node", "10.96.0.10:80"][..],
        &["doctor", "default/web"],
    ] {
        let words = [question, &["--socket", &socket]].concat();
        let output = node.netns().command(&program, &words).output();
        let output = output.expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let named = "iptables-nft-save --version: killed, it did not end within 5 s";
        assert!(said.contains(named), "{question:?}: {said}");
    }
}
