//! Running a test in a virtual machine, for what a network namespace cannot do: kernel modules
//! that this machine lacks.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Set inside the machine by `scripts/vm`.
const INSIDE: &str = "SLUICE_IN_VM";

/// Emulated CPUs are about 20 times slower, and what runs beside them takes its share.
const SLOWER: u32 = 10;

/// How long the machine may run, in seconds: only one that hangs takes so long.
const LIMIT: &str = "1100";

/// The kernel of a test that does not care.
const USUAL_KERNEL: &str = "6.1";

/// Whether this runs in the virtual machine.
pub fn inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// A time to wait, or between two looks, where this runs: more in the virtual machine.
pub(crate) fn patience(elsewhere: Duration) -> Duration {
    match inside() {
        true => elsewhere * SLOWER,
        false => elsewhere,
    }
}

/// Runs the named test in a virtual machine instead, unless that is where it is running.
///
/// The name is what the test binary calls it: `module::function`. Before it may stand the version
/// of a kernel, one that `scripts/fetch-vm` knows. The test fails as the one in the machine does.
/// Where there is no machine it says SKIP, and fails when `CI` is set.
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

/// Whether the test has been run, or skipped, elsewhere; `false` inside the machine. Without a
/// kernel it gets the usual one.
///
/// # Panics
/// When it failed there, or when there is no machine and the environment has `CI`.
pub fn ran_in_vm(kernel: Option<&str>, test: &str) -> bool {
    if inside() {
        return false;
    }
    let kernel = kernel.unwrap_or(USUAL_KERNEL);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = env::var_os("SLUICE_VM_DIR").map_or(root.join("target/vm"), PathBuf::from);
    let needed = ["qemu".to_owned(), format!("kernel-{kernel}")];
    if let Some(missing) = needed.iter().find(|it| !folder.join(it).exists()) {
        let reason = format!("no {missing} in {}: run make setup-vm", folder.display());
        match env::var_os("CI") {
            None => eprintln!("SKIP: {reason}"),
            Some(_) => panic!("CI must run the tests that need a virtual machine: {reason}"),
        }
        return true;
    }
    let binary = env::current_exe().expect("a running program has a file");
    let status = Command::new(root.join("scripts/vm"))
        .arg("-d")
        .arg(folder)
        // Two machines of one processor do more than one machine of two.
        .args(["-k", kernel, "-c", "1", "-t", LIMIT, "--"])
        .arg(binary)
        .args(["--exact", test, "--nocapture"])
        .status()
        .expect("scripts/vm is part of the tree");
    assert!(status.success(), "{test} in the virtual machine: {status}");
    true
}
