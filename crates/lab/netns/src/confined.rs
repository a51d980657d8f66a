//! Network namespaces that belong to user namespaces of their own: who is root there has power over that network, and over
//! nothing else of the machine.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use sluice_route::Namespace;

/// `NS_GET_USERNS` of `ioctl_ns(2)`.
const GET_USERNS: libc::c_ulong = 0xb701;

/// Makes a network namespace in a new user namespace, in which all users are the same as here. The network namespace keeps the
/// user namespace.
///
/// # Errors
///
/// The kernel refuses user namespaces here, or their limit is reached (`user.max_user_namespaces`).
pub(crate) fn create() -> io::Result<Namespace> {
    let maker = Maker::start()?;
    let own = format!("/proc/{}", maker.child);
    for file in ["uid_map", "gid_map"] {
        fs::write(
            format!("{own}/{file}"),
            same(&fs::read_to_string(format!("/proc/self/{file}"))?),
        )?;
    }
    Namespace::open(format!("{own}/ns/net").as_ref())
}

/// The map of a user namespace below this one with the same users: the first and the third column of its own.
fn same(own: &str) -> String {
    let lines = own.lines().filter_map(|it| {
        let mut words = it.split_whitespace();
        let (first, count) = (words.next()?, words.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    });
    lines.collect()
}

/// A process in the new namespaces: only a process with one thread can make a user namespace. It ends with the value.
struct Maker {
    child: Pid,
    _hold: io::PipeWriter,
}

impl Maker {
    fn start() -> io::Result<Self> {
        let (mut made, tell) = io::pipe()?;
        let (mut held, hold) = io::pipe()?;
        #[expect(
            unsafe_code,
            reason = "the child makes system calls only and never returns, as it must where other threads may hold locks"
        )]
        let forked = unsafe { fork() }?;
        let child = match forked {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                drop(hold);
                let flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET;
                let errno = unshare(flags).err().map_or(0, |it| it as u8);
                // If nobody reads it, there is nothing to wait for either.
                let _ = (&tell).write_all(&[errno]);
                let _ = held.read(&mut [0]);
                exit_now();
            }
        };
        drop((tell, held));
        let maker = Self { child, _hold: hold };
        let mut errno = [0];
        made.read_exact(&mut errno)?;
        match errno[0] {
            0 => Ok(maker),
            it => Err(io::Error::from_raw_os_error(i32::from(it))),
        }
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        // It may end by itself meanwhile.
        let _ = kill(self.child, Signal::SIGKILL);
        let _ = waitpid(self.child, None);
    }
}

/// Ends this process without running anything of the one that it is a copy of.
fn exit_now() -> ! {
    #[expect(
        unsafe_code,
        reason = "the standard library's exit runs handlers of other threads"
    )]
    unsafe {
        libc::_exit(0)
    }
}

/// The user namespace that a namespace belongs to.
///
/// # Errors
///
/// It is no namespace, or belongs to a user namespace that is not below this process's.
pub fn owner(namespace: &impl AsFd) -> io::Result<File> {
    #[expect(unsafe_code, reason = "the descriptor is new and nobody else's")]
    unsafe {
        let fd = libc::ioctl(namespace.as_fd().as_raw_fd(), GET_USERNS);
        Ok(OwnedFd::from_raw_fd(Errno::result(fd)?).into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::require_netns;

    #[test]
    fn users_are_the_same_below() {
        assert_eq!(
            same("         0          0 4294967295\n"),
            "0 0 4294967295\n"
        );
        assert_eq!(same("0 1000 1\n1 100000 65536\n"), "0 0 1\n1 1 65536\n");
    }

    #[test]
    fn a_confined_network_belongs_to_users_of_its_own() {
        require_netns!();
        let number = |it: File| it.metadata().unwrap().ino();
        let own = number(File::open("/proc/self/ns/user").unwrap());
        let plain = Namespace::create().unwrap();
        assert_eq!(number(owner(&plain).unwrap()), own);
        let confined = create().unwrap();
        assert_ne!(number(owner(&confined).unwrap()), own);
        // Whoever made it may configure it.
        let up = confined.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"));
        up.unwrap().unwrap();
    }
}
