//! Every shared scenario with real packets through IPVS, in virtual machines: few kernels have it.

use std::fs;
use std::sync::OnceLock;

use sluice_ipvs::{Arp, Ipvs, IpvsOptions, sysctls};
use sluice_plan::settings::Settings;
use sluice_plane::Sysctl;
use sluice_xtables::programs::{Programs, Variant};

/// Scenarios that are not played here, and why. First those that IPVS cannot play: `README.md` says what users see
/// instead.
const NOT_PLAYED: &[(&str, &str)] = &[
    (
        "cluster_ip::through_a_bridge",
        "the node's source is the virtual IP, so it is masqueraded: to the address of the bridge",
    ),
    (
        "load_balancer::other_ports",
        "a virtual IP is an address of the node, so its other ports go nowhere else",
    ),
    (
        "affinity::shared_by_all_addresses",
        "affinity is per virtual server, and one by mark translates no ports (ip_vs_sched_persist)",
    ),
    (
        "affinity::forgotten_after_the_timeout",
        "a client is remembered while one of its connections is, for minutes (ip_vs_conn_expire)",
    ),
    (
        "changes::connections_survive",
        "connections end with their virtual server and its address (ip_vs_in_hook)",
    ),
    (
        "topology::",
        "the plan chooses the endpoints, and `equivalence` proves that its objects have them",
    ),
    (
        "conflicts::",
        "the plan gives a frontend to one Service, and `equivalence` proves that its objects do",
    ),
];

fn open(variant: Variant, settings: &Settings) -> Ipvs {
    for Sysctl { path, value, .. } in sysctls(Arp::Loose).expect("the machine has IPVS") {
        fs::write(path, value.to_string()).expect("a namespace's own settings are writable");
    }
    // A machine's scenarios are of one variant.
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    let programs =
        PROGRAMS.get_or_init(|| Programs::find(variant).expect("the machine has iptables"));
    let options = IpvsOptions {
        masquerade_mark: settings.masquerade_mark,
        ..IpvsOptions::default()
    };
    Ipvs::with(programs.clone(), options).expect("the machine has IPVS")
}

mod nft {
    use super::*;

    fn make(settings: &Settings) -> Ipvs {
        open(Variant::Nft, settings)
    }

    sluice_scenarios::scenarios_in_vm! { make;
        first_half: "uml", part_without(0, 2, super::super::NOT_PLAYED);
        second_half: "uml", part_without(1, 2, super::super::NOT_PLAYED);
        on_6_12: "6.12", beginning_with(&["cluster_ip::spreads", "ports::sctp"]);
    }
}

mod legacy {
    use super::*;

    fn make(settings: &Settings) -> Ipvs {
        open(Variant::Legacy, settings)
    }

    // Those whose rules and ipsets differ most.
    sluice_scenarios::scenarios_in_vm! { make;
        some: "uml", beginning_with(&[
            "cluster_ip::spreads", "masquerade::cluster_cidr", "node_port::hairpin", "load_balancer::ranges_admit",
            "policy_external::keeps", "affinity::each"
        ]);
    }
}
