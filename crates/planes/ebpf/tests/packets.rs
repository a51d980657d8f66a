//! Every shared scenario with real packets through the programs.

use std::fs;
use std::path::PathBuf;
use std::process;

use sluice_ebpf::{Ebpf, Facts, Patterns, Setup, Sizes};
use sluice_plan::settings::{LocalDetector, Settings};

/// Where tests pin: a folder for each process, which is removed with the process.
const PINS: &str = "/sys/fs/bpf";
const FOLDER: &str = "sluice-test-";

/// The pins of this process. Those of processes that have ended are removed first.
fn pins() -> PathBuf {
    for entry in fs::read_dir(PINS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(FOLDER)
            .and_then(|it| it.parse::<u32>().ok());
        if owner.is_some_and(|it| !PathBuf::from(format!("/proc/{it}")).exists()) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
    PathBuf::from(PINS).join(format!("{FOLDER}{}", process::id()))
}

fn make(settings: &Settings) -> Ebpf {
    for (path, value) in [
        ("/proc/sys/net/ipv4/conf/lo/accept_local", "1"),
        ("/proc/sys/net/ipv4/conf/lo/rp_filter", "2"),
    ] {
        fs::write(path, value).expect("a namespace's own settings are writable");
    }
    let pods = match &settings.local_detector {
        LocalDetector::Bridge(name) => Patterns::new([&**name]),
        LocalDetector::InterfacePrefix(prefix) => Patterns::new([&*format!("{prefix}*")]),
        _ => Patterns::none(),
    };
    let setup = Setup {
        pins: pins(),
        interfaces: Patterns::all(),
        pods,
        sizes: Sizes {
            flows: 8192,
            ..Sizes::default()
        },
    };
    Ebpf::connect(setup, Facts::default()).expect("the kernel takes the programs")
}

sluice_scenarios::for_each_scenario!(make);

// Kernels without TCX (6.1), and with another verifier (6.12).
sluice_scenarios::scenarios_in_vm! { make;
    balancing_6_1: "6.1", beginning_with(&["cluster_ip::spreads", "cluster_ip::hairpin", "node_port::from"]);
    policies_6_12: "6.12", beginning_with(&["policy_external::keeps", "ports::sctp"]);
}
