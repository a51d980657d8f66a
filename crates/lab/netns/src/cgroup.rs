//! A cgroup for the processes of one test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::LabError;

/// The name ends with the process that made it.
const PREFIX: &str = "sluice-test-";

/// This process, and what it starts from now on, in a cgroup of its own until the value is dropped.
#[derive(Debug)]
pub struct OwnCgroup {
    path: PathBuf,
    before: PathBuf,
}

impl OwnCgroup {
    /// Moves this process from `root`, where a hierarchy of version 2 is mounted, to a new folder of it. Folders of
    /// processes that were killed go first.
    ///
    /// # Errors
    /// [`LabError::Io`]: only root may do it, and only of processes that are in the hierarchy's root.
    pub fn enter(root: &Path) -> Result<Self, LabError> {
        let path = root.join(format!("{PREFIX}{}", process::id()));
        let enter = || {
            remove_leftovers(root);
            fs::create_dir(&path)?;
            move_to(&path)
        };
        enter().map_err(LabError::io("enter cgroup", path.display().to_string()))?;
        Ok(Self {
            path,
            before: root.to_owned(),
        })
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        // A process that is still in it keeps the folder, and the next test removes it.
        if move_to(&self.before).is_ok() {
            fs::remove_dir(&self.path).ok();
        }
    }
}

fn move_to(cgroup: &Path) -> io::Result<()> {
    fs::write(cgroup.join("cgroup.procs"), process::id().to_string())
}

fn remove_leftovers(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|it| it.parse::<u32>().ok());
        if owner.is_some_and(|it| !Path::new("/proc").join(it.to_string()).exists()) {
            fs::remove_dir(entry.path()).ok();
        }
    }
}
