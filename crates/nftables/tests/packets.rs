//! Every shared scenario with real packets through real nftables rules.

use sluice_lab::scenario::{self, Scenario};
use sluice_nftables::Nftables;

fn run(scenario: &Scenario) {
    sluice_lab::require_netns!();
    scenario::run(scenario, |_| {
        Nftables::open().expect("the kernel has nf_tables")
    });
}

sluice_lab::for_each_scenario!(run);
