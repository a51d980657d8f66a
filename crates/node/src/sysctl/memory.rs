//! The sysctls that agents changed, in a file beside their socket (`sluice.sysctls`): one line
//! `PATH OLD NEW` for each. `sluice cleanup --restore-sysctls` reads it.
//!
//! The file is written before the sysctl: after a crash it may name a change that was not made, and
//! never lacks one. The first old value of a path stays, over all restarts.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use sluice_reconcile::chain;
use tracing::info;

use super::{HASHSIZE, read};
use crate::flock;

/// A sysctl that an agent changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The file under `/proc/sys/net`, or the size of the hash table of connection tracking.
    pub path: String,
    /// The value before the first change.
    pub old: u64,
    /// The agent's value.
    pub new: u64,
}

impl fmt::Display for Changed {
    /// The name as in `sysctl -a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.strip_prefix("/proc/sys/") {
            Some(name) => f.write_str(&name.replace('/', ".")),
            None => f.write_str(&self.path),
        }
    }
}

/// The state of a sysctl that an agent changed.
#[derive(Debug)]
pub enum State {
    /// The sysctl has the agent's value.
    Ours,
    /// The sysctl has the old value, or is gone with its kernel module.
    Old,
    /// Another program has set it to this value since.
    Foreign(u64),
}

/// Why the file or a sysctl cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The file cannot be read, written or removed.
    #[error("{operation} {}: {source}", path.display())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has a line that no agent wrote.
    #[error(
        "{}: line {line}: expected the path of a sysctl under /proc/sys/net, its old and its new \
         value: remove the file, or the line",
        path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// The kernel refused the old value.
    #[error("set {changed} back to {}: {source}", changed.old)]
    Refused {
        /// The sysctl.
        changed: Changed,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// The file.
#[derive(Clone, Debug)]
pub struct Memory {
    path: PathBuf,
    /// Whether the file can be written: not without its folder, if another user creates that.
    has_folder: bool,
}

impl Memory {
    /// The file beside this socket. Its folder is made with the first change.
    #[must_use]
    pub fn beside(socket: &Path) -> Self {
        Self {
            path: socket.with_extension("sysctls"),
            has_folder: true,
        }
    }

    /// As [`beside`](Self::beside), for `--init-only`, whose user may not be the agent's. Where all users can create
    /// the folder, as in the `/run` of a pod, it is left to the agent: in our folder the agent could not write.
    #[must_use]
    pub fn of_init_only(socket: &Path) -> Self {
        let folder = socket.parent();
        let is_there = folder.is_none_or(Path::exists);
        let above = folder
            .and_then(Path::parent)
            .and_then(|it| it.metadata().ok());
        let is_open = above.is_some_and(|it| it.permissions().mode() & 0o002 != 0);
        Self {
            has_folder: is_there || !is_open,
            ..Self::beside(socket)
        }
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records a change that is about to be made. If that fails, the sysctl is set all the same: Services need it.
    pub(super) fn keep(&self, path: &str, old: u64, new: u64) {
        if let Err(error) = self.try_keep(path, old, new) {
            let error = chain(&error);
            info!(
                error,
                path, old, "`sluice cleanup --restore-sysctls` will not know the old value"
            );
        }
    }

    fn try_keep(&self, path: &str, old: u64, new: u64) -> Result<(), MemoryError> {
        if !self.has_folder {
            let error = io::Error::other("its folder does not exist yet");
            return Err(self.failed("write")(error));
        }
        let mut all = self.changed()?.unwrap_or_default();
        match all.iter_mut().find(|it| it.path == path) {
            Some(known) => known.new = new,
            None => all.push(Changed {
                path: path.to_owned(),
                old,
                new,
            }),
        }
        self.write(&all).map_err(self.failed("write"))
    }

    fn write(&self, all: &[Changed]) -> io::Result<()> {
        // A folder that a service manager made may belong to the agent's user, and we are root.
        if let Some(folder) = self.path.parent().filter(|it| !it.exists()) {
            flock::make_directory(folder)?;
        }
        let line = |it: &Changed| format!("{} {} {}\n", it.path, it.old, it.new);
        let text: String = all.iter().map(line).collect();
        let draft = self.path.with_extension("sysctls.new");
        // A draft of an agent that was killed. If it cannot be removed, creating the file below fails.
        let _ = fs::remove_file(&draft);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&draft)?;
        // `--init-only` may be another user than the agent, which reads the file before it adds to it.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&draft, &self.path)
    }

    /// The recorded changes; `None` without a file.
    ///
    /// # Errors
    /// [`MemoryError`]: the file cannot be read, or no agent wrote it.
    pub fn changed(&self) -> Result<Option<Vec<Changed>>, MemoryError> {
        let open = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(&self.path);
        let mut file: File = match open {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(self.failed("read"))?,
        };
        self.check_owner(&file).map_err(self.failed("read"))?;
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(self.failed("read"))?;
        let lines = (1..).zip(text.lines());
        let all = lines.map(|(line, text)| {
            let path = self.path.clone();
            parse(text).ok_or(MemoryError::Content { path, line })
        });
        all.collect::<Result<_, _>>().map(Some)
    }

    /// Checks that the file belongs to root, to our user or to the owner of its folder, who could replace
    /// it. In a folder like `/tmp` another user may have made it.
    fn check_owner(&self, file: &File) -> io::Result<()> {
        let owner = file.metadata()?.uid();
        let folder = self.path.parent().and_then(|it| it.metadata().ok());
        let owners = [Some(0), Some(geteuid().as_raw()), folder.map(|it| it.uid())];
        if owners.contains(&Some(owner)) {
            Ok(())
        } else {
            Err(io::Error::other(format!("it belongs to user {owner}")))
        }
    }

    /// Removes the file, once nothing is to be restored.
    ///
    /// # Errors
    /// [`MemoryError::File`].
    pub fn forget(&self) -> Result<(), MemoryError> {
        fs::remove_file(&self.path).map_err(self.failed("remove"))
    }

    fn failed(&self, operation: &'static str) -> impl FnOnce(io::Error) -> MemoryError {
        let path = self.path.clone();
        move |source| MemoryError::File {
            operation,
            path,
            source,
        }
    }
}

impl Changed {
    /// Looks at the sysctl in the network namespace of the calling thread.
    #[must_use]
    pub fn state(&self) -> State {
        match read(&self.path) {
            Some(now) if now == self.old => State::Old,
            Some(now) if now == self.new => State::Ours,
            Some(now) => State::Foreign(now),
            None => State::Old,
        }
    }

    /// Sets the sysctl to its old value.
    ///
    /// # Errors
    /// [`MemoryError::Refused`].
    pub fn restore(&self) -> Result<(), MemoryError> {
        let refused = |source| MemoryError::Refused {
            changed: self.clone(),
            source,
        };
        fs::write(&self.path, self.old.to_string()).map_err(refused)
    }
}

/// A line of the file. The agent's user can write the file, and root restores the values: other paths
/// than those of sysctls that Sluice may set are refused.
fn parse(line: &str) -> Option<Changed> {
    let mut words = line.split(' ');
    let (path, old, new) = (words.next()?, words.next()?, words.next()?);
    let is_of_network = path.starts_with("/proc/sys/net/") && !path.contains("..");
    let is_sysctl = is_of_network || path == HASHSIZE;
    (is_sysctl && words.next().is_none()).then_some(Changed {
        path: path.to_owned(),
        old: old.parse().ok()?,
        new: new.parse().ok()?,
    })
}
