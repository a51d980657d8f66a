//! Network namespaces: by path, process or file. Runs code in them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

/// The network namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";
/// Where iproute2 and the CNI plugins keep names of namespaces.
const NAMED: [&str; 2] = ["/run/netns", "/var/run/netns"];

/// A network namespace, which exists at least as long as this value.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    /// The name in errors.
    name: String,
}

impl Namespace {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn current() -> io::Result<Self> {
        Self::open(Path::new(OWN))
    }

    /// The namespace of a file, as `/run/netns/NAME` or CNI_NETNS.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok(Self { file, name }),
            Err(error) => Err(failed("open network namespace", &name, &error)),
        }
    }

    /// The namespace of a process.
    ///
    /// # Errors
    /// The process is gone, or another user's.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        Self::open(&Path::new("/proc").join(pid.to_string()).join("ns/net"))
    }

    /// Creates a namespace, without a name and with nothing but loopback, which is down.
    ///
    /// # Errors
    /// The privilege is missing, or the limit of namespaces is reached.
    pub fn create() -> io::Result<Self> {
        let made = || {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| failed("create", "network namespace", &errno.into()))?;
            Self::current()
        };
        on_thread(made)?
    }

    /// Runs `task` on a thread of its own inside. Its sockets belong to the namespace and may be used by any thread
    /// afterwards; programs that it starts inherit the namespace.
    ///
    /// # Errors
    /// The namespace cannot be entered, or no thread be started.
    ///
    /// # Panics
    /// When `task` panics, with the same payload.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_thread(|| self.join().map(|()| task()))?
    }

    /// Moves the calling thread inside until the guard is dropped. It must be able to return: see
    /// [`join`](Self::join).
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn enter(&self) -> io::Result<Entered> {
        let home = Self::current()?;
        self.join()?;
        Ok(Entered {
            home,
            _thread_bound: PhantomData,
        })
    }

    /// Moves the calling thread inside for good.
    ///
    /// # Errors
    /// The privilege is missing: `CAP_SYS_ADMIN` here and over the namespace.
    pub fn join(&self) -> io::Result<()> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| failed("enter network namespace", &self.name, &errno.into()))
    }

    /// A second handle of the same namespace.
    ///
    /// # Errors
    /// This process has too many files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            file: self.file.try_clone()?,
            name: self.name.clone(),
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl From<OwnedFd> for Namespace {
    fn from(fd: OwnedFd) -> Self {
        Self {
            name: format!("of file {fd:?}"),
            file: fd.into(),
        }
    }
}

/// Dropping it returns the thread to the namespace that it came from.
#[derive(Debug)]
#[must_use = "dropping the guard leaves the namespace at once"]
pub struct Entered {
    home: Namespace,
    /// `!Send`: a namespace belongs to a thread.
    _thread_bound: PhantomData<*mut ()>,
}

impl Drop for Entered {
    /// A thread in a namespace that it does not expect must not go on.
    fn drop(&mut self) {
        if let Err(error) = self.home.join()
            && !thread::panicking()
        {
            panic!("return to the home netns: {error}");
        }
    }
}

/// The file of every network namespace of this machine that has a name or a process, each once: that of the calling
/// thread first. One that cannot be looked at may be there twice.
#[must_use]
pub fn namespaces() -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let named = NAMED.iter().flat_map(|it| entries(Path::new(it)));
    let is_process = |it: &PathBuf| {
        let name = it.file_name().unwrap_or_default().as_encoded_bytes();
        name.iter().all(u8::is_ascii_digit)
    };
    let processes = entries(Path::new("/proc")).filter(is_process);
    [PathBuf::from(OWN)]
        .into_iter()
        .chain(named)
        .chain(processes.map(|it| it.join("ns/net")))
        .filter(|path| fs::metadata(path).map_or(true, |it| seen.insert((it.dev(), it.ino()))))
        .collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|it| Some(it.ok()?.path()))
}

fn on_thread<T: Send>(task: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, task)?;
        Ok(thread.join())
    })
    .map(|result| result.unwrap_or_else(|payload| std::panic::resume_unwind(payload)))
}

fn failed(operation: &str, object: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{operation} {object}: {error}"))
}
