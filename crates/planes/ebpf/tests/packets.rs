//! Every shared scenario with real packets through the programs.

use std::fs;
use std::path::PathBuf;
use std::process;

use sluice_ebpf::{Ebpf, Facts, Patterns, Setup, Sizes};
use sluice_plan::settings::{LocalDetector, Settings};

/// The pins of this process.
fn pins() -> PathBuf {
    PathBuf::from(format!("/sys/fs/bpf/sluice-test-{}", process::id()))
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
