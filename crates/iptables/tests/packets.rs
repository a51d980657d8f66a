//! Every shared scenario with real packets through real rules, of both variants of iptables.

use sluice_iptables::{Conntrack, Iptables};
use sluice_lab::scenario::{self, Scenario};
use sluice_xtables::programs::{Programs, Variant};

fn run_with(variant: Variant, scenario: &Scenario) {
    sluice_lab::require_netns!();
    scenario::run(scenario, |_| {
        let programs = Programs::find(variant).expect("both variants are installed");
        Iptables::open(programs, Conntrack::Strict).expect("the kernel has iptables")
    });
}

mod nft {
    use super::*;

    fn run(scenario: &Scenario) {
        run_with(Variant::Nft, scenario);
    }

    sluice_lab::for_each_scenario!(run);
}

mod legacy {
    use super::*;

    fn run(scenario: &Scenario) {
        run_with(Variant::Legacy, scenario);
    }

    sluice_lab::for_each_scenario!(run);
}
