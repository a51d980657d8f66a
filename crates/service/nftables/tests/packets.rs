//! Every shared scenario with real packets through real nftables rules.

use sluice_nftables::Nftables;
use sluice_plan::settings::Settings;

fn make(_settings: &Settings) -> Nftables {
    Nftables::connect().expect("the kernel has nf_tables")
}

sluice_scenarios::for_each_scenario!(make);

// Few machines have sockets for SCTP. The iptables mode is tried with the other kernel: NAT of SCTP is the same code.
sluice_scenarios::scenarios_in_vm! { make;
    sctp_6_12: "6.12", beginning_with(&["ports::sctp"]);
}
