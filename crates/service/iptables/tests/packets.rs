//! Every shared scenario with real packets through real rules, of both variants of iptables.

use std::path::Path;

use sluice_iptables::{Conntrack, Iptables};
use sluice_plan::settings::Settings;
use sluice_scenarios as scenario;
use sluice_xtables::programs::{Lock, Programs, Variant};

fn open(variant: Variant) -> Iptables {
    let programs = Programs::find(variant).expect("both variants are installed");
    // Nobody but these tests waits for it, and none of them in vain.
    let lock = Lock {
        file: Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtables.lock"),
        seconds: 60,
    };
    Iptables::with(programs.with_lock(lock), Conntrack::Strict).expect("the kernel has iptables")
}

mod nft {
    use super::*;

    fn make(_: &Settings) -> Iptables {
        open(Variant::Nft)
    }

    sluice_scenarios::for_each_scenario!(make);
}

mod legacy {
    use super::*;

    fn make(_: &Settings) -> Iptables {
        open(Variant::Legacy)
    }

    sluice_scenarios::for_each_scenario!(make);
}

/// The host of the tests may have no SCTP.
mod vm_scenarios {
    use sluice_lab::{require_netns, require_vm};

    use super::*;

    #[test]
    fn sctp() {
        require_vm!("packets::vm_scenarios::sctp");
        require_netns!();
        let scenarios = scenario::beginning_with(&["ports::sctp"]);
        for variant in Variant::ALL {
            scenario::run_all(&scenarios, |_| open(variant));
        }
    }
}
