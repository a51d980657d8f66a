//! Gives up system calls (seccomp) and files (Landlock) for good, whatever the input of the process. Both hold for
//! the calling thread and everything that it starts, so this comes before the first other thread and before the first
//! object of the cluster is read.
//!
//! System calls are a list of what is refused. A list of what is allowed would end the agent after
//! an update of libc that uses a new call. `EPERM` is the answer: a library that tries one goes on
//! without it. A program for another architecture than ours is killed.
//!
//! Files are a list of what is allowed. Whole system folders can be read (`/etc`, `/usr`, `/run`):
//! files like `/etc/resolv.conf` are replaced while we run, and the rule for a replaced file is
//! lost. What remains out of reach is what matters on a node: `/var/lib` with the volumes of pods
//! and etcd, `/root`, `/home`, every other disk; and every write.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};
use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use tracing::{info, warn};

/// The newest rights that are asked for (Linux 6.12). Later ones restrict the connections that
/// resolvers of names make.
const NEWEST: ABI = ABI::V6;

/// Read, beside the caller's files: settings of kernel and system, libraries that libc loads late,
/// our own program for the names in profiles.
const SYSTEM: [&str; 13] = [
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/run",
    "/usr",
    "/lib",
    "/lib64",
    "/proc/self/exe",
    "/var/lib/ca-certificates",
    "/var/lib/sss/pipes",
    // The libraries of NixOS and Guix.
    "/nix/store",
    "/gnu/store",
];

/// Paths that the process writes: settings of the kernel, and `/dev/null`.
const SETTINGS: [&str; 3] = [
    "/proc/sys",
    "/sys/module/nf_conntrack/parameters",
    "/dev/null",
];

/// Folders of many owners, which are not opened for one entry: a file there that is replaced is lost.
/// Links in them, as `/var/run`, are the system's.
const SHARED: [&str; 6] = ["/", "/home", "/opt", "/tmp", "/var", "/var/lib"];

/// The part of the file system that the process may use.
#[derive(Clone, Copy, Debug)]
pub enum Files<'a> {
    /// The system's settings and these paths. No program can be started.
    Only {
        /// Paths to read: a file with its folder, or a folder.
        read: &'a [PathBuf],
        /// The folder of lock and socket.
        write: &'a Path,
    },
    /// All files of its user: the same rules would apply to the programs that the process starts, and hide other
    /// processes from it.
    All {
        /// The reason that applies, for the log.
        why: &'static str,
    },
}

/// Where eBPF programs and maps are pinned.
const PINS: &str = "/sys/fs/bpf";

/// Further needs of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// The system call for eBPF, and its pins.
    pub bpf: bool,
    /// The network namespaces of other processes.
    pub namespaces: bool,
}

/// Enters the sandbox for good, as far as the kernel supports it. One line of the log says how far.
pub fn enter(files: Files<'_>, needs: Needs) {
    let landlock = match files {
        Files::All { why } => Ok(why),
        Files::Only { read, write } => restrict_files(read, write, needs.bpf).map(|it| match it {
            RulesetStatus::FullyEnforced => "on",
            RulesetStatus::PartiallyEnforced => "as far as this kernel has it",
            RulesetStatus::NotEnforced => "off: the kernel has none",
        }),
    };
    match (landlock, refuse_calls(needs)) {
        (Ok(landlock), Ok(())) => info!(landlock, seccomp = "on", "sandboxed"),
        (landlock, seccomp) => {
            let landlock = landlock.map_or_else(|it| format!("off: {it}"), str::to_owned);
            let seccomp = seccomp.map_or_else(|it| format!("off: {it}"), |()| "on".to_owned());
            warn!(landlock, seccomp, "not fully sandboxed");
        }
    }
}

fn restrict_files(
    read: &[PathBuf],
    write: &Path,
    bpf: bool,
) -> Result<RulesetStatus, RulesetError> {
    let pins = bpf.then_some(PINS);
    // The profiler keeps its samples in a temporary file, made with the first profile. Refused only to
    // a second caller.
    let _ = tempfile::env::override_temp_dir(write);
    let reads = AccessFs::from_read(NEWEST) & !AccessFs::Execute;
    let places = read.iter().flat_map(|it| folders(it));
    let writes = AccessFs::WriteFile | AccessFs::Truncate;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, reads))?
        .add_rules(path_beneath_rules(places, reads))?
        .add_rules(path_beneath_rules(SETTINGS, reads | writes))?
        .add_rules(path_beneath_rules([write], AccessFs::from_all(NEWEST)))?
        .add_rules(path_beneath_rules(pins, AccessFs::from_all(NEWEST)))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// The folders that contain a path, or a file that replaces it later: its own folder, those of links on the way, and
/// the folders where these lead.
fn folders(path: &Path) -> Vec<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let links = path.ancestors().filter(|it| it.is_symlink());
    let mut places: Vec<PathBuf> = links.map(Path::to_owned).collect();
    places.extend(fs::canonicalize(&path).ok());
    places.push(path.clone());
    let parents = places.iter().filter_map(|it| it.parent());
    let parents = parents.filter(|it| !SHARED.iter().any(|shared| *it == Path::new(shared)));
    parents.map(Path::to_owned).chain([path.clone()]).collect()
}

/// System calls that no code here uses, and that attacks begin with: other processes' memory, file systems, programs
/// in the kernel, keys, modules, namespaces, the clock, and `io_uring`, whose operations no filter sees.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Namespaces that a new process could be put into.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

fn refuse_calls(needs: Needs) -> Result<(), seccompiler::Error> {
    let is_needed = |it: libc::c_long| match it {
        libc::SYS_bpf => needs.bpf,
        libc::SYS_setns => needs.namespaces,
        _ => false,
    };
    let refused = REFUSED.iter().filter(|it| !is_needed(**it));
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = refused.map(|it| (*it, Vec::new())).collect();
    let namespaces = NAMESPACES.map(|flag| {
        let flag = u64::from(flag.cast_unsigned());
        let has = SeccompCmpOp::MaskedEq(flag);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, has, flag)?;
        SeccompRule::new(vec![condition])
    });
    let namespaces: Result<_, BackendError> = namespaces.into_iter().collect();
    calls.insert(libc::SYS_clone, namespaces?);
    refuse(calls, libc::EPERM)?;
    // A filter cannot see the flags of `clone3`. libc takes `clone` where it is missing.
    refuse([(libc::SYS_clone3, Vec::new())].into(), libc::ENOSYS)
}

/// Makes these calls fail with this error number.
fn refuse(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    errno: libc::c_int,
) -> Result<(), seccompiler::Error> {
    let architecture = TargetArch::try_from(env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refuse, architecture)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)
}
