//! Every shared scenario with real packets through the programs.

use sluice_ebpf::{Ebpf, Facts, Patterns, Sizes};
use sluice_plan::settings::{LocalDetector, Settings};

fn make(settings: &Settings) -> Ebpf {
    let pods = match &settings.local_detector {
        LocalDetector::Bridge(name) => Patterns::new([&**name]),
        LocalDetector::InterfacePrefix(prefix) => Patterns::new([&*format!("{prefix}*")]),
        _ => Patterns::none(),
    };
    let sizes = Sizes {
        flows: 8192,
        ..Sizes::default()
    };
    crate::common::open(pods, sizes, Facts::default())
}

sluice_scenarios::for_each_scenario!(make);

// Kernels without TCX (6.1), and with another verifier (6.12).
sluice_scenarios::scenarios_in_vm! { make;
    balancing_6_1: "6.1", beginning_with(&["cluster_ip::spreads", "cluster_ip::hairpin", "node_port::from"]);
    policies_6_12: "6.12", beginning_with(&["policy_external::keeps", "ports::sctp"]);
}
