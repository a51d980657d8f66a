//! The inotify watches of one path.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::settle::Notice;
use crate::folder::identity;

/// Links that are followed in a path, as the kernel does (`MAXSYMLINKS` in `linux/namei.h`).
const MAX_LINKS: usize = 40;

/// An entry of a folder appears, is replaced or goes.
const ENTRIES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVE);

/// The content of a file changes, or the folder itself moves or goes.
const CONTENT: AddWatchFlags = AddWatchFlags::IN_MODIFY
    .union(AddWatchFlags::IN_CLOSE_WRITE)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF);

/// Watches every folder entry that decides where a path leads, and the end of the path: the content of the file, or
/// all entries of the folder and of its subfolders. ADR 6 says why this uses inotify directly.
#[derive(Debug)]
pub(super) struct PathWatch {
    inotify: Inotify,
    /// The entries on the way, by the watch of the folder that has them.
    way: BTreeMap<WatchDescriptor, Vec<OsString>>,
    /// The watch of the folder at the end, with its device and inode.
    folder: Option<(WatchDescriptor, (u64, u64))>,
    /// Each watched folder's path below that folder: `""`, `team-a/`.
    folders: BTreeMap<WatchDescriptor, String>,
    /// No folder on the way is missing or forbidden.
    pub(super) is_complete: bool,
}

/// An event of the kernel.
#[derive(Debug)]
pub(super) enum Noticed {
    /// The path may lead elsewhere, or the file at its end is different. Or events were lost.
    Way(InotifyEvent),
    /// An entry of the folder at the end or of a subfolder, with its path below the folder.
    Entry(InotifyEvent, String),
}

impl PathWatch {
    /// Watches an absolute path to a file, which may be missing.
    pub(super) fn of_file(path: &Path) -> io::Result<Self> {
        Self::of_way(path, ENTRIES | CONTENT)
    }

    /// Watches an absolute path to a folder, which must be there.
    pub(super) fn of_folder(path: &Path) -> io::Result<Self> {
        let mut watch = Self::of_way(path, ENTRIES)?;
        let folder = watch.add(path, ENTRIES | CONTENT)?;
        watch.folder = Some((folder, identity(path)?));
        watch.folders.insert(folder, String::new());
        Ok(watch)
    }

    /// Forgets the subfolders: they are about to be listed again.
    pub(super) fn forget_subfolders(&mut self) {
        self.folders.retain(|_, folder| folder.is_empty());
    }

    /// Watches a subfolder of the folder at the end. It is no error when the subfolder is gone or may not be read:
    /// the folder above reports when that changes.
    pub(super) fn watch_subfolder(&mut self, root: &Path, folder: &str) -> io::Result<()> {
        match self.add(&root.join(folder), ENTRIES | CONTENT) {
            Ok(it) => {
                self.folders.entry(it).or_insert_with(|| folder.to_owned());
                Ok(())
            }
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a subfolder with this path below the folder is watched.
    pub(super) fn has_subfolder(&self, name: &str) -> bool {
        let is_it = |it: &String| it.strip_suffix('/') == Some(name);
        self.folders.values().any(is_it)
    }

    fn of_way(path: &Path, mask: AddWatchFlags) -> io::Result<Self> {
        let mut watch = Self {
            inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?,
            way: BTreeMap::new(),
            folder: None,
            folders: BTreeMap::new(),
            is_complete: true,
        };
        for (folder, name) in way(path) {
            match watch.add(&folder, mask) {
                Ok(it) => watch.way.entry(it).or_default().push(name),
                Err(Errno::ENOSPC) => return Err(Errno::ENOSPC.into()),
                Err(_) => watch.is_complete = false,
            }
        }
        Ok(watch)
    }

    fn add(&self, folder: &Path, mask: AddWatchFlags) -> Result<WatchDescriptor, Errno> {
        // Add to the mask: one folder may be watched for two reasons. A writer that still has the file
        // open which was replaced does not write to the new one.
        let flags = nix::libc::IN_MASK_ADD | nix::libc::IN_EXCL_UNLINK;
        let flags = AddWatchFlags::from_bits_retain(flags) | AddWatchFlags::IN_ONLYDIR;
        self.inotify.add_watch(folder, mask | flags)
    }

    /// Whether a path still leads to the folder that is watched.
    pub(super) fn is_of(&self, path: &Path) -> bool {
        let identity = identity(path).ok();
        self.folder.as_ref().map(|(_, it)| *it) == identity
    }

    /// The descriptor to poll.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// The events since the last call; never waits.
    pub(super) fn drain(&self) -> io::Result<Vec<Noticed>> {
        let mut reported = Vec::new();
        loop {
            match self.inotify.read_events() {
                Ok(events) => reported.extend(events.into_iter().filter_map(|it| self.report(it))),
                Err(Errno::EAGAIN) => return Ok(reported),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn report(&self, event: InotifyEvent) -> Option<Noticed> {
        let folder = self.folders.get(&event.wd);
        let Some(name) = &event.name else {
            // An event about a watched folder itself has no name, nor has an overflow of the queue. The folder above
            // reports the events about a subfolder.
            let is_subfolder = folder.is_some_and(|it| !it.is_empty());
            let is_forgotten = event.mask.contains(AddWatchFlags::IN_IGNORED) && folder.is_none();
            let is_way = self.way.contains_key(&event.wd);
            return (is_way || !is_subfolder && !is_forgotten).then_some(Noticed::Way(event));
        };
        let names = self.way.get(&event.wd);
        if names.is_some_and(|it| it.contains(name)) {
            return Some(Noticed::Way(event));
        }
        let name = format!("{}{}", folder?, name.to_str()?);
        Some(Noticed::Entry(event, name))
    }
}

/// The meaning of an event about the file with this name and path.
pub(super) fn notice(event: &InotifyEvent, name: &str, path: &Path) -> Notice {
    let has = |flag| event.mask.intersects(flag);
    let name = name.to_owned();
    let is_created = || has(AddWatchFlags::IN_CREATE) && is_new_file(path);
    if has(AddWatchFlags::IN_MODIFY) || is_created() {
        Notice::Writing(name)
    } else if has(AddWatchFlags::IN_ATTRIB) {
        Notice::Touched(name)
    } else if has(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO) {
        Notice::Replaced(name)
    } else {
        Notice::Settled(name)
    }
}

/// A new file will be written and closed; a new link or folder will not.
fn is_new_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.nlink() == 1)
}

/// Every folder that has an entry which decides where the path leads, with that entry: of the file,
/// of each folder above it that is a link, and of what the links lead to. A replaced folder that is
/// no link is noticed only at the end of the path.
fn way(path: &Path) -> Vec<(PathBuf, OsString)> {
    let mut found = Vec::new();
    let mut rest: Vec<OsString> = path.iter().rev().map(OsStr::to_owned).collect();
    let (mut at, mut links) = (PathBuf::new(), 0);
    while let Some(name) = rest.pop() {
        let next = at.join(&name);
        match fs::read_link(&next) {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                found.push((at.clone(), name));
                if target.is_absolute() {
                    at = PathBuf::new();
                }
                rest.extend(target.iter().rev().map(OsStr::to_owned));
            }
            _ if rest.is_empty() => found.push((at.clone(), name)),
            _ if name == ".." => {
                at.pop();
            }
            _ => at = next,
        }
    }
    found
}
