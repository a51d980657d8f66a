//! One agent per node: a lock on a file beside the socket, and one on the network namespace.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;
use tracing::warn;

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
    #[error("another sluice is running (pid {pid}) in this network namespace")]
    Namespace {
        /// Its process id; `?` when unknown.
        pid: String,
    },
    /// The network namespace cannot be locked.
    #[error("lock the network namespace: {0}")]
    NamespaceIo(#[source] io::Error),
    /// The lock file cannot be used.
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
pub struct Lock(#[expect(dead_code, reason = "only lives")] Flock<File>);

impl Lock {
    /// Locks the file beside this socket (`sluice.lock` for `sluice.sock`). Makes the directory.
    ///
    /// # Errors
    /// [`AlreadyRunning`].
    pub fn take(socket: &Path) -> Result<Self, AlreadyRunning> {
        let path = socket.with_extension("lock");
        let io_error = |source| AlreadyRunning::Io {
            path: path.clone(),
            source,
        };
        if let Some(directory) = path.parent() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o755);
            builder.create(directory).map_err(io_error)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o644);
        let file = options.open(&path).map_err(io_error)?;
        let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => {
                let pid = holder(&path);
                return Err(AlreadyRunning::Held { pid, path });
            }
            Err((_, errno)) => return Err(io_error(errno.into())),
        };
        lock.set_len(0).map_err(io_error)?;
        writeln!(lock, "{}", std::process::id()).map_err(io_error)?;
        Ok(Self(lock))
    }

    /// Checks that no agent holds the lock beside this socket. Creates no file.
    ///
    /// # Errors
    /// [`AlreadyRunning::Held`].
    pub fn check(socket: &Path) -> Result<(), AlreadyRunning> {
        let path = socket.with_extension("lock");
        // No agent ever ran here, or its files are not ours to read.
        let Ok(file) = File::open(&path) else {
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

/// Held by the one agent of a network namespace, whatever its socket file: an abstract socket
/// belongs to the namespace and ends with its process (unix(7)).
#[derive(Debug)]
pub struct NamespaceLock(#[expect(dead_code, reason = "only lives")] Option<UnixListener>);

impl NamespaceLock {
    const NAME: &str = "sluice-agent";

    /// Takes the lock of the calling thread's network namespace. Waits up to five seconds for a
    /// program that an agent started just before it ended: the program holds the lock until its
    /// `exec`.
    ///
    /// # Errors
    /// [`AlreadyRunning::Namespace`], [`AlreadyRunning::NamespaceIo`].
    pub fn take() -> Result<Self, AlreadyRunning> {
        let deadline = Instant::now() + HELD_AFTER_END;
        loop {
            match Self::try_take() {
                Err(AlreadyRunning::Namespace { ref pid })
                    if !Path::new("/proc").join(pid).exists() && Instant::now() < deadline =>
                {
                    thread::sleep(PAUSE);
                }
                result => return result,
            }
        }
    }

    fn try_take() -> Result<Self, AlreadyRunning> {
        let name = SocketAddr::from_abstract_name(Self::NAME);
        let name = name.map_err(AlreadyRunning::NamespaceIo)?;
        match UnixListener::bind_addr(&name) {
            Ok(listener) => Ok(Self(Some(listener))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let peer = UnixStream::connect_addr(&name).ok();
                let peer = peer.and_then(|it| getsockopt(&it, PeerCredentials).ok());
                // Any user may take the name, but only root or our own user can run an agent.
                let own = geteuid().as_raw();
                if let Some(stranger) = peer.filter(|it| it.uid() != 0 && it.uid() != own) {
                    warn!(
                        pid = stranger.pid(),
                        uid = stranger.uid(),
                        "a process that is no agent holds the name of our lock: going on without the lock"
                    );
                    return Ok(Self(None));
                }
                let pid = peer.map_or_else(|| "?".to_owned(), |it| it.pid().to_string());
                Err(AlreadyRunning::Namespace { pid })
            }
            Err(error) => Err(AlreadyRunning::NamespaceIo(error)),
        }
    }
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
mod tests {
    use std::env;
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    use sluice_lab::{Netns, require_netns};

    use super::*;

    #[test]
    fn the_second_is_told_who_is_first() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = directory.path().join("run/sluice.sock");
        let first = Lock::take(&socket).expect("nobody holds it");
        let refused = Lock::take(&socket).expect_err("it is held").to_string();
        let pid = std::process::id();
        assert!(
            refused.starts_with(&format!("another sluice is running (pid {pid})")),
            "{refused}"
        );
        let checked = Lock::check(&socket).expect_err("it is held").to_string();
        assert_eq!(checked, refused);
        drop(first);
        Lock::check(&socket).expect("the first has gone");
        Lock::take(&socket).expect("the first has gone");
    }
    /// Set for the process that dies in the test below.
    const DIES: &str = "SLUICE_TEST_DIES";

    #[test]
    #[expect(clippy::zombie_processes, reason = "one has to outlive its parent")]
    fn what_outlives_an_agent_is_waited_for() {
        if env::var_os(DIES).is_some() {
            let name = SocketAddr::from_abstract_name(NamespaceLock::NAME).expect("a short name");
            let listener = UnixListener::bind_addr(&name).expect("nobody holds it");
            let mut child = Command::new("sleep");
            child.arg("1").stdin(OwnedFd::from(listener));
            child.stdout(Stdio::null()).stderr(Stdio::null());
            child.spawn().expect("sleep");
            return;
        }
        require_netns!();
        let netns = Netns::new("flock").expect("a namespace");
        let this = env::current_exe().expect("a program");
        let name = "flock::tests::what_outlives_an_agent_is_waited_for";
        let mut command = netns.command(this.to_str().expect("a path"), &["--exact", name]);
        let status = command.env(DIES, "").stdout(Stdio::null()).status();
        assert!(status.expect("this program").success());
        netns.run(NamespaceLock::take).expect("it is free soon");
        netns.run(|| {
            let _held = NamespaceLock::take().expect("it is free");
            let refused = NamespaceLock::take().expect_err("it is held").to_string();
            let pid = std::process::id();
            assert!(refused.contains(&format!("(pid {pid})")), "{refused}");
        });
    }
}
