//! Tests which server answers, in each data plane, over both families and protocols.

use std::net::IpAddr;

use sluice_dns_agent::local_dns::DNS_PORT;
use sluice_lab::{Protocol, Server, require_netns};
use sluice_model::{DNS_OWNER_PORT, LocalDetector};

use crate::holder::Holder;
use crate::world::{Client, Plane, World, addresses, cluster_ips};

/// A host firewall that drops the packets that conntrack calls invalid.
fn with_firewall(world: &World, plane: Plane) {
    let hooks: &[&str] = match plane {
        // The node's own connections leave through "forward" there, and the answers do not come back through it.
        Plane::Ebpf => &["input", "output"],
        _ => &["input", "forward", "output"],
    };
    let chain = |it: &&str| {
        format!(
            "chain {it} {{ type filter hook {it} priority 0; ct state invalid counter drop; }}\n"
        )
    };
    let chains: String = hooks.iter().map(chain).collect();
    let rules = format!("table inet host {{\n{chains}}}\n");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    world.run("nft", &["-f", file.path().to_str().unwrap()]);
}

pub(crate) fn everybody(world: &World, addresses: &[IpAddr], expected: &str) {
    for client in [Client::Pod, Client::Node] {
        for address in addresses {
            world.check(client, *address, expected);
        }
    }
}

#[test]
fn this_process_while_it_lives_and_the_clusters_dns_otherwise() {
    require_netns!();
    for plane in Plane::ALL {
        let world = World::new(plane, World::recognising_pods(), false);
        with_firewall(&world, plane);
        let holder = Holder::start(&world, DNS_PORT);
        // The sockets exist, and no query comes to them.
        everybody(&world, &addresses(), "cluster");
        assert!(!world.connections().is_empty());
        drop(holder);
        world.forget_connections();

        let holder = Holder::taking(&world, DNS_PORT);
        everybody(&world, &addresses(), "local");
        assert_eq!(world.connections(), [""; 0], "{plane:?}");
        everybody(&world, &cluster_ips(), "cluster");

        holder.kill();
        everybody(&world, &addresses(), "cluster");
        let holder = Holder::taking(&world, DNS_PORT);
        everybody(&world, &addresses(), "local");
        drop(holder);
    }
}

/// The kernel gives the node's own queries the address as their source, to which no endpoint could reply.
#[test]
fn the_node_reaches_the_clusters_dns_where_pods_are_not_recognised() {
    require_netns!();
    for plane in Plane::ALL {
        let world = World::new(plane, LocalDetector::None, true);
        drop(Holder::start(&world, DNS_PORT));
        everybody(&world, &addresses(), "cluster");
        everybody(&world, &cluster_ips(), "cluster");
        let shell = world.cluster.pod("shell");
        for (outcome, pod) in [
            (
                world.ask(Client::Pod, addresses()[0]),
                IpAddr::V4(shell.ipv4()),
            ),
            (
                world.ask(Client::Pod, addresses()[1]),
                IpAddr::V6(shell.ipv6()),
            ),
        ] {
            // Pods keep their address.
            assert_eq!(outcome.map(|it| it.source()), [Some(pod); 2], "{plane:?}");
        }
    }
}

#[test]
fn cluster_ips_are_answered_for_this_node_alone() {
    require_netns!();
    for plane in Plane::ALL {
        let world = World::new(plane, World::recognising_pods(), true);
        let holder = Holder::taking(&world, DNS_PORT);
        everybody(&world, &addresses(), "local");
        everybody(&world, &cluster_ips(), "local");
        assert_eq!(world.connections(), [""; 0], "{plane:?}");
        for address in cluster_ips() {
            world.check(Client::Outside, address, "cluster");
        }
        holder.kill();
        everybody(&world, &cluster_ips(), "cluster");
        for address in cluster_ips() {
            world.check(Client::Outside, address, "cluster");
        }
    }
}

#[test]
fn without_a_way_to_recognise_pods_everybody_is_answered() {
    require_netns!();
    for plane in [Plane::Nftables, Plane::Ebpf] {
        let world = World::new(plane, LocalDetector::None, true);
        let _holder = Holder::taking(&world, DNS_PORT);
        for address in cluster_ips() {
            world.check(Client::Outside, address, "local");
        }
    }
}

/// Only a socket of the address itself means that its process takes the queries.
#[test]
fn a_server_on_all_addresses_gets_no_query() {
    require_netns!();
    let world = World::new(Plane::Ebpf, World::recognising_pods(), true);
    let other = |port, it| Server::start(world.node(), "other", port, it).unwrap();
    let _other = other(DNS_OWNER_PORT, Protocol::Udp);
    let _servers = [Protocol::Udp, Protocol::Tcp].map(|it| other(DNS_PORT, it));
    let served: Vec<IpAddr> = world.dns().served().collect();
    everybody(&world, &served, "cluster");
}

/// As in the IPVS mode, where a virtual server on port 53 takes packets before any socket.
#[test]
fn sockets_may_have_another_port() {
    require_netns!();
    let world = World::new(Plane::Nftables, World::recognising_pods(), true);
    let holder = Holder::taking(&world, 5300);
    everybody(&world, &addresses(), "local");
    everybody(&world, &cluster_ips(), "local");
    assert_eq!(world.connections(), [""; 0]);
    holder.kill();
    everybody(&world, &addresses(), "cluster");
    everybody(&world, &cluster_ips(), "cluster");
}
