//! Tests the addresses and the table beside other addresses and tables of the machine.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use sluice_dns_agent::Names;
use sluice_dns_agent::local_dns::{DNS_PORT, LocalDns, clean_up};
use sluice_lab::require_netns;
use sluice_model::{LocalDetector, NodeDns};
use sluice_node::{Consumer as _, node};

use crate::holder::Holder;
use crate::world::{Client, Plane, World, addresses};

fn on_lo(world: &World) -> String {
    world.run("ip", &["-o", "address", "show", "dev", "lo"])
}

#[test]
fn the_addresses_stay_are_none_of_the_node_and_are_cleaned_up() {
    require_netns!();
    let world = World::new(Plane::Nftables, World::recognising_pods(), true);
    let before = world.node().run(|| node::addresses("").unwrap());
    Holder::taking(&world, DNS_PORT).kill();
    let listed = on_lo(&world);
    for address in world.dns().served() {
        assert!(
            listed.contains(&format!(" {address}/")),
            "{address}: {listed}"
        );
    }
    assert!(listed.contains("169.254.20.10/32 metric"), "{listed}");
    assert!(listed.contains("scope host lo:sluice-dns"), "{listed}");
    assert_eq!(world.node().run(|| node::addresses("").unwrap()), before);

    world.run("ip", &["address", "add", "192.0.2.1/32", "dev", "lo"]);
    let tables = || world.run("nft", &["list", "tables"]);
    assert_eq!(
        tables().matches("sluice-dns-replies").count(),
        2,
        "{}",
        tables()
    );
    // A table of the same name that we did not make.
    world.run("nft", &["delete", "table", "ip6", "sluice-dns-replies"]);
    world.run("nft", &["add", "table", "ip6", "sluice-dns-replies"]);
    let removed = world.node().run(|| clean_up().unwrap());
    let mut expected = vec!["tables sluice-dns-replies".to_owned()];
    let served: BTreeSet<IpAddr> = world.dns().served().collect();
    expected.extend(
        served
            .iter()
            .map(|it| format!("address {it} of the DNS server on lo")),
    );
    assert_eq!(
        removed.iter().collect::<BTreeSet<_>>(),
        expected.iter().collect()
    );
    assert_eq!(
        tables().matches("sluice-dns-replies").count(),
        1,
        "{}",
        tables()
    );
    let left = on_lo(&world);
    assert!(
        left.contains("127.0.0.1/8") && left.contains("192.0.2.1/32"),
        "{left}"
    );
    assert!(
        !left.contains("sluice") && !left.contains("fd00:"),
        "{left}"
    );
    assert_eq!(world.node().run(|| clean_up().unwrap()), [""; 0]);
}

#[test]
fn a_changed_configuration_takes_its_old_addresses_away() {
    require_netns!();
    let world = World::new(Plane::Nftables, World::recognising_pods(), false);
    // An address that a person added is ours from then on, with our scope.
    world.run("ip", &["address", "add", "169.254.20.10/32", "dev", "lo"]);
    let open = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        let dns = NodeDns {
            addresses,
            ..NodeDns::usual()
        };
        world.node().run(|| {
            let local = LocalDns::open(&dns, &LocalDetector::None, DNS_PORT).unwrap();
            local.sockets().map(|it| it.to_string()).collect::<Vec<_>>()
        })
    };
    assert_eq!(open(&["169.254.20.10"]), ["169.254.20.10:53"]);
    assert!(on_lo(&world).contains("169.254.20.10/32 metric"));
    assert_eq!(open(&["169.254.20.11"]), ["169.254.20.11:53"]);
    let listed = on_lo(&world);
    assert!(!listed.contains("169.254.20.10"), "{listed}");
    assert!(listed.contains("169.254.20.11"), "{listed}");
}

#[test]
fn without_ipv6_the_other_family_is_served() {
    require_netns!();
    let world = World::new(Plane::Nftables, World::recognising_pods(), false);
    world
        .node()
        .sysctl("net.ipv6.conf.lo.disable_ipv6", "1")
        .unwrap();
    let dns = NodeDns::usual();
    let local = world
        .node()
        .run(|| LocalDns::open(&dns, &LocalDetector::None, DNS_PORT).unwrap());
    let sockets: Vec<_> = local.sockets().map(|it| it.to_string()).collect();
    assert_eq!(sockets, ["169.254.20.10:53"]);
    let names = Names::new(|_| (), Arc::new(Mutex::new(local)), &dns);
    let status = format!("{:?}", names.status());
    assert!(status.contains("169.254.20.10"), "{status}");
    assert!(!status.contains("fd00:169"), "{status}");
}

/// No other program can change the table while its owner lives, and it is gone afterwards.
#[test]
fn the_table_belongs_to_its_process() {
    require_netns!();
    let world = World::new(Plane::Nftables, World::recognising_pods(), false);
    let mut holder = Holder::taking(&world, DNS_PORT);
    world.run("nft", &["flush", "ruleset"]);
    world.check(Client::Pod, addresses()[0], "local");
    let tables = || world.run("nft", &["list", "tables"]);
    assert_eq!(tables().matches("sluice-dns\n").count(), 2, "{}", tables());
    // The queries can be taken any number of times.
    holder.say("take");
    holder.say("give back");
    holder.say("take");
    world.check(Client::Node, addresses()[1], "local");
    holder.kill();
    assert_eq!(tables().matches("sluice-dns\n").count(), 0, "{}", tables());
}
