//! The pages of the book that run.

use std::process::Command;

use sluice_lab::netns_available;

use crate::{SLUICE, text};

fn runs(name: &str) {
    if !netns_available() {
        return;
    }
    let output = Command::new(SLUICE)
        .args(["lab", "experiment", name, "--fast"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

macro_rules! experiments {
    ($($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            runs($name);
        })*

        #[test]
        fn all_have_a_test() {
            let output = Command::new(SLUICE).args(["lab", "experiment"]).output().unwrap();
            let listed = text(&output.stdout);
            let listed: Vec<&str> = listed.lines().filter_map(|it| it.split_whitespace().next()).collect();
            assert_eq!(listed, [$($name),*]);
        }
    };
}

experiments! {
    conntrack_full "conntrack-full"
    ebpf_maps "ebpf-maps"
    iptables_chains "iptables-chains"
    nftables_maps "nftables-maps"
    nodeport_hops "nodeport-hops"
    external_policy "external-policy"
    session_affinity "session-affinity"
    headless "headless"
    rolling_update "rolling-update"
    node_dies "node-dies"
    stale_udp "stale-udp"
    hairpin "hairpin"
}
