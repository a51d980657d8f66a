//! Following a kube-proxy in ipvs mode, in a virtual machine: few kernels of test machines have it.

use std::path::Path;
use std::process::{Command, Output};

use sluice_lab::{eventually, require_netns, require_vm};

use crate::takeover::modes::without_guard;
use crate::takeover::world::{DRIFT, SOON, World};

/// A virtual server of another program, on an address that the node has otherwise.
const THEIRS: &str = "192.168.100.10:4443";

/// One machine for both: to start it takes longer than either.
#[test]
fn ipvs() {
    require_vm!("takeover::vm_ipvs::ipvs");
    require_netns!();
    let mut world = World::new();
    world.install_neighbours("nft");
    world.run("ipset", &["create", "theirs", "hash:ip"], "");
    world.run("ipvsadm", &["-A", "-t", THEIRS, "-s", "rr"], "");
    let neighbours = world.saved("nft");
    start_drains(&mut world, &neighbours);
    world.stop();
    world.sluice(&["cleanup"], None);
    cleanup_waits_for_nobody(&mut world, &neighbours);
}

/// Sluice's own ipvs mode: from the others and back, with connections all the while, each of which
/// is answered.
#[test]
fn modes() {
    require_vm!("takeover::vm_ipvs::modes");
    require_netns!();
    let mut world = World::new();
    world.install_neighbours("nft");
    world.run("ipset", &["create", "theirs", "hash:ip"], "");
    let neighbours = world.saved("nft");
    the_machine_is_prepared(&world);
    modes_change(&mut world, &neighbours);
}

/// In a container only the init container may set sysctls, and those of IPVS are there only once its
/// module is.
#[track_caller]
fn the_machine_is_prepared(world: &World) {
    assert!(!Path::new("/sys/module/ip_vs").exists(), "nothing to load");
    let prepare = || {
        let flags = "proxy --init-only --proxy-mode=ipvs --conntrack-max-per-core=0";
        world.sluice(&flags.split(' ').collect::<Vec<_>>(), None)
    };
    let modules = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let status = command.args(arguments).arg("/lib/modules").status();
        assert!(status.unwrap().success(), "{program}");
    };
    let is_prepared = |output: Output| {
        assert!(output.status.success(), "{output:?}");
        let conntrack = world.run("sysctl", &["-n", "net.ipv4.vs.conntrack"], "");
        assert_eq!(conntrack, "1\n");
    };
    let loader = world.run("sysctl", &["-n", "kernel.modprobe"], "");
    world.run("sysctl", &["-qw", "kernel.modprobe=/bin/false"], "");
    modules("mount", &["-t", "tmpfs", "none"]);
    let output = prepare();
    modules("umount", &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`modprobe ip_vs`"), "{output:?}");
    is_prepared(prepare());
    world.run("rmmod", &["ip_vs"], "");
    let loader = format!("kernel.modprobe={}", loader.trim());
    world.run("sysctl", &["-qw", &loader], "");
    is_prepared(prepare());
}

/// New connections are Sluice's at once; old ones hold up the removal until they end.
fn start_drains(world: &mut World, neighbours: &str) {
    world.install_ipvs();
    world.answers();
    let [four, mut six] = world.sessions();
    world.start();
    world.answers_until_logged("waiting for their end");
    // Nobody waits for these.
    let ours = world.sessions();
    assert!(world.has_ipvs());
    drop(four);
    six.ping().unwrap();
    assert!(!world.log().contains("removed what an earlier proxy left"));
    drop(six);
    world.answers_until_logged("removed what an earlier proxy left");
    let log = world.log();
    assert!(
        log.contains("4 virtual servers, interface kube-ipvs0"),
        "{log}"
    );
    assert!(log.contains("8 ipsets"), "{log}");
    for mut session in ours {
        session.ping().unwrap();
    }
    world.answers();
    only_neighbours(world, neighbours);
}

/// What went through IPVS loses its way: its client hears of it, or the next packet happens to be
/// sent to the same endpoint, by us.
fn cleanup_waits_for_nobody(world: &mut World, neighbours: &str) {
    world.install_ipvs();
    let sessions = world.sessions();
    let output = world.sluice(&["cleanup", "--kube-proxy"], None);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for what in ["4 virtual servers", "interface kube-ipvs0", "8 ipsets"] {
        assert!(said.contains(&format!("removed {what}\n")), "{said}");
    }
    only_neighbours(world, neighbours);
    world.start();
    world.until_logged("synced");
    for mut session in sessions {
        if let Err(error) = session.ping() {
            let heard = error.to_string();
            assert!(heard.contains("reset"), "{heard}");
        }
    }
    world.answers();
}

#[track_caller]
fn only_neighbours(world: &World, neighbours: &str) {
    assert!(!world.has_ipvs());
    assert_eq!(world.run("ipset", &["list", "-n"], ""), "theirs\n");
    let servers = world.run("ipvsadm", &["-S", "-n"], "");
    assert_eq!(servers.trim(), format!("-A -t {THEIRS} -s rr"));
    assert_eq!(world.saved("nft"), neighbours, "rules of others");
}

fn modes_change(world: &mut World, neighbours: &str) {
    for other in ["nftables", "iptables"] {
        world.start_in(other);
        world.until_logged("synced");
        let mut before = world.sessions();
        world.stop();
        world.start_in("ipvs");
        world.answers_until_logged("synced");
        if other == "nftables" {
            world.answers_until_logged("removed what an earlier proxy left");
        }
        looks_as_in_a_tutorial(world);
        before.iter_mut().for_each(|it| it.ping().unwrap());
        if other == "nftables" {
            flushed_rules_come_back(world);
        }
        let [four, mut six] = world.sessions();
        world.stop();
        world.start_in(other);
        world.answers_until_logged("waiting for their end");
        drop(four);
        six.ping().unwrap();
        assert!(world.has_ipvs());
        drop(six);
        world.answers_until_logged("removed what an earlier proxy left");
        before.iter_mut().for_each(|it| it.ping().unwrap());
        assert!(!world.has_ipvs(), "{}", world.log());
        world.stop();
        world.sluice(&["cleanup"], None);
    }
    assert_eq!(world.run("ipset", &["list", "-n"], ""), "theirs\n");
    let rules = without_guard(&world.saved("nft"));
    assert_eq!(rules, without_guard(neighbours), "rules of others");
}

/// Long before the next resync.
fn flushed_rules_come_back(world: &World) {
    let rules = world.saved("nft");
    for deed in [
        "-t nat -F KUBE-POSTROUTING",
        "-t filter -F KUBE-IPVS-FILTER",
        "-t nat -D POSTROUTING 1",
    ] {
        world.run("iptables", &deed.split(' ').collect::<Vec<_>>(), "");
    }
    let is_back = || (world.log().contains(DRIFT) && world.saved("nft") == rules).then_some(());
    assert!(eventually(SOON, is_back).is_some(), "{}", world.log());
}

fn looks_as_in_a_tutorial(world: &World) {
    let web = world.v4.web;
    let servers = world.run("ipvsadm", &["-Ln"], "");
    assert!(servers.contains(&format!("TCP  {web}:80 rr")), "{servers}");
    let set = world.run("ipset", &["list", "KUBE-CLUSTER-IP"], "");
    assert!(set.contains(&format!("{web},tcp:80")), "{set}");
    let addresses = world.run("ip", &["addr", "show", "kube-ipvs0"], "");
    assert!(addresses.contains(&format!("inet {web}/32")), "{addresses}");
}
