//! Network namespaces that belong to user namespaces of their own: who is root there has power over that network, and over
//! nothing else of the machine.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
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

/// A process in the new namespaces: no thread of this process can enter a user namespace. It ends with the value.
///
/// It has this process's memory: a copy of the page tables of a lab's server takes longer than all else, for each pod. It
/// makes no call but two, on a stack of its own, and runs no handler of a signal.
struct Maker {
    child: Pid,
    /// The child ends when this is closed, also with this process.
    _hold: io::PipeWriter,
    /// What the child uses until it has ended: a [`Pipe`] at the start, and its stack from the end.
    _memory: Vec<u128>,
}

/// The ends of a pipe, for reading and for writing.
type Pipe = [RawFd; 2];

/// The size of a maker's memory in units of 16 bytes, to which a stack is aligned.
const MEMORY: usize = 1024;

impl Maker {
    fn start() -> io::Result<Self> {
        let (held, hold) = io::pipe()?;
        let mut memory = vec![0_u128; MEMORY];
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        #[expect(
            unsafe_code,
            reason = "the memory belongs to the child until `drop` has waited for its end"
        )]
        let child = unsafe {
            let start = memory.as_mut_ptr();
            start
                .cast::<Pipe>()
                .write([held.as_raw_fd(), hold.as_raw_fd()]);
            let flags = libc::CLONE_VM | libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::SIGCHLD;
            libc::clone(wait, start.add(MEMORY).cast(), flags, start.cast())
        };
        let made = Errno::result(child).map(|it| Self {
            child: Pid::from_raw(it),
            _hold: hold,
            _memory: memory,
        });
        mask.thread_set_mask()?;
        Ok(made?)
    }
}

/// Waits until nobody else holds the pipe open.
extern "C" fn wait(pipe: *mut libc::c_void) -> libc::c_int {
    #[expect(
        unsafe_code,
        reason = "`start` wrote the pipe, and the descriptors are the child's own; neither call fails, which would write \
                  the `errno` of the thread that made it"
    )]
    unsafe {
        let [held, hold] = pipe.cast::<Pipe>().read();
        libc::close(hold);
        let mut byte = 0_u8;
        libc::read(held, (&raw mut byte).cast(), 1);
    }
    0
}

impl Drop for Maker {
    fn drop(&mut self) {
        // It may end by itself meanwhile.
        let _ = kill(self.child, Signal::SIGKILL);
        while waitpid(self.child, None) == Err(Errno::EINTR) {}
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
