//! `sluice explain --trace` in the ebpf mode: what the programs did with one packet.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sluice_bpf_abi::node_flags;
use sluice_ebpf::{Maps, cgroup_root, pins};
use sluice_lab::{OwnCgroup, Probe, eventually, require_netns};

use crate::takeover::kube_proxy::PORT;
use crate::takeover::world::{SOON, World};

/// The answer of `explain --trace` with these words.
#[track_caller]
fn trace(world: &World, from: &str, to: &str) -> String {
    let asked = world.sluice(&["explain", from, to, "--trace"], None);
    let problem = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{problem}");
    String::from_utf8_lossy(&asked.stdout).into_owned()
}

/// Each of these comes after the one before it.
#[track_caller]
fn assert_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else {
            panic!("no {part:?} in its place:\n{text}");
        };
        rest = behind;
    }
}

/// Whether programs write events in the network namespace of the node.
fn is_on(world: &World) -> bool {
    world.node().run(|| {
        let pins = pins(Path::new("/sys/fs/bpf/sluice")).unwrap();
        let node = Maps::open(&pins).unwrap().node().unwrap();
        node.flags & node_flags::TRACE != 0
    })
}

#[test]
fn a_trace_shows_what_programs_did_with_a_packet_of_a_pod() {
    require_netns!();
    let mut world = World::new();
    world.start_in("ebpf");
    world.until_logged("first sync");
    let shell = world.cluster.pod("shell");
    for client in [shell.ipv4().to_string(), shell.ipv6().to_string()] {
        let said = trace(&world, &client, "default/web:80");
        let way = [
            "programs",
            "arrives through ",
            "a frontend, endpoint ",
            "leaves through ",
            "leaves through vethshell",
            "comes from the frontend ",
            "prerouting",
            "end         delivered to ",
            "answer      connected",
        ];
        assert_order(&said, &way);
        let said = trace(&world, &client, "default/dead:80");
        let refused = "end         rejected: no endpoint anywhere answers (arrives through ";
        assert_order(&said, &["programs", refused, "answer      refused"]);
    }
    assert!(!is_on(&world));
}

/// The node's own packets are led where they leave, behind netfilter; those of a NodePort are masqueraded.
#[test]
fn a_trace_shows_packets_of_the_node_and_masqueraded_ones() {
    require_netns!();
    let mut world = World::new();
    world.start_with("ebpf", &["--masquerade-all"]);
    world.until_logged("first sync");
    let said = trace(&world, "node", "default/web:80");
    let way = [
        "leaves through ",
        "a frontend, endpoint ",
        "end         ",
        ":8080 (leaves through veth",
    ];
    assert_order(&said, &way);
    assert!(said.ends_with("answer      connected\n"), "{said}");

    let shell = world.cluster.pod("shell").ipv4().to_string();
    let node_ip = world.cluster.node("node-a").ipv4();
    let node_port = format!("{node_ip}:{}/tcp", crate::takeover::kube_proxy::NODE_PORT);
    let arguments = ["explain", &shell, &node_port, "--trace", "-o", "json"];
    let asked = world.sluice(&arguments, None);
    let answer: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let programs = answer["trace"]["programs"].as_array().unwrap();
    let acts: Vec<&str> = programs
        .iter()
        .filter_map(|it| it["act"].as_str())
        .collect();
    assert_eq!(acts[..2], ["opened", "carried"], "{answer:#}");
    let mut fates = programs.iter().filter_map(|it| it["fate"].as_str());
    let masqueraded = format!("masqueraded as {node_ip}:");
    assert!(fates.any(|it| it.starts_with(&masqueraded)), "{answer:#}");
    assert!(acts.contains(&"returned"), "{answer:#}");
    assert!(!is_on(&world));
}

/// A socket of a pod is led before there is a packet.
#[test]
fn a_trace_tells_that_a_socket_was_led_before_its_first_packet() {
    require_netns!();
    let cgroup = OwnCgroup::enter(&cgroup_root().unwrap()).unwrap();
    let mut world = World::new();
    let folder = cgroup.path().to_str().unwrap();
    world.start_with("ebpf", &["--ebpf-sockets=all", "--ebpf-cgroup", folder]);
    world.until_logged("first sync");
    let shell = world.cluster.pod("shell").ipv4().to_string();
    for from in [&*shell, "node"] {
        let said = trace(&world, from, "default/web:80");
        let led = [
            "a socket dials",
            "a frontend, connects to endpoint ",
            "end  ",
        ];
        assert_order(&said, &led);
        assert!(said.ends_with("answer      connected\n"), "{said}");
        let said = trace(&world, from, "default/dead:80");
        let refused = "end         rejected: no endpoint anywhere answers (a socket dials)";
        assert_order(&said, &[refused, "answer      refused"]);
    }
}

/// Waits for somebody else's packet. Meanwhile nobody else can watch; killed, it leaves nothing that lasts.
#[test]
fn a_trace_waits_for_a_packet_of_another_sender() {
    require_netns!();
    let mut world = World::new();
    world.start_in("ebpf");
    world.until_logged("first sync");
    let shell = world.cluster.pod("shell").ipv4().to_string();
    let arguments = ["explain", &shell, "default/web:80", "--trace", "--wait=1h"];
    let wait = || {
        let child = world
            .question(&arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        eventually(SOON, || is_on(&world).then_some(())).expect("it watches");
        child
    };
    let waiting = wait();
    let second = world.sluice(&arguments, None);
    let problem = String::from_utf8_lossy(&second.stderr);
    assert!(problem.contains("one at a time"), "{problem}");
    let target = SocketAddr::new(world.v4.web, PORT);
    assert!(Probe::tcp(target).from(world.shell()).name().is_some());
    let said = waiting.wait_with_output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said);
    let way = [
        "trace of the first packet",
        "endpoint ",
        "comes from the frontend ",
    ];
    assert_order(&said, &way);
    assert!(!is_on(&world));

    let mut killed = wait();
    kill(Pid::from_raw(killed.id().cast_signed()), Signal::SIGINT).unwrap();
    killed.wait().unwrap();
    // The next agent finds the request of somebody who is gone.
    world.kill();
    world.start_in("ebpf");
    world.until_logged("first sync");
    assert!(!is_on(&world));
}
