//! Named network namespaces, and how to run code and programs inside them.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::{AsFd, AsRawFd},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    mount::{MntFlags, MsFlags, mount, umount2},
};
use sluice_netlink::RequestError;
use sluice_route::{Connection, Entered, Namespace};

use crate::{LabError, confined};

/// Where iproute2 keeps the names of namespaces.
pub(crate) const RUN_NETNS: &str = "/run/netns";

/// A network namespace with a name that `ip netns` knows, deleted when dropped unless it [`lasts`](Self::lasting).
///
/// The name is `sl<pid>-<lab>-<label>`: unique on the machine, and [`sweep`](crate::sweep) finds out
/// whether the process that created it is alive. Sockets that outlive the value keep the namespace,
/// without a name.
#[derive(Debug)]
pub struct Netns {
    name: String,
    namespace: Namespace,
    lasts: bool,
}

/// The first part of the names of one lab, e.g. `sl4711-3`.
pub(crate) fn next_prefix() -> String {
    static LABS: AtomicU32 = AtomicU32::new(1);
    format!(
        "sl{}-{}",
        process::id(),
        LABS.fetch_add(1, Ordering::Relaxed)
    )
}

impl Netns {
    /// Creates a namespace without any configuration (`lo` is down).
    ///
    /// # Errors
    /// [`LabError::Io`], also without the privilege.
    pub fn new(label: &str) -> Result<Self, LabError> {
        let mut made = Self::new_all(&next_prefix(), &[label])?;
        Ok(made.remove(0))
    }

    /// Creates one namespace per label, in the order of `labels`; all or none.
    pub(crate) fn new_all(prefix: &str, labels: &[&str]) -> Result<Vec<Self>, LabError> {
        share_names().map_err(LabError::io("prepare", RUN_NETNS))?;
        labels
            .iter()
            .map(|label| {
                let name = format!("{prefix}-{label}");
                let namespace = Namespace::create().map_err(LabError::io("make", &name))?;
                Self::named(namespace, name)
            })
            .collect()
    }

    /// Creates a namespace whose processes can be kept from all others: it belongs to a user namespace of its own where the
    /// kernel allows one.
    pub(crate) fn confined(prefix: &str, label: &str) -> Result<Self, LabError> {
        share_names().map_err(LabError::io("prepare", RUN_NETNS))?;
        let name = format!("{prefix}-{label}");
        let made = confined::create().or_else(|_| Namespace::create());
        Self::named(made.map_err(LabError::io("make", &name))?, name)
    }

    fn named(namespace: Namespace, name: String) -> Result<Self, LabError> {
        give_name(&namespace, &name)?;
        Ok(Self {
            name,
            namespace,
            lasts: false,
        })
    }

    /// A namespace that is there already, under its whole name. Dropping the value leaves it.
    ///
    /// # Errors
    /// [`LabError::Io`] when there is none.
    pub fn open(name: &str) -> Result<Self, LabError> {
        let namespace = Namespace::open(&path_of(name)).map_err(LabError::io("find", name))?;
        Ok(Self {
            name: name.to_owned(),
            namespace,
            lasts: true,
        })
    }

    /// Keeps the namespace when the value is dropped. [`delete`](Self::delete) deletes it.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasts = true;
        self
    }

    /// Deletes the name; the namespace goes with its last process and socket.
    ///
    /// # Errors
    /// [`LabError::Io`]: the kernel refused.
    pub fn delete(mut self) -> Result<(), LabError> {
        self.lasts = true;
        delete(&self.name)
    }

    /// The names of all namespaces on this machine.
    #[must_use]
    pub fn names() -> Vec<String> {
        let entries = fs::read_dir(RUN_NETNS).into_iter().flatten().flatten();
        entries
            .filter_map(|it| it.file_name().into_string().ok())
            .collect()
    }

    /// The name under `/run/netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file of the namespace.
    pub fn path(&self) -> PathBuf {
        path_of(&self.name)
    }

    /// Runs `task` on a fresh thread inside the namespace and returns what it returned.
    ///
    /// Sockets made by `task` belong to the namespace and may be used from anywhere afterwards;
    /// programs it spawns inherit the namespace.
    ///
    /// # Panics
    /// When `task` panics, with the same payload.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        let result = self.try_run(task);
        result.expect("who could create the namespace may enter it")
    }

    /// Runs `task` as [`run`](Self::run) does, in a namespace that others make and remove.
    ///
    /// # Errors
    /// The kernel's: the name has no namespace yet, or none any more.
    ///
    /// # Panics
    /// When `task` panics, with the same payload.
    pub fn try_run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.namespace.run(task)
    }

    /// Changes interfaces, addresses and routes of the namespace.
    ///
    /// # Errors
    /// [`LabError::Wire`].
    pub fn wire<T>(
        &self,
        change: impl FnOnce(&mut Connection) -> Result<T, RequestError>,
    ) -> Result<T, LabError> {
        let done = Connection::open_in(&self.namespace).and_then(|mut it| change(&mut it));
        done.map_err(|source| LabError::Wire {
            object: self.name.clone(),
            source,
        })
    }

    /// Starts `task` on a thread inside the namespace; the thread may outlive `self`.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<thread::JoinHandle<T>, LabError> {
        let duplicate = self.namespace.try_clone();
        let namespace = duplicate.map_err(LabError::io("duplicate handle of", &self.name))?;
        let inside = move || {
            let joined = namespace.join();
            joined.expect("who could create the namespace may enter it");
            drop(namespace);
            task()
        };
        thread::Builder::new()
            .spawn(inside)
            .map_err(LabError::io("start thread in", &self.name))
    }

    /// Moves the calling thread into the namespace until the guard is dropped.
    ///
    /// # Errors
    /// [`LabError::Io`] when the thread's own namespace cannot be opened, or this one not entered.
    pub fn enter(&self) -> Result<Entered, LabError> {
        let entered = self.namespace.enter();
        entered.map_err(LabError::io("enter", &self.name))
    }

    /// A command that runs inside the namespace, whichever thread spawns it.
    ///
    /// Its process id is the program's own, so it can be killed. Mounts are the caller's: `/sys`
    /// shows the caller's devices (`ip netns exec` would hide `/sys/fs/bpf` and the cgroups).
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", self.path().display()))
            .arg("--")
            .arg(program)
            .args(args);
        command
    }

    /// Sets `key` in the namespace: dotted, or with slashes when a part of it contains dots.
    ///
    /// # Errors
    /// [`LabError::Io`] when the kernel has no such key or refuses the value.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), LabError> {
        self.run(|| write_sysctl(key, value))
    }

    /// The namespace itself.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The command line that opens a shell inside.
    pub fn shell_line(&self) -> String {
        format!("ip netns exec {} sh", self.name)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if !self.lasts {
            report(delete(&self.name));
        }
    }
}

/// Writes a sysctl of the calling thread's namespace.
pub(crate) fn write_sysctl(key: &str, value: &str) -> Result<(), LabError> {
    let path = sysctl_path(key);
    fs::write(&path, value).map_err(LabError::io("write", path.display().to_string()))
}

pub(crate) fn sysctl_path(key: &str) -> PathBuf {
    let key = if key.contains('/') {
        key.to_owned()
    } else {
        key.replace('.', "/")
    };
    Path::new("/proc/sys").join(key)
}

/// Unmounts and removes a name, as `ip netns del` does, without a process.
///
/// A name that is gone already (two sweeps at once) is no error.
pub(crate) fn delete(name: &str) -> Result<(), LabError> {
    let path = path_of(name);
    // EINVAL: there is a file but nothing mounted on it (`ip netns add` was killed half-way).
    match umount2(&path, MntFlags::MNT_DETACH) {
        Ok(()) | Err(nix::Error::EINVAL | nix::Error::ENOENT) => {}
        Err(errno) => {
            return Err(LabError::io("unmount", path.display().to_string())(
                errno.into(),
            ));
        }
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(LabError::io("remove", path.display().to_string())(error))
        }
        _ => Ok(()),
    }
}

fn path_of(name: &str) -> PathBuf {
    Path::new(RUN_NETNS).join(name)
}

const NONE: Option<&str> = None;

/// Makes [`RUN_NETNS`] a place where every mount namespace sees the names, as `ip netns add` does.
fn share_names() -> io::Result<()> {
    fs::create_dir_all(RUN_NETNS)?;
    // As iproute2: of several programs that begin at once, one makes the mount.
    let _lock =
        Flock::lock(File::open(RUN_NETNS)?, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    let share = || {
        let flags = MsFlags::MS_SHARED | MsFlags::MS_REC;
        mount(NONE, RUN_NETNS, NONE, flags, NONE)
    };
    match share() {
        // It is a folder of another mount.
        Err(Errno::EINVAL) => {
            let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(RUN_NETNS), RUN_NETNS, NONE, flags, NONE)?;
            Ok(share()?)
        }
        shared => Ok(shared?),
    }
}

/// Mounts a namespace under a new name.
fn give_name(namespace: &Namespace, name: &str) -> Result<(), LabError> {
    let path = path_of(name);
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o000).open(&path);
    made.map_err(LabError::io("create", path.display().to_string()))?;
    let file = format!("/proc/self/fd/{}", namespace.as_fd().as_raw_fd());
    mount(Some(&*file), &path, NONE, MsFlags::MS_BIND, NONE).map_err(|errno| {
        // The error of the mount says more.
        let _ = fs::remove_file(&path);
        LabError::io("mount", path.display().to_string())(errno.into())
    })
}

/// Prints an error to stderr: `Drop` cannot return it.
fn report(result: Result<(), LabError>) {
    if let Err(error) = result {
        eprintln!("lab: {error}");
    }
}
