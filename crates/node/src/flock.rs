//! One agent per node: a lock on a file beside the socket, and one on the network namespace.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::geteuid;
use sluice_netlink::nflog::Group;
use sluice_reconcile::chain;
use tracing::info;

/// This process may not be the node's agent.
#[derive(Debug, thiserror::Error)]
pub enum AlreadyRunning {
    /// Another process holds the lock file.
    #[error("another sluice is running (pid {pid}): it holds {}", path.display())]
    Held {
        /// Its process id; `?` before it has written one.
        pid: String,
        /// The lock file.
        path: PathBuf,
    },
    /// Another process writes the rules of this network namespace, with another socket.
    #[error(
        "another sluice is running in this network namespace: `pgrep -a 'sluice|kube-proxy'` finds it"
    )]
    Namespace,
    /// The lock file cannot be opened or locked.
    #[error("lock {}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// The lock file of the agent. The kernel releases it when the process ends.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// `None` while the file system is full or read-only.
    held: Option<Flock<File>>,
}

/// Whether there is no room for a new file: the file system is full or read-only.
pub(crate) fn has_no_room(error: &io::Error) -> bool {
    let full = [Errno::ENOSPC, Errno::EDQUOT, Errno::EROFS].map(|it| it as i32);
    error.raw_os_error().is_some_and(|it| full.contains(&it))
}

impl Lock {
    /// Locks the file beside this socket (`sluice.lock` for `sluice.sock`). Makes the directory,
    /// and refuses one in which other users could replace these files. Only our own user can open
    /// the file: who can open it can lock it. On a file system without room the lock is not held yet: rules do not wait for
    /// a file, and [`NamespaceLock`] tells of other agents, too.
    ///
    /// # Errors
    /// Any [`AlreadyRunning`].
    pub fn take(socket: &Path) -> Result<Self, AlreadyRunning> {
        let mut lock = Self {
            path: socket.with_extension("lock"),
            held: None,
        };
        let _is_held = lock.complete()?;
        Ok(lock)
    }

    /// Whether the file that is locked has its name.
    pub(crate) fn is_there(&self) -> bool {
        let place = |it: fs::Metadata| (it.dev(), it.ino());
        let held = self.held.as_ref().and_then(|it| it.metadata().ok());
        held.is_some_and(|held| {
            fs::symlink_metadata(&self.path).is_ok_and(|it| place(it) == place(held))
        })
    }

    /// Takes the lock if it is not held, or somebody removed its file. Inside: there is no room for it.
    pub(crate) fn complete(&mut self) -> Result<io::Result<()>, AlreadyRunning> {
        if self.is_there() {
            return Ok(Ok(()));
        }
        match Self::open(&self.path) {
            Ok(held) => self.held = Some(held),
            Err(AlreadyRunning::Io { source, .. }) if has_no_room(&source) => {
                return Ok(Err(source));
            }
            Err(error) => return Err(error),
        }
        Ok(Ok(()))
    }

    fn open(path: &Path) -> Result<Flock<File>, AlreadyRunning> {
        let io_error = |source| AlreadyRunning::Io {
            path: path.to_owned(),
            source,
        };
        if let Some(directory) = path.parent() {
            make_directory(directory).map_err(io_error)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        options.custom_flags(OFlag::O_NOFOLLOW.bits());
        let file = options.open(path).map_err(io_error)?;
        check_owner(path, &file).map_err(io_error)?;
        // Earlier versions made it with another mode.
        let private = Permissions::from_mode(0o600);
        file.set_permissions(private).map_err(io_error)?;
        let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => {
                let (pid, path) = (holder(path), path.to_owned());
                return Err(AlreadyRunning::Held { pid, path });
            }
            Err((_, errno)) => return Err(io_error(errno.into())),
        };
        lock.set_len(0).map_err(io_error)?;
        match writeln!(lock, "{}", std::process::id()) {
            // It is held, without a name.
            Err(error) if !has_no_room(&error) => Err(io_error(error)),
            _ => Ok(lock),
        }
    }

    /// Checks that no agent holds the lock beside this socket. Creates no file.
    ///
    /// # Errors
    /// [`AlreadyRunning::Held`].
    pub fn check(socket: &Path) -> Result<(), AlreadyRunning> {
        let path = socket.with_extension("lock");
        // No agent ever ran here, or we may not read its files.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_NOFOLLOW.bits());
        let Ok(file) = options.open(&path) else {
            return Ok(());
        };
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Err((_, Errno::EWOULDBLOCK)) => {
                let pid = holder(&path);
                Err(AlreadyRunning::Held { pid, path })
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// How long a program that an ended agent had started may hold the agent's sockets.
const HELD_AFTER_END: Duration = Duration::from_secs(5);

/// Between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(10);

/// Held by the one agent of a network namespace, wherever its socket file is: an NFLOG group, which takes
/// `CAP_NET_ADMIN` and ends with its process ([`sluice_netlink::nflog`]).
#[derive(Debug)]
pub struct NamespaceLock(#[expect(dead_code, reason = "only lives")] Option<Group>);

impl NamespaceLock {
    /// "sl" in ASCII: other programs hardly use this number.
    const GROUP: u16 = 0x736c;

    /// Takes the lock of the calling thread's network namespace. Waits up to five seconds for a
    /// program that an agent started just before it ended: the program holds the lock until its
    /// `exec`. A kernel without NFLOG has no such lock.
    ///
    /// # Errors
    /// [`AlreadyRunning::Namespace`].
    pub fn take() -> Result<Self, AlreadyRunning> {
        let deadline = Instant::now() + HELD_AFTER_END;
        loop {
            match Group::take(Self::GROUP) {
                #[expect(clippy::disallowed_methods, reason = "a lock tells nobody")]
                Ok(None) if Instant::now() < deadline => thread::sleep(PAUSE),
                Ok(None) => return Err(AlreadyRunning::Namespace),
                Ok(group) => return Ok(Self(group)),
                Err(error) => {
                    let error = chain(&error);
                    info!(
                        error,
                        "cannot lock the network namespace: a second agent with another socket would not be noticed"
                    );
                    return Ok(Self(None));
                }
            }
        }
    }
}

/// Checks that a file belongs to root or to our user. In a folder like `/tmp` another user may have created and
/// locked it.
fn check_owner(path: &Path, file: &File) -> io::Result<()> {
    let owner = file.metadata()?.uid();
    if is_ours(owner) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{} belongs to user {owner}: remove it, or use another directory (--socket)",
        path.display()
    )))
}

fn is_ours(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

/// Makes the agent's directory if it is missing, and refuses one in which other users could replace
/// its files.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o755);
    builder.create(directory)?;
    check_directory(directory)
}

/// Checks that no user but root and ours can replace files in a directory: nobody else can write it,
/// or only with the sticky bit, which leaves files to their owners.
fn check_directory(directory: &Path) -> io::Result<()> {
    let found = fs::metadata(directory)?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    let problem = match owner {
        _ if !found.is_dir() => "is no directory".to_owned(),
        _ if mode & 0o022 != 0 && mode & 0o1000 == 0 => format!("has mode {mode:04o}"),
        owner if !is_ours(owner) => format!("belongs to user {owner}"),
        _ => return Ok(()),
    };
    Err(io::Error::other(format!(
        "{} {problem}: others could hold or replace the lock and the socket; use a directory that \
         only root or the user of sluice can write (--socket)",
        directory.display()
    )))
}

/// The process id in a lock file; `?` for none.
fn holder(path: &Path) -> String {
    let pid = fs::read_to_string(path).unwrap_or_default();
    match pid.trim() {
        "" => "?".to_owned(),
        pid => pid.to_owned(),
    }
}

#[cfg(test)]
mod tests;
