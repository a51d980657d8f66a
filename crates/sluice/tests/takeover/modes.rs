//! Sluice goes from one mode to another by a restart, under traffic.

use sluice_lab::require_netns;

use crate::takeover::world::{DRIFT, World, more, unhurt};

/// The rule that keeps other hosts from the loopback address stays, as the sysctl does that makes it
/// necessary; a kubelet has the same rule in the same chain.
pub(crate) fn without_guard(rules: &str) -> String {
    let is_guard = |it: &&str| it.contains("-d 127.0.0.0/8") && it.contains("KUBE-FIREWALL");
    let lines = rules.lines().filter(|it| !is_guard(it));
    lines.collect::<Vec<_>>().join("\n")
}

/// Clients that never stop connecting see nothing of it, and neither do open connections.
#[track_caller]
fn there_and_back(flavour: &str) {
    let mut world = World::new();
    world.install_neighbours(flavour);
    let neighbours = world.saved(flavour);
    world.start_in("nftables");
    world.until_logged("synced");
    let mut sessions: Vec<_> = world.sessions().into();
    let hammers = world.hammers();
    for _ in 0..2 {
        world.stop();
        world.start_in("iptables");
        world.until_logged("removed what an earlier proxy left");
        assert!(!world.tables().contains("sluice"), "{}", world.log());
        assert!(world.saved(flavour).contains("KUBE-SVC-"));
        more(&hammers, 30);
        sessions.extend(world.sessions());
        sessions.iter_mut().for_each(|it| it.ping().unwrap());
        world.stop();
        world.start_in("nftables");
        world.until_logged("removed what an earlier proxy left");
        let rules = without_guard(&world.saved(flavour));
        assert_eq!(rules, without_guard(&neighbours), "rules of others");
        more(&hammers, 30);
        sessions.extend(world.sessions());
        sessions.iter_mut().for_each(|it| it.ping().unwrap());
    }
    unhurt(hammers);
    assert!(!world.log().contains(DRIFT), "{}", world.log());
}

#[test]
fn nftables_and_iptables_nft() {
    require_netns!();
    there_and_back("nft");
}

#[test]
fn nftables_and_iptables_legacy() {
    require_netns!();
    there_and_back("legacy");
}

/// A family that cannot be served yet keeps the rules of the old mode; the other one does not.
#[test]
fn a_family_that_waits_is_served_by_the_old_mode() {
    require_netns!();
    for flavour in ["nft", "legacy"] {
        let mut world = World::new();
        world.install_neighbours(flavour);
        world.start_in("nftables");
        world.until_logged("synced");
        world.stop();
        world.break_ip6tables(flavour);
        let mut sessions: Vec<_> = world.sessions().into();
        let hammers = world.hammers();
        world.start_in("iptables");
        world.until_logged("removed what an earlier proxy left");
        let tables = world.tables();
        assert!(tables.contains("table ip6 sluice"), "{tables}");
        assert!(!tables.contains("table ip sluice"), "{tables}");
        more(&hammers, 30);
        world.mend_ip6tables();
        world.until_logged("removed=\"table ip6 sluice\"");
        assert!(!world.tables().contains("sluice"), "{}", world.log());
        more(&hammers, 30);
        sessions.extend(world.sessions());
        sessions.iter_mut().for_each(|it| it.ping().unwrap());
        unhurt(hammers);
    }
}

/// A kube-proxy in iptables mode goes, and Sluice takes its chains as they are: nobody's rules are
/// flushed in between.
#[test]
fn the_chains_of_a_kube_proxy_are_adopted() {
    require_netns!();
    for flavour in ["nft", "legacy"] {
        let mut world = World::new();
        world.install_neighbours(flavour);
        world.install(crate::takeover::world::Mode::Iptables(flavour));
        let mut sessions = world.sessions();
        let hammers = world.hammers();
        world.start_in("iptables");
        world.until_logged("synced");
        more(&hammers, 30);
        sessions.iter_mut().for_each(|it| it.ping().unwrap());
        unhurt(hammers);
        assert!(!world.log().contains("kube-proxy seems to be still running"));
    }
}

/// Also while a takeover removes chains at the same time.
#[test]
fn a_flush_by_somebody_else_is_repaired() {
    require_netns!();
    let mut world = World::new();
    world.install_neighbours("nft");
    let left = "*filter\n:KUBE-IPVS-FILTER - [0:0]\n-A INPUT -j KUBE-IPVS-FILTER\nCOMMIT\n";
    world.run("iptables-nft-restore", &["--noflush"], left);
    world.start_in("iptables");
    world.until_logged("removed=\"1 iptables chains of table ip filter\"");
    world.run("iptables-nft", &["-t", "nat", "-F", "KUBE-SERVICES"], "");
    world.until_logged(DRIFT);
    world.answers();
}

/// The iptables mode writes its rules.
#[track_caller]
fn come(world: &mut World, flavour: &str) {
    world.start_in("iptables");
    world.until_logged("synced");
    world.stop();
    assert!(world.saved(flavour).contains("KUBE-SVC-"));
}

/// The iptables mode writes its rules, and is cleaned up.
#[track_caller]
fn come_and_go(world: &mut World, flavour: &str) {
    come(world, flavour);
    let output = world.sluice(&["cleanup"], None);
    assert!(output.status.success(), "{output:?}");
}

/// Chains of the iptables mode have kube-proxy's names, and go with it all the same.
#[test]
fn cleanup_removes_what_the_iptables_mode_wrote() {
    require_netns!();
    for flavour in ["nft", "legacy"] {
        let mut world = World::new();
        world.install_neighbours(flavour);
        let neighbours = world.saved(flavour);
        come_and_go(&mut world, flavour);
        let rules = without_guard(&world.saved(flavour));
        assert_eq!(rules, without_guard(&neighbours), "rules of others");
        let again = world.sluice(&["cleanup"], None);
        let again = String::from_utf8(again.stdout).unwrap();
        assert!(again.lines().all(|it| it.starts_with("left ")), "{again}");
    }
}

/// Nothing of filter says any more whose the chains of nat are.
#[test]
fn cleanup_ends_a_flush_by_hand() {
    require_netns!();
    for flavour in ["nft", "legacy"] {
        let mut world = World::new();
        world.install_neighbours(flavour);
        come(&mut world, flavour);
        for services in world.families() {
            let program = format!("{}-{flavour}", services.program());
            world.run(&program, &["-F"], "");
            world.run(&program, &["-X"], "");
        }
        assert!(world.saved(flavour).contains("KUBE-SVC-"));
        let output = world.sluice(&["cleanup"], None);
        assert!(output.status.success(), "{output:?}");
        let rules = world.saved(flavour);
        assert!(!rules.contains(":KUBE-SERVICES"), "{rules}");
        assert!(!rules.contains("KUBE-SVC-"), "{rules}");
    }
}

/// The kubelet has the guard against packets to loopback as well, in a chain that both use.
#[test]
fn cleanup_leaves_a_kubelet_its_rule() {
    require_netns!();
    for flavour in ["nft", "legacy"] {
        let mut world = World::new();
        world.install_neighbours(flavour);
        let guard = "*filter\n-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment \
                     \"block incoming localnet connections\" -m conntrack ! --ctstate \
                     RELATED,ESTABLISHED,DNAT -j DROP\nCOMMIT\n";
        let restore = format!("iptables-{flavour}-restore");
        world.run(&restore, &["--noflush"], guard);
        let neighbours = world.saved(flavour);
        assert_ne!(without_guard(&neighbours), neighbours);
        come_and_go(&mut world, flavour);
        assert_eq!(world.saved(flavour), neighbours, "rules of others");
    }
}
