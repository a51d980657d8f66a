//! Attaches programs to a cgroup: they see the system calls of its processes' sockets.
//!
//! A link of a cgroup lets other users' programs run as well (`cgroup_bpf_link_attach` adds `BPF_F_ALLOW_MULTI`). A
//! later process's link replaces the pin of the earlier one: for a moment both programs run, and no call passes
//! without a program.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::programs::links::FdLink;
use aya::programs::{CgroupAttachMode, Program, ProgramError};

use crate::BpfError;
use crate::object::of_sockets;

/// The number of the machine's namespace of cgroups (`PROC_CGROUP_INIT_INO` of the kernel).
const MACHINES_CGROUPS: u64 = 0xefff_fffb;

/// The mount point of the machine's hierarchy of cgroups (version 2); `None` when it is not mounted, or when only the
/// container's is.
#[must_use]
pub fn cgroup_root() -> Option<PathBuf> {
    let own = fs::metadata("/proc/self/ns/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounted(&mounts, own.ino() == MACHINES_CGROUPS)
}

/// The mount whose root is the machine's. Seen from a container's namespace it is above the own root.
fn mounted(mounts: &str, is_machines: bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(3);
        let (root, path) = (words.next()?, words.next()?);
        let is_root = if is_machines {
            root == "/"
        } else {
            root.split('/').skip(1).all(|it| it == "..") && root != "/"
        };
        (kind.starts_with("cgroup2 ") && is_root).then(|| PathBuf::from(path))
    })
}

/// Whether the calling process is known to be in the network namespace of the machine's first process. In a
/// container, the first process is the container's.
#[must_use]
pub fn is_machines_namespace() -> bool {
    let number = |of| fs::metadata(format!("/proc/{of}/ns/net")).map(|it| it.ino());
    matches!((number("1"), number("self")), (Ok(first), Ok(own)) if first == own)
}

/// Gives the kernel the programs, and attaches them to the cgroup.
pub(crate) fn attach(
    loaded: &mut Ebpf,
    names: &[&'static str],
    links: &Path,
    cgroup: &Path,
) -> Result<(), BpfError> {
    let folder = File::open(cgroup).map_err(|source| BpfError::Pin {
        operation: "open the cgroup",
        path: cgroup.to_owned(),
        source,
    })?;
    for name in names {
        let program = of_sockets(loaded, name)?;
        if program.fd().is_err() {
            let loaded = load(program);
            loaded.map_err(|error| BpfError::program(name, &error))?;
        }
    }
    for name in names {
        let link = link(of_sockets(loaded, name)?, &folder);
        let pinned = link.and_then(|link| pin(link, links, name));
        pinned.map_err(|source| BpfError::Attach {
            program: name,
            target: cgroup.display().to_string(),
            source,
        })?;
    }
    Ok(())
}

/// Detaches the programs: those that were attached last go first.
pub(crate) fn detach(names: &[&str], links: &Path) {
    for name in names.iter().rev() {
        fs::remove_file(links.join(name)).ok();
        fs::remove_file(links.join(format!("{name}-new"))).ok();
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn load(program: &mut Program) -> Result<(), ProgramError> {
    match program {
        Program::CgroupSockAddr(it) => it.load(),
        Program::CgroupSock(it) => it.load(),
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

fn link(program: &mut Program, cgroup: &File) -> Result<FdLink, Failure> {
    // The kernel knows no mode for links, and refuses flags.
    let mode = CgroupAttachMode::Single;
    match program {
        Program::CgroupSockAddr(it) => {
            let id = it.attach(cgroup, mode)?;
            Ok(it.take_link(id)?.try_into()?)
        }
        Program::CgroupSock(it) => {
            let id = it.attach(cgroup, mode)?;
            Ok(it.take_link(id)?.try_into()?)
        }
        _ => Err(ProgramError::UnexpectedProgramType.into()),
    }
}

fn pin(link: FdLink, links: &Path, name: &str) -> Result<(), Failure> {
    // The names of pins have no dots.
    let new = links.join(format!("{name}-new"));
    // A pin of an agent that ended half-way.
    if let Err(error) = fs::remove_file(&new)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error.into());
    }
    link.pin(&new)?;
    Ok(fs::rename(&new, links.join(name))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_cgroups_are_told_from_a_containers() {
        let machine = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let unified = Some(PathBuf::from("/sys/fs/cgroup/unified"));
        assert_eq!(mounted(machine, true), unified);
        let container = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted(container, false), None);
        let both =
            format!("{container}42 31 0:38 /../../.. /host/cgroup rw - cgroup2 cgroup2 rw\n");
        assert_eq!(mounted(&both, false), Some("/host/cgroup".into()));
        assert_eq!(mounted("", true), None);
    }
}
