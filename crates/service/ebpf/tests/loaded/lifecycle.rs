//! Programs outlive the agent, and go when they are told to.

use std::env;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use aya::maps::MapInfo;
use sluice_bpf::{Lack, probe};
use sluice_bpf_abi::{Endpoint, EndpointKey, Flow, Tuple};
use sluice_ebpf::{LOSSES, Maps, Programs, Setup, Sizes};
use sluice_lab::{eventually, ran_in_vm};

use crate::loaded::world::{
    Root, SOON, attached, command, count_at, ip, open, pins, programs_at, run, setup,
};

/// Tells the second process of [`programs_outlive_a_killed_agent`] where to pin.
const PINS_OF_CHILD: &str = "SLUICE_TEST_PINS";

/// Ids of all pinned maps, by name.
fn map_ids(root: &Root) -> Vec<(String, u32)> {
    let files = std::fs::read_dir(pins(root).maps()).unwrap();
    let mut ids: Vec<(String, u32)> = files
        .map(|it| {
            let path = it.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, MapInfo::from_pin(path).unwrap().id())
        })
        .collect();
    ids.sort();
    ids
}

fn add_endpoint(programs: &mut Programs, slot: u32) -> EndpointKey {
    let key = EndpointKey { service: 7, slot };
    let endpoints = &mut programs.maps_mut().endpoints;
    assert!(endpoints.insert_new(&key, &Endpoint::default()).unwrap());
    key
}

#[test]
fn this_kernel_lacks_nothing_that_is_needed() {
    run("probe", |_, _| {
        let lacks = probe(&LOSSES).unwrap();
        assert!(lacks.iter().all(|it| !it.is_needed), "{lacks:?}");
    });
}

#[test]
fn nothing_is_attached_before_attach() {
    run("before", |_, root| {
        let programs = open(root);
        assert!(!programs.is_attached());
        assert_eq!(count_at("east"), 0);
    });
}

fn the_next_agent_adopts_maps(root: &Root) {
    let mut first = attached(root);
    let ids = map_ids(root);
    assert_eq!(ids.len(), 20, "{ids:?}");
    let key = add_endpoint(&mut first, 1);
    let before = programs_at("east").unwrap();
    drop(first);
    assert_eq!(programs_at("east"), Some(before), "the agent has ended");

    let second = attached(root);
    assert_eq!(map_ids(root), ids);
    assert!(second.maps().endpoints.get(&key).unwrap().is_some());
    let after = programs_at("east").unwrap();
    assert_ne!(after, before, "the second agent brings programs of its own");
}

#[test]
fn the_next_agent_adopts_maps_and_replaces_programs() {
    run("adopts", |_, root| the_next_agent_adopts_maps(root));
}

fn larger_maps_keep_their_entries(root: &Root) {
    let mut programs = attached(root);
    let key = add_endpoint(&mut programs, 1);
    let before = map_ids(root);
    let capacity = programs.maps().endpoints.capacity();
    let sizes = Sizes {
        endpoints: 2 * capacity,
        ..setup(root.path()).sizes
    };
    programs.grow(&sizes).unwrap();
    assert_eq!(programs.maps().endpoints.capacity(), 2 * capacity);
    assert!(programs.maps().endpoints.get(&key).unwrap().is_some());
    let is_same = |(before, after): (&(String, u32), &(String, u32))| before == after;
    let ids = map_ids(root);
    let same = before.iter().zip(&ids).filter(|it| is_same(*it)).count();
    assert_eq!(same, ids.len() - 1, "only ENDPOINTS is another map");
    assert!(programs_at("east").is_some());
}

/// The next agent wants a larger table of connections. Programs of the earlier one write into the old table until
/// they are replaced.
fn a_larger_table_keeps_connections(root: &Root) {
    let first = attached(root);
    let tuple = |port| Tuple {
        source_port: port,
        ..Tuple::default()
    };
    let mut old = Maps::open(&pins(root)).unwrap().flows;
    old.insert(&tuple(1), &Flow::default()).unwrap();
    drop(first);
    let setup = Setup {
        sizes: Sizes {
            flows: 2 * old.capacity(),
            ..setup(root.path()).sizes
        },
        ..setup(root.path())
    };
    let mut second = Programs::open(setup).unwrap();
    old.insert(&tuple(2), &Flow::default()).unwrap();
    second.attach().unwrap();
    let flows = &second.maps().flows;
    assert_eq!(flows.capacity(), 2 * old.capacity());
    for port in [1, 2] {
        assert!(flows.get(&tuple(port)).unwrap().is_some(), "{port}");
    }
}

#[test]
fn the_next_agent_enlarges_the_table_of_connections() {
    run("flows", |_, root| a_larger_table_keeps_connections(root));
}

#[test]
fn maps_grow_without_losing_entries() {
    run("grows", |_, root| larger_maps_keep_their_entries(root));
}

fn nothing_is_left(root: &Root) {
    let programs = attached(root);
    assert!(pins(root).exist());
    programs.remove().unwrap();
    assert!(!root.path().exists());
    for name in ["lo", "east", "west"] {
        let is_gone = || (count_at(name) == 0).then_some(());
        assert!(eventually(SOON, is_gone).is_some(), "{name}");
    }
}

#[test]
fn cleanup_leaves_nothing() {
    run("cleanup", |_, root| nothing_is_left(root));
}

fn other_patterns_count_after_a_restart(root: &Root) {
    drop(attached(root));
    ip("link set west name no1");
    let _second = attached(root);
    assert!(eventually(SOON, || (count_at("no1") == 0).then_some(())).is_some());
    assert!(programs_at("east").is_some());
}

#[test]
fn the_next_agent_detaches_what_it_does_not_want() {
    run("patterns", |_, root| {
        other_patterns_count_after_a_restart(root)
    });
}

#[test]
fn filters_of_others_stay() {
    run("others", |_, root| {
        command("tc", "qdisc add dev east clsact").unwrap();
        // A program of one instruction: every packet passes.
        let arguments = [
            "filter",
            "add",
            "dev",
            "east",
            "ingress",
            "bpf",
            "bytecode",
            "1,6 0 0 0,",
        ];
        let added = Command::new("tc").args(arguments).status().unwrap();
        assert!(added.success());
        let foreign = || command("tc", "filter show dev east ingress").unwrap();
        let before = foreign();
        assert!(before.contains("bytecode"), "{before}");
        attached(root).remove().unwrap();
        assert_eq!(foreign(), before);
    });
}

#[test]
fn programs_outlive_a_killed_agent() {
    if let Some(root) = env::var_os(PINS_OF_CHILD) {
        return wait_for_the_kill(Path::new(&root));
    }
    run("killed", |netns, root| {
        let binary = env::current_exe().unwrap();
        let name = "loaded::lifecycle::programs_outlive_a_killed_agent";
        let arguments = ["--exact", name, "--nocapture"];
        let mut child = netns
            .command(binary.to_str().unwrap(), &arguments)
            .env(PINS_OF_CHILD, root.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap());
        let mut lines = printed.lines().map_while(Result::ok);
        let is_ready = lines.any(|it| it.ends_with("attached"));
        let before = programs_at("east");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            is_ready,
            "the process ended before its programs were attached"
        );
        assert!(before.is_some());
        assert_eq!(programs_at("east"), before);
        // What appears while nobody is there gets programs from the next agent.
        ip("link add late type veth peer name other");
        let _second = attached(root);
        assert!(eventually(SOON, || programs_at("late")).is_some());
    });
}

fn wait_for_the_kill(root: &Path) {
    let mut programs = Programs::open(setup(root)).unwrap();
    programs.attach().unwrap();
    println!("attached");
    // Ends too when the test's process does.
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Filters of clsact instead of links.
#[test]
fn vm_a_kernel_without_tcx() {
    if ran_in_vm(Some("6.1"), "loaded::lifecycle::vm_a_kernel_without_tcx") {
        return;
    }
    let lacks: Vec<String> = probe(&LOSSES)
        .unwrap()
        .iter()
        .map(Lack::to_string)
        .collect();
    let expected = "the kernel lacks TCX (Linux 6.6): filters of clsact are used";
    assert_eq!(lacks, [expected]);
    run("adopts", |_, root| the_next_agent_adopts_maps(root));
    run("grows", |_, root| larger_maps_keep_their_entries(root));
    run("patterns", |_, root| {
        other_patterns_count_after_a_restart(root);
    });
    run("cleanup", |_, root| nothing_is_left(root));
    crate::upgrade::upgrade();
}
