//! Gives up privileges that the agent needs only to start.
//!
//! | for | privilege | when |
//! | --- | --- | --- |
//! | rules, conntrack entries, socket buffers | `CAP_NET_ADMIN` | always |
//! | `iptables-legacy` | `CAP_NET_RAW` beside it | always, in modes that call it, and where a kube-proxy may have left legacy rules |
//! | eBPF programs and maps | `CAP_BPF`, `CAP_PERFMON` beside it | always, in the ebpf mode, and where it left programs |
//! | sockets in pods | `CAP_SYS_ADMIN`, `CAP_SYS_PTRACE` beside it | always, in the ebpf mode that ends sockets with their endpoint |
//! | sysctls, a lower `oom_score_adj` | root, `CAP_SYS_RESOURCE` | only before |
//! | servers on ports below 1024 | `CAP_NET_BIND_SERVICE` | always, with the DNS server; no other server's default and no health check node port is below 1024 |
//!
//! The agent reads files and makes the socket as its user. Root reads its own 0600 files without a
//! capability; [`to_read`] keeps one when files of other users have to be read. The iptables programs
//! get capabilities by [`lend`]; credential plugins get none that can change rules
//! (`sluice_source::apiserver`). The kernel itself loads kernel modules.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use caps::errors::CapsError;
use caps::{CapSet, CapsHashSet};
use nix::sys::prctl;
use tracing::debug;

use crate::error::{NodeError, failed};

pub use caps::Capability;
pub use sluice_netlink::is_secure_execution;

/// How long the kernel may list a thread that was joined.
const LISTED_AFTER_JOIN: Duration = Duration::from_secs(1);

/// The capabilities for netlink.
pub const NETLINK: &[Capability] = &[Capability::CAP_NET_ADMIN];

/// The capabilities for eBPF programs and maps, beside those for netlink.
pub const BPF: &[Capability] = &[Capability::CAP_BPF, Capability::CAP_PERFMON];

/// The capabilities for the network namespaces of other processes, beside those for netlink.
pub const NAMESPACES: &[Capability] = &[Capability::CAP_SYS_ADMIN, Capability::CAP_SYS_PTRACE];

/// The capability to bind ports below 1024, which a DNS server needs beside those for netlink.
pub const PORTS: &[Capability] = &[Capability::CAP_NET_BIND_SERVICE];

/// The capabilities for the iptables programs: the legacy ones open a raw socket.
pub const IPTABLES: &[Capability] = &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];

/// Passes capabilities of the calling thread to the programs that it runs, also when its user is not
/// root: the capabilities of a program's file do not pass to its children.
///
/// # Errors
/// [`NodeError`]: the kernel refused a set.
pub fn lend(capabilities: &[Capability]) -> Result<(), NodeError> {
    let has = caps::read(None, CapSet::Permitted).map_err(refused("permitted"))?;
    for capability in capabilities.iter().filter(|it| has.contains(it)) {
        for (set, name) in [
            (CapSet::Inheritable, "inheritable"),
            (CapSet::Ambient, "ambient"),
        ] {
            caps::raise(None, set, *capability).map_err(refused(name))?;
        }
    }
    Ok(())
}

/// Reduces this process to the capabilities of `keep` for good, and the programs of an ordinary user
/// that it runs to those of `lent`. Call it before the first other thread starts. A process with
/// fewer capabilities keeps those.
///
/// # Errors
/// [`NodeError`]: other threads run, whose capabilities would stay, or the kernel refused a set.
/// Some privileges may be gone already.
pub fn reduce(keep: &[Capability], lent: &[Capability]) -> Result<(), NodeError> {
    let threads = threads();
    if threads != 1 {
        let error = format!("{threads} threads run already");
        return Err(failed("reduce privileges")(error));
    }
    // No program can gain capabilities by its file from here on.
    prctl::set_no_new_privs().map_err(failed("set no_new_privs"))?;
    bound(keep)?;
    let has = caps::read(None, CapSet::Permitted).map_err(refused("permitted"))?;
    let kept: CapsHashSet = has.into_iter().filter(|it| keep.contains(it)).collect();
    let lent: CapsHashSet = kept
        .iter()
        .copied()
        .filter(|it| lent.contains(it))
        .collect();
    // An effective capability must be permitted, an ambient one permitted and inheritable. The
    // kernel lowers the ambient set itself.
    let order = [
        (CapSet::Effective, "effective", &kept),
        (CapSet::Permitted, "permitted", &kept),
        (CapSet::Inheritable, "inheritable", &lent),
        // The only capabilities of programs whose user is not root.
        (CapSet::Ambient, "ambient", &lent),
    ];
    for (set, name, capabilities) in order {
        caps::set(None, set, capabilities).map_err(refused(name))?;
    }
    Ok(())
}

/// The number of threads. Waits for threads that were joined, as after a run of a program: the kernel
/// wakes the joining thread before it takes the other off the list (`do_exit`, kernel/exit.c).
fn threads() -> usize {
    let count = || fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    let deadline = Instant::now() + LISTED_AFTER_JOIN;
    while count() != 1 && Instant::now() < deadline {
        thread::yield_now();
    }
    count()
}

/// `keep`, and the capability to read all files if one of these files and folders cannot be read
/// without it, as with `sudo sluice` in a user's home.
///
/// # Errors
/// [`NodeError`]: the kernel refused a set.
pub fn to_read(keep: &[Capability], files: &[&Path]) -> Result<Vec<Capability>, NodeError> {
    const READ_ALL: Capability = Capability::CAP_DAC_READ_SEARCH;
    let has = caps::read(None, CapSet::Effective).map_err(refused("effective"))?;
    let mut without = has.clone();
    without.remove(&Capability::CAP_DAC_OVERRIDE);
    without.remove(&READ_ALL);
    caps::set(None, CapSet::Effective, &without).map_err(refused("effective"))?;
    let is_denied = |it: &&Path| {
        let denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        File::open(it).is_err_and(denied)
    };
    let any_denied = files.iter().any(is_denied);
    caps::set(None, CapSet::Effective, &has).map_err(refused("effective"))?;
    let more = any_denied.then_some(READ_ALL);
    Ok(keep.iter().copied().chain(more).collect())
}

/// Reduces the bounding set, which needs `CAP_SETPCAP`. Without it `no_new_privs` has the same
/// effect.
fn bound(keep: &[Capability]) -> Result<(), NodeError> {
    let may = caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP);
    if !may.map_err(refused("bounding"))? {
        debug!("not permitted to reduce the bounding set");
        return Ok(());
    }
    let bounds = caps::read(None, CapSet::Bounding).map_err(refused("bounding"))?;
    for surplus in bounds.into_iter().filter(|it| !keep.contains(it)) {
        caps::drop(None, CapSet::Bounding, surplus).map_err(refused("bounding"))?;
    }
    Ok(())
}

fn refused(set: &str) -> impl FnOnce(CapsError) -> NodeError {
    failed(format!("reduce the {set} capabilities"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_take_a_privilege_and_our_own_do_not() {
        use std::os::unix::fs::{PermissionsExt, chown};
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIP: only root can give files away");
            assert!(std::env::var_os("CI").is_none(), "CI must run this");
            return;
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path();
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(path, private).expect("our own folder");
        let missing = path.join("missing");
        let check = |expected: &[Capability]| {
            let keep = to_read(NETLINK, &[Path::new("/"), &missing, path]);
            assert_eq!(keep.expect("permitted"), expected);
            assert!(fs::read_dir(path).is_ok(), "all as it was");
        };
        check(NETLINK);
        chown(path, Some(65534), Some(65534)).expect("permitted to root");
        check(&[Capability::CAP_NET_ADMIN, Capability::CAP_DAC_READ_SEARCH]);
    }

    /// Tests run in threads beside the main one: nothing may be touched.
    #[test]
    fn with_other_threads_it_refuses_and_changes_nothing() {
        let before = fs::read_to_string("/proc/thread-self/status").expect("there is /proc");
        let refused = reduce(NETLINK, &[]);
        let error = refused.expect_err("other threads run").to_string();
        assert!(error.contains("threads run already"), "{error}");
        let after = fs::read_to_string("/proc/thread-self/status").expect("there is /proc");
        let privileges = |it: &str| -> Vec<String> {
            let lines = it.lines().map(str::to_owned);
            lines
                .filter(|it| it.starts_with("Cap") || it.starts_with("NoNew"))
                .collect()
        };
        assert_eq!(privileges(&before), privileges(&after));
    }
}
