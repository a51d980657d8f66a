//! Gives up what the agent does not need once it has started.
//!
//! | what | privilege | when |
//! | --- | --- | --- |
//! | rules, conntrack entries, socket buffers | `CAP_NET_ADMIN` | always |
//! | `iptables-legacy` | `CAP_NET_RAW` beside it | always, in modes that call it, and where a kube-proxy may have left legacy rules |
//! | sysctls, a lower `oom_score_adj` | root, `CAP_SYS_RESOURCE` | only before |
//! | servers on ports below 1024 | `CAP_NET_BIND_SERVICE` | not kept: no default and no health check node port is one |
//!
//! Files are read and the socket is made as the user that the agent runs as: root reads its own
//! 0600 files without any capability, and those of others only if [`to_read`] found that it has
//! to. Credential plugins still run, with no more privileges than the agent has. Kernel modules
//! are loaded by the kernel itself.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use caps::errors::CapsError;
use caps::{CapSet, CapsHashSet};
use nix::errno::Errno;
use nix::sys::prctl;
use tracing::debug;

pub use caps::Capability;

/// How long a thread that was joined may be listed.
const JOINED: Duration = Duration::from_secs(1);

/// What netlink alone takes.
pub const NETLINK: &[Capability] = &[Capability::CAP_NET_ADMIN];

/// What the iptables programs take: the legacy ones open a raw socket.
pub const IPTABLES: &[Capability] = &[Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// Capabilities belong to threads, and the others would keep theirs.
    #[error("reduce privileges: {0} threads run already")]
    Threads(usize),
    /// The kernel refused a set.
    #[error("reduce the {set} capabilities: {reason}")]
    Capabilities {
        /// Which set.
        set: &'static str,
        /// The kernel's reason.
        reason: CapsError,
    },
    /// The kernel refused `no_new_privs`.
    #[error("set no_new_privs")]
    NoNewPrivs(#[source] Errno),
}

/// Lets programs that an ordinary user runs have these capabilities, as far as this process has
/// them: what its file gave it is not theirs. Of the calling thread.
///
/// # Errors
/// [`PrivilegeError::Capabilities`].
pub fn lend(capabilities: &[Capability]) -> Result<(), PrivilegeError> {
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

/// Leaves this process, and every program that it runs, at most these capabilities for good. Call
/// it while there is one thread, before the first other one starts; a process that has fewer
/// keeps what it has, whoever its user is.
///
/// # Errors
/// Any [`PrivilegeError`]; some privileges may be gone already.
pub fn reduce(keep: &[Capability]) -> Result<(), PrivilegeError> {
    let threads = threads();
    if threads != 1 {
        return Err(PrivilegeError::Threads(threads));
    }
    // From here on no program gains by its file what the bounding set would have to forbid.
    prctl::set_no_new_privs().map_err(PrivilegeError::NoNewPrivs)?;
    bound(keep)?;
    let has = caps::read(None, CapSet::Permitted).map_err(refused("permitted"))?;
    let kept: CapsHashSet = has.into_iter().filter(|it| keep.contains(it)).collect();
    // What is effective must be permitted, what is ambient permitted and inheritable: the kernel
    // lowers the ambient ones itself.
    let order = [
        (CapSet::Effective, "effective"),
        (CapSet::Permitted, "permitted"),
        (CapSet::Inheritable, "inheritable"),
        // Programs that an ordinary user runs have no others.
        (CapSet::Ambient, "ambient"),
    ];
    for (set, name) in order {
        caps::set(None, set, &kept).map_err(refused(name))?;
    }
    Ok(())
}

/// How many threads there are. One that was joined a moment ago, as after a run of a program, is still
/// listed: the kernel wakes who joins it before it takes it off the list (`do_exit`, kernel/exit.c).
fn threads() -> usize {
    let count = || fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    let deadline = Instant::now() + JOINED;
    while count() != 1 && Instant::now() < deadline {
        thread::yield_now();
    }
    count()
}

/// `keep`, and the right to read everybody's files if one of these files and folders cannot be
/// read otherwise: `sudo sluice` in somebody's home.
///
/// # Errors
/// [`PrivilegeError::Capabilities`].
pub fn to_read(keep: &[Capability], files: &[&Path]) -> Result<Vec<Capability>, PrivilegeError> {
    const READ_ALL: Capability = Capability::CAP_DAC_READ_SEARCH;
    let effective = || refused("effective");
    let has = caps::read(None, CapSet::Effective).map_err(effective())?;
    let mut without = has.clone();
    without.remove(&Capability::CAP_DAC_OVERRIDE);
    without.remove(&READ_ALL);
    caps::set(None, CapSet::Effective, &without).map_err(effective())?;
    let is_denied = |it: &&Path| {
        let denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        File::open(it).is_err_and(denied)
    };
    let any_denied = files.iter().any(is_denied);
    caps::set(None, CapSet::Effective, &has).map_err(effective())?;
    let more = any_denied.then_some(READ_ALL);
    Ok(keep.iter().copied().chain(more).collect())
}

/// Needs `CAP_SETPCAP`. Without it nothing is lost: there is no way back up (`no_new_privs`).
fn bound(keep: &[Capability]) -> Result<(), PrivilegeError> {
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

fn refused(set: &'static str) -> impl Fn(CapsError) -> PrivilegeError {
    move |reason| PrivilegeError::Capabilities { set, reason }
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
        let refused = reduce(NETLINK);
        assert!(
            matches!(refused, Err(PrivilegeError::Threads(2..))),
            "{refused:?}"
        );
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
