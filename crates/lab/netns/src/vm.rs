//! Runs a test in a virtual machine, when it needs kernel modules that this machine lacks.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Set inside the machine by `scripts/vm`.
const INSIDE: &str = "SLUICE_IN_VM";

/// Factor of all timeouts inside a virtual machine: what qemu emulates is about 20 times slower.
const SLOWER: u32 = 10;

/// Timeout of the machine, in seconds; only a machine that hangs reaches it.
const TIMEOUT_SECONDS: &str = "1100";

/// The kernel of a test that names none.
const DEFAULT_KERNEL: &str = "uml";

/// Whether this process runs in a virtual machine.
pub fn inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// A timeout: `duration`, or ten times as much inside a virtual machine.
pub fn scaled(duration: Duration) -> Duration {
    if inside() {
        duration * SLOWER
    } else {
        duration
    }
}

/// Runs the named test in a virtual machine and returns; inside that machine the test goes on.
///
/// The name is the one in the test binary: `module::function`. An optional first argument is one of
/// the other kernels that `scripts/fetch-vm` knows, which qemu emulates: five times as slow as User Mode Linux. The test
/// fails when it fails in the machine.
/// Without a machine it prints SKIP, and fails when `CI` is set.
///
/// ```no_run
/// # use sluice_lab::{require_netns, require_vm};
/// # fn virtual_servers() {
/// require_vm!("vm_ipvs::virtual_servers");
/// require_netns!();
/// // … `ip link add kube-ipvs0 type dummy`, which this machine may not know …
/// # }
/// ```
#[macro_export]
macro_rules! require_vm {
    ($test:expr) => {
        if $crate::ran_in_vm(None, $test) {
            return;
        }
    };
    ($kernel:expr, $test:expr) => {
        if $crate::ran_in_vm(Some($kernel), $test) {
            return;
        }
    };
}

/// Whether the test ran in a virtual machine, or was skipped; `false` inside the machine. The
/// default kernel is 6.1.
///
/// # Panics
/// When the test failed in the machine, or when there is no machine and `CI` is set.
pub fn ran_in_vm(kernel: Option<&str>, test: &str) -> bool {
    if inside() {
        return false;
    }
    let kernel = kernel.unwrap_or(DEFAULT_KERNEL);
    let Some(folder) = machine(kernel) else {
        return true;
    };
    let binary = env::current_exe().expect("a running program has a file");
    let status = Command::new(root().join("scripts/vm"))
        .arg("-d")
        .arg(folder)
        // Two machines with one processor each do more work than one machine with two.
        .args(["-k", kernel, "-c", "1", "-t", TIMEOUT_SECONDS, "--"])
        .arg(binary)
        .args(["--exact", test, "--nocapture"])
        .status()
        .expect("scripts/vm is part of the tree");
    assert!(status.success(), "{test} in the virtual machine: {status}");
    true
}

/// Whether there is a virtual machine for a program that boots it by itself; without one it prints SKIP.
///
/// # Panics
/// When there is none and `CI` is set.
pub fn vm_available() -> bool {
    machine(DEFAULT_KERNEL).is_some()
}

/// The folder of the machine with this kernel.
fn machine(kernel: &str) -> Option<PathBuf> {
    let folder = env::var_os("SLUICE_VM_DIR").map_or(root().join("target/vm"), PathBuf::from);
    let needed = ["qemu".to_owned(), format!("kernel-{kernel}")];
    let Some(missing) = needed.iter().find(|it| !folder.join(it).exists()) else {
        return Some(folder);
    };
    let reason = format!("no {missing} in {}: run make setup-vm", folder.display());
    match env::var_os("CI") {
        None => eprintln!("SKIP: {reason}"),
        Some(_) => panic!("CI must run the tests that need a virtual machine: {reason}"),
    }
    None
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}
