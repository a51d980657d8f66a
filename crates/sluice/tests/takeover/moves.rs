//! The moves themselves.

use std::process::Output;

use sluice_lab::require_netns;

use crate::takeover::world::{DRIFT, Mode, World, more, unhurt};

const NFT: Mode = Mode::Iptables("nft");
const LEGACY: Mode = Mode::Iptables("legacy");
const GUIDE: &str = include_str!("../../../../docs/migration.md");

/// kube-proxy is stopped, its rules are there, connections go through them. Sluice starts.
#[track_caller]
fn move_in(mode: Mode, flavour: &str) {
    let mut world = World::new();
    world.install_neighbours(flavour);
    let neighbours = world.saved(flavour);
    world.install(mode);
    assert!(world.has_kube_proxy(mode));
    let mut sessions = world.sessions();
    let hammers = world.hammers();
    world.start();
    world.until_logged("removed what an earlier proxy left");
    assert!(!world.has_kube_proxy(mode), "{}", world.log());
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    more(&hammers, 50);
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    unhurt(hammers);
    assert_eq!(world.saved(flavour), neighbours, "rules of others");
    assert!(!world.log().contains(DRIFT), "{}", world.log());
}

#[test]
fn after_iptables_nft() {
    require_netns!();
    move_in(NFT, "nft");
}

#[test]
fn after_iptables_legacy() {
    require_netns!();
    move_in(LEGACY, "legacy");
}

#[test]
fn after_nftables() {
    require_netns!();
    move_in(Mode::Nftables, "nft");
}

/// kube-proxy starts beside Sluice and syncs; then Sluice is stopped and cleaned up.
#[track_caller]
fn move_out(mode: Mode) {
    let mut world = World::new();
    world.start();
    world.until_logged("synced");
    let mut sessions = world.sessions();
    let hammers = world.hammers();
    world.install(mode);
    more(&hammers, 30);
    world.stop();
    let output = world.sluice(&["cleanup"], None);
    assert_eq!(
        said(&output),
        "removed table ip sluice\nremoved table ip6 sluice\n"
    );
    assert!(!world.tables().contains("sluice"));
    assert!(world.has_kube_proxy(mode));
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    more(&hammers, 50);
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    unhurt(hammers);
}

#[test]
fn back_to_iptables_nft() {
    require_netns!();
    move_out(NFT);
}

#[test]
fn back_to_iptables_legacy() {
    require_netns!();
    move_out(LEGACY);
}

#[test]
fn back_to_nftables() {
    require_netns!();
    move_out(Mode::Nftables);
}

/// A kube-proxy has taken over the chains of our iptables mode. What it does not know goes by the
/// commands of the guide, and nothing else does.
#[track_caller]
fn hand_over(flavour: &'static str) {
    let mut world = World::new();
    world.install_neighbours(flavour);
    world.start_in("iptables");
    world.until_logged("synced");
    world.stop();
    let hammers = world.hammers();
    world.install(Mode::Iptables(flavour));
    // Of the ipvs mode.
    let restore = format!("iptables-{flavour}-restore");
    let near = "*mangle\n:SLUICE-NEAR-CLIENTS - [0:0]\n-A PREROUTING -m comment --comment \"clients \
                on this node\" -j SLUICE-NEAR-CLIENTS\nCOMMIT\n";
    world.run(&restore, &["--noflush"], near);
    let sets = "create SLUICE-NEAR-CLIENTS hash:ip,port\ncreate KUBE-CLUSTER-IP hash:ip,port\n";
    world.run("ipset", &["restore"], sets);

    let before = world.saved(flavour);
    assert!(before.contains("-j SLUICE-CLUSTER-IPS"), "{before}");
    let rest = before.lines().filter(|it| !it.contains("SLUICE-"));
    let rest: Vec<_> = rest.collect();
    let commands = GUIDE.split("```").nth(1).unwrap();
    let commands = commands.replace("$it-", &format!("$it-{flavour}-"));
    world.run("sh", &["-ec", &commands], "");
    assert_eq!(world.saved(flavour), rest.join("\n"));
    assert_eq!(world.run("ipset", &["list", "-n"], ""), "KUBE-CLUSTER-IP\n");
    more(&hammers, 30);
    unhurt(hammers);
}

#[test]
fn the_guide_hands_over_iptables_nft() {
    require_netns!();
    hand_over("nft");
}

#[test]
fn the_guide_hands_over_iptables_legacy() {
    require_netns!();
    hand_over("legacy");
}

/// What a kube-proxy that nobody stopped writes again is left to it, and told once.
#[test]
fn a_kube_proxy_that_goes_on_is_told_and_not_fought() {
    require_netns!();
    let mut world = World::new();
    world.install(NFT);
    world.start();
    world.until_logged("removed what an earlier proxy left");
    world.install(NFT);
    world.until_logged("kube-proxy seems to be still running");
    assert!(world.has_kube_proxy(NFT));
    let log = world.log();
    assert!(!log.contains(DRIFT), "{log}");
    assert!(
        log.contains("sign=\"chain KUBE-SERVICES of table ip nat\""),
        "{log}"
    );
}

/// All modes at once, then again: nothing is left to do.
#[test]
fn cleanup_removes_every_mode_and_says_so() {
    require_netns!();
    let world = World::new();
    world.install_neighbours("nft");
    let neighbours = world.saved("nft");
    for mode in [NFT, LEGACY, Mode::Nftables] {
        world.install(mode);
    }
    let sets = "create KUBE-LOOP-BACK hash:ip,port,ip\ncreate KUBE-6-CLUSTER-IP hash:ip,port family \
                inet6\ncreate KUBE-NODE-PORT-TCP bitmap:port range 0-65535\ncreate theirs hash:ip\n";
    world.run("ipset", &["restore"], sets);
    let kept = "sluice: chains of kube-proxy in table ip nat stay, rules of others jump to them: \
                KUBE-MARK-MASQ";
    let output = world.sluice(&["cleanup", "--kube-proxy"], None);
    assert_eq!(
        said(&output),
        "removed table ip kube-proxy
removed table ip6 kube-proxy
removed 6 iptables chains of table ip filter
removed 1 iptables chains of table ip mangle
removed 11 iptables chains of table ip nat
removed 6 iptables chains of table ip6 filter
removed 1 iptables chains of table ip6 mangle
removed 11 iptables chains of table ip6 nat
removed 6 iptables chains of table legacy ip filter
removed 1 iptables chains of table legacy ip mangle
removed 12 iptables chains of table legacy ip nat
removed 6 iptables chains of table legacy ip6 filter
removed 1 iptables chains of table legacy ip6 mangle
removed 12 iptables chains of table legacy ip6 nat
removed 3 ipsets
"
    );
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains(kept), "{notes}");
    assert_eq!(world.saved("nft"), neighbours, "rules of others");
    assert!(!world.saved("legacy").contains("KUBE"));
    assert_eq!(world.run("ipset", &["list", "-n"], ""), "theirs\n");
    for arguments in [&["cleanup", "--kube-proxy"][..], &["proxy", "--cleanup"]] {
        assert_eq!(said(&world.sluice(arguments, None)), "", "{arguments:?}");
    }
}

/// The chains are gone, by an earlier cleanup or a flush, and the sets say what is left.
#[test]
fn cleanup_removes_ipsets_whose_chains_are_gone() {
    require_netns!();
    let world = World::new();
    let sets = "create KUBE-LOOP-BACK hash:ip,port,ip\ncreate SLUICE-NEAR-CLIENTS hash:ip,port\n\
                create theirs hash:ip\n";
    world.run("ipset", &["restore"], sets);
    let mention = |command| {
        let set = ["-m", "set", "--match-set", "KUBE-LOOP-BACK", "dst,dst,src"];
        let rule = [&[command, "FORWARD"][..], &set].concat();
        world.run("iptables-nft", &rule, "");
    };
    mention("-A");
    for _ in 0..2 {
        let output = world.sluice(&["cleanup"], None);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{problem}");
        let stays = "sluice: ipset KUBE-LOOP-BACK stays: the set is in use\n";
        assert_eq!(problem, stays);
    }
    mention("-D");
    for expected in ["removed 2 ipsets\n", ""] {
        assert_eq!(said(&world.sluice(&["cleanup"], None)), expected);
    }
    assert_eq!(world.run("ipset", &["list", "-n"], ""), "theirs\n");
}

/// A container image may have no iptables.
#[test]
fn without_programs_only_legacy_rules_stay() {
    require_netns!();
    let world = World::new();
    world.install(NFT);
    let folder = world.without_legacy_programs();
    let path = folder.to_str();
    let output = world.sluice(&["proxy", "--cleanup"], path);
    assert!(said(&output).contains("iptables chains of table ip nat"));
    assert_eq!(output.stderr, b"");
    assert!(!world.has_kube_proxy(NFT));
    world.install(LEGACY);
    let output = world.sluice(&["cleanup", "--kube-proxy"], path);
    assert_eq!(said(&output), "");
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [
        "legacy ip filter",
        "legacy ip6 nat",
        "no iptables-legacy-restore",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
    assert!(world.has_kube_proxy(LEGACY));
}

/// An element of a map may jump to a chain as well; the kernel then refuses to delete it.
#[test]
fn a_chain_in_a_map_of_others_stays_and_the_rest_goes() {
    require_netns!();
    let world = World::new();
    world.install(NFT);
    let map = "add map ip nat theirs { type inet_service : verdict; }\n\
               add element ip nat theirs { 80 : jump KUBE-NODEPORTS }\n";
    world.run("nft", &["-f", "-"], map);
    let output = world.sluice(&["cleanup", "--kube-proxy"], None);
    assert!(said(&output).contains("removed 11 iptables chains of table ip nat"));
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("jump to them: KUBE-NODEPORTS"), "{notes}");
    assert!(!world.has_kube_proxy(NFT));
}

/// What kube-proxy accepted in `FORWARD` is dropped where the policy says so; that must be told.
#[test]
fn a_policy_that_drops_is_told() {
    require_netns!();
    let world = World::new();
    for flavour in ["nft", "legacy"] {
        world.install(Mode::Iptables(flavour));
        let program = format!("iptables-{flavour}");
        world.run(&program, &["-P", "FORWARD", "DROP"], "");
    }
    let output = world.sluice(&["cleanup", "--kube-proxy"], None);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    for table in ["ip", "legacy ip"] {
        let note = format!("table {table} filter: the policy of FORWARD is DROP");
        assert!(notes.contains(&note), "{notes}");
    }
}

/// What a command that succeeded removed.
#[track_caller]
fn said(output: &Output) -> String {
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    let lines = lines.lines().filter(|it| !it.starts_with("left "));
    lines.map(|it| format!("{it}\n")).collect()
}
