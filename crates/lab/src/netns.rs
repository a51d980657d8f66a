//! Named network namespaces, and how to run code and programs inside them.

use std::{
    fs::{self, File},
    io,
    marker::PhantomData,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use nix::{
    mount::{MntFlags, umount2},
    sched::{CloneFlags, setns},
};

use crate::{LabError, batch::Batch};

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
    file: File,
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
    /// [`LabError::Ip`] without the privilege, [`LabError::Io`] when there is no `ip`.
    pub fn new(label: &str) -> Result<Self, LabError> {
        let mut made = Self::new_all(&next_prefix(), &[label])?;
        Ok(made.remove(0))
    }

    /// Creates one namespace per label, in the order of `labels`, with one `ip` process.
    pub(crate) fn new_all(prefix: &str, labels: &[&str]) -> Result<Vec<Self>, LabError> {
        let names: Vec<String> = labels
            .iter()
            .map(|label| format!("{prefix}-{label}"))
            .collect();
        let mut batch = Batch::default();
        for name in &names {
            batch.push(format!("netns add {name}"));
        }
        let made = batch.apply_here("network namespaces").and_then(|()| {
            names
                .iter()
                .map(|name| {
                    let path = path_of(name);
                    let file = File::open(&path)
                        .map_err(LabError::io("open", path.display().to_string()))?;
                    Ok((name.clone(), file))
                })
                .collect::<Result<Vec<_>, _>>()
        });
        match made {
            Ok(made) => Ok(made
                .into_iter()
                .map(|(name, file)| Self {
                    name,
                    file,
                    lasts: false,
                })
                .collect()),
            Err(error) => {
                names
                    .iter()
                    .filter(|name| path_of(name).exists())
                    .for_each(|name| report(delete(name)));
                Err(error)
            }
        }
    }

    /// A namespace that is there already, under its whole name. Dropping the value leaves it.
    ///
    /// # Errors
    /// [`LabError::Io`] when there is none.
    pub fn open(name: &str) -> Result<Self, LabError> {
        let path = path_of(name);
        let file = File::open(&path).map_err(LabError::io("open", path.display().to_string()))?;
        Ok(Self {
            name: name.to_owned(),
            file,
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
        let inside = || {
            join(&self.file);
            task()
        };
        let result = thread::scope(|scope| scope.spawn(inside).join());
        result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }

    /// Starts `task` on a thread inside the namespace; the thread may outlive `self`.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<thread::JoinHandle<T>, LabError> {
        let file = self
            .file
            .try_clone()
            .map_err(LabError::io("duplicate handle of", &self.name))?;
        let inside = move || {
            join(&file);
            drop(file);
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
    pub fn enter(&self) -> Result<NetnsGuard, LabError> {
        let home = "/proc/thread-self/ns/net";
        let home = File::open(home).map_err(LabError::io("open", home))?;
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| LabError::io("enter", &self.name)(errno.into()))?;
        Ok(NetnsGuard {
            home,
            _thread_bound: PhantomData,
        })
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

/// Dropping it returns the thread to the namespace that it came from.
#[derive(Debug)]
#[must_use = "dropping the guard leaves the namespace at once"]
pub struct NetnsGuard {
    home: File,
    /// `!Send`: a namespace belongs to a thread.
    _thread_bound: PhantomData<*mut ()>,
}

impl Drop for NetnsGuard {
    fn drop(&mut self) {
        if let Err(error) = setns(&self.home, CloneFlags::CLONE_NEWNET)
            && !thread::panicking()
        {
            panic!("return to the home netns: {error}");
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

fn join(file: &File) {
    setns(file, CloneFlags::CLONE_NEWNET).expect("who could create the namespace may enter it");
}

/// Prints an error to stderr: `Drop` cannot return it.
fn report(result: Result<(), LabError>) {
    if let Err(error) = result {
        eprintln!("lab: {error}");
    }
}
