//! Programs for tests, with pins that go.

use std::fs;
use std::path::PathBuf;
use std::process;

use sluice_ebpf::{Ebpf, Facts, Patterns, Setup, Sizes};

/// Where tests pin: a folder for each process, which is removed with the process.
const PINS: &str = "/sys/fs/bpf";
const FOLDER: &str = "sluice-test-";

/// The pins of this process. Those of processes that have ended are removed first.
pub(crate) fn pins() -> PathBuf {
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

/// Sets what the way through loopback needs, in the calling thread's network namespace.
fn prepare() {
    for (path, value) in [
        ("/proc/sys/net/ipv4/conf/lo/accept_local", "1"),
        ("/proc/sys/net/ipv4/conf/lo/rp_filter", "2"),
    ] {
        fs::write(path, value).expect("a namespace's own settings are writable");
    }
}

/// The data plane of the calling thread's network namespace, with maps of these sizes.
pub(crate) fn open(pods: Patterns, sizes: Sizes, facts: Facts) -> Ebpf {
    prepare();
    let setup = Setup {
        pins: pins(),
        interfaces: Patterns::all(),
        pods,
        sizes,
    };
    Ebpf::connect(setup, facts).expect("the kernel takes the programs")
}
