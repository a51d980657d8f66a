//! A container that sees a root and processes of its own, and may do there what container runtimes let it do.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, fchown};

use anyhow::Context;
use caps::{CapSet, Capability, CapsHashSet};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_no_new_privs;
use nix::unistd::{Gid, Uid, chdir, setgroups, setresgid, setresuid};

use crate::entry::Confined;

/// Capabilities of a container without a user namespace of its own: none of them has power over more than its own files
/// and the network of its node.
const WITHOUT_USERS: [Capability; 15] = [
    Capability::CAP_AUDIT_WRITE,
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_FOWNER,
    Capability::CAP_FSETID,
    Capability::CAP_IPC_LOCK,
    Capability::CAP_KILL,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_NET_RAW,
    Capability::CAP_SETGID,
    Capability::CAP_SETPCAP,
    Capability::CAP_SETUID,
    Capability::CAP_SYS_CHROOT,
    Capability::CAP_SYS_NICE,
];

impl Confined {
    /// Becomes the user of the container for good; `users` is the user namespace of its network.
    pub(super) fn become_user(&self, users: &File) -> anyhow::Result<()> {
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        if self.user != 0 {
            own_output(self.user).context("give it its log")?;
        }
        let has_users =
            users.metadata()?.ino() != File::open("/proc/self/ns/user")?.metadata()?.ino();
        if has_users {
            setns(users, CloneFlags::CLONE_NEWUSER).context("enter the user namespace")?;
        }
        self.reduce(has_users).context("give up capabilities")?;
        let groups: Vec<Gid> = self.groups.iter().map(|it| Gid::from_raw(*it)).collect();
        // In a lab without privileges there is one user and one group.
        let unknown = |it: Errno| {
            matches!(it, Errno::EINVAL | Errno::EPERM)
                .then_some(())
                .ok_or(it)
        };
        setgroups(&groups)
            .or_else(unknown)
            .context("set the groups")?;
        setresgid(group, group, group)
            .or_else(unknown)
            .context("set the group")?;
        setresuid(user, user, user)
            .or_else(unknown)
            .context("set the user")?;
        if self.no_new_privileges {
            set_no_new_privs().context("give up new privileges")?;
        }
        let directory = self.directory.clone().unwrap_or_else(|| "/".into());
        chdir(&directory).with_context(|| format!("change to {}", directory.display()))
    }

    /// Keeps the capabilities that its programs may have.
    fn reduce(&self, has_users: bool) -> anyhow::Result<()> {
        let mut kept: CapsHashSet = match &self.capabilities {
            None => caps::all(),
            Some(names) => {
                let read = |it: &String| format!("CAP_{it}").parse().ok();
                names.iter().filter_map(read).collect()
            }
        };
        if !has_users {
            kept.retain(|it| WITHOUT_USERS.contains(it));
        }
        for it in caps::runtime::thread_all_supported().difference(&kept) {
            caps::drop(None, CapSet::Bounding, *it)?;
        }
        caps::clear(None, CapSet::Inheritable)?;
        Ok(())
    }
}

/// Gives the log to the user, who may open it again as `/dev/stdout`.
fn own_output(user: u32) -> io::Result<()> {
    let (out, errors) = (io::stdout(), io::stderr());
    let both: [BorrowedFd<'_>; 2] = [out.as_fd(), errors.as_fd()];
    for it in both {
        match fchown(it, Some(user), None) {
            // A lab without privileges has one user.
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => {}
            changed => changed?,
        }
    }
    Ok(())
}
