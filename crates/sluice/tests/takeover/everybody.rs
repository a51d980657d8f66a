//! Everybody at once, through kills and changes of mode: a pod and the node, by ClusterIP, by NodePort, and directly.

use std::net::SocketAddr;
use std::time::Duration;

use sluice_lab::{Hammer, Netns, Probe, require_netns};

use crate::takeover::kube_proxy::{NODE_PORT, POD_PORT, PORT};
use crate::takeover::world::{World, more, unhurt};

/// A lost SYN is sent again after one second, and after three.
const PATIENT: Duration = Duration::from_secs(5);
/// Connections of each client to each address between two changes.
const CONNECTIONS: u64 = 100;
/// What a network plugin has: it masquerades pods, so the kernel tracks and translates connections from the start.
const PLUGIN: &str = "table ip plugin { chain postrouting { type nat hook postrouting priority 100; \
    ip saddr 10.244.0.0/16 ip daddr != { 10.0.0.0/8, 192.168.100.0/24 } masquerade; }; }\n";

/// Sockets get other ports than the programs give.
#[test]
fn with_ports_of_their_own() {
    everybody_goes_on("nftables", "32768 60999");
}

/// Sockets get any port, as on servers with many connections.
#[test]
fn with_the_same_ports() {
    everybody_goes_on("iptables", "1024 65535");
}

/// Nobody loses a connection. The node dials no Service while the mode changes: `docs/migration.md` says that it may lose
/// some then.
fn everybody_goes_on(mode: &str, range: &str) {
    require_netns!();
    let mut world = World::new();
    world.run("nft", &["-f", "-"], PLUGIN);
    let set = world.node().sysctl("net.ipv4.ip_local_port_range", range);
    set.unwrap();
    world.start_in("ebpf");
    world.until_logged("synced");
    let node = world.cluster.node("node-a").ipv4().into();
    let direct = SocketAddr::new(world.v4.pods[0], POD_PORT);
    let services = [
        SocketAddr::new(world.v4.web, PORT),
        SocketAddr::new(node, NODE_PORT),
    ];
    let mut all = vec![dial(world.shell(), direct), dial(world.node(), direct)];
    all.extend(services.map(|it| dial(world.shell(), it)));
    let nodes = services.map(|it| dial(world.node(), it));
    let go_on = |some: &[&[Hammer]]| some.iter().for_each(|it| more(it, CONNECTIONS));
    go_on(&[&all, &nodes]);
    world.kill();
    go_on(&[&all, &nodes]);
    world.start_in("ebpf");
    world.until_logged("first sync");
    go_on(&[&all, &nodes]);
    unhurt(nodes);
    world.stop();
    world.start_in(mode);
    world.until_logged("synced");
    go_on(&[&all]);
    world.stop();
    world.start_in("ebpf");
    world.until_logged("removed what an earlier proxy left");
    go_on(&[&all]);
    unhurt(all);
}

fn dial(client: &Netns, target: SocketAddr) -> Hammer {
    Hammer::start(client, Probe::tcp(target).timeout(PATIENT)).unwrap()
}
