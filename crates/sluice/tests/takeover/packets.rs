//! What rules count, as metrics: kube-proxy's two, from the kernel's own objects.

use std::net::SocketAddr;

use sluice_lab::{Probe, Session, require_netns};
use sluice_plane::kube_proxy::CT_STATE_INVALID_DROPPED;

use crate::takeover::kube_proxy::{NODE_PORT, POD_PORT};
use crate::takeover::world::World;

const INVALID: &str = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total";
const LOCALHOST: &str = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total";

/// From the agent's start, through a restart, to the clean-up.
fn are_counted(flavour: &str) {
    let mut world = World::new();
    world.install_neighbours(flavour);
    world.start_in("iptables");
    world.until_logged("synced");
    assert_eq!((world.metric(INVALID), world.metric(LOCALHOST)), (0, 0));

    let probe = |ip: [u8; 4]| Probe::tcp(SocketAddr::from((ip, NODE_PORT)));
    let localhost = probe([127, 0, 0, 1]);
    world.until_logged("sysctl set");
    for _ in 0..3 {
        let outcome = localhost.from(world.node());
        assert!(outcome.name().is_some(), "{outcome}: {}", world.log());
    }
    let elsewhere = probe(world.cluster.node("node-a").ipv4().octets());
    assert!(elsewhere.from(world.shell()).name().is_some());
    assert_eq!(world.metric(LOCALHOST), 3, "the first packet of each");

    assert_eq!(world.metric(INVALID), 0);
    for services in world.families() {
        let pod = SocketAddr::new(services.pods[0], POD_PORT);
        let mut session = Session::connect(world.shell(), pod).unwrap();
        session.ping().unwrap();
        // As if it had been silent for too long.
        let key = "net.netfilter.nf_conntrack_tcp_loose";
        world.node().sysctl(key, "0").unwrap();
        world.run("conntrack", &["-F"], "");
        let before = world.metric(INVALID);
        session.ping().unwrap_err();
        assert!(world.metric(INVALID) > before, "{pod}");
    }

    let (invalid, localhost) = (world.metric(INVALID), world.metric(LOCALHOST));
    world.stop();
    world.start_in("iptables");
    world.until_logged("started");
    assert!(world.metric(INVALID) >= invalid, "the kernel went on");
    assert_eq!(world.metric(LOCALHOST), localhost);
    world.stop();
    let output = world.sluice(&["cleanup"], None);
    let said = removed(output.stdout);
    assert!(said.ends_with("\nremoved 2 nfacct objects\n"), "{said}");
}

/// The lines of `sluice cleanup` about what it removed.
fn removed(stdout: Vec<u8>) -> String {
    let said = String::from_utf8(stdout).unwrap();
    let lines = said.split_inclusive('\n');
    lines.filter(|it| it.starts_with("removed ")).collect()
}

/// The nftables mode removes the rules and leaves the objects; whoever cleans up later, with or
/// without something else to remove, removes those that no rule mentions.
fn are_removed_after_another_mode(flavour: &str) {
    let mut world = World::new();
    world.install_neighbours(flavour);
    world.start_in("iptables");
    world.until_logged("synced");
    world.stop();
    world.start();
    world.until_logged("removed what an earlier proxy left");
    world.stop();
    let iptables = format!("iptables-{flavour}");
    let mention = |command| {
        let object = CT_STATE_INVALID_DROPPED;
        let rule = [command, "FORWARD", "-m", "nfacct", "--nfacct-name", object];
        world.run(&iptables, &rule, "");
    };
    mention("-A");
    let output = world.sluice(&["cleanup"], None);
    let said = removed(output.stdout);
    assert_eq!(
        said,
        "removed table ip sluice\nremoved table ip6 sluice\nremoved 1 nfacct objects\n"
    );
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("stays: a rule mentions it"), "{notes}");
    assert!(output.status.success(), "{notes}");
    mention("-D");
    for expected in ["removed 1 nfacct objects\n", ""] {
        let output = world.sluice(&["cleanup"], None);
        assert_eq!(removed(output.stdout), expected);
        assert_eq!(output.stderr, b"");
    }
}

#[test]
fn after_iptables_nft() {
    require_netns!();
    are_removed_after_another_mode("nft");
}

#[test]
fn after_iptables_legacy() {
    require_netns!();
    are_removed_after_another_mode("legacy");
}

#[test]
fn of_iptables_nft() {
    require_netns!();
    are_counted("nft");
}

#[test]
fn of_iptables_legacy() {
    require_netns!();
    are_counted("legacy");
}
