//! The inotify watches of one folder.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::notice::Notice;
use crate::folder::is_manifest;

/// Watches a folder for changes, and the places its path leads through for its replacement.
///
/// `notify` would do most of this. Done here because its masks cannot be chosen: it also reports
/// every open, so that reading 50,000 files would overflow its own queue, and every write in the
/// parent folder, which is no business of ours.
#[derive(Debug)]
pub(super) struct Gate {
    inotify: Inotify,
    dir: PathBuf,
    /// The watch on the folder.
    inside: WatchDescriptor,
    /// Device and inode of the folder that is watched.
    identity: (u64, u64),
}

/// Links that are followed in a path, as the kernel does.
const MAX_LINKS: usize = 40;

impl Gate {
    /// Watches `dir`, an absolute path.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let entries = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVE;
        // Add to the mask: the folder may be its own neighbour.
        let add = AddWatchFlags::from_bits_retain(nix::libc::IN_MASK_ADD);
        let common = add | AddWatchFlags::IN_ONLYDIR;
        for place in neighbours(dir) {
            // Not to see a replacement is bearable; not to start is not.
            if let Err(error) = inotify.add_watch(&place, entries | common) {
                let place = place.display();
                tracing::warn!(%place, %error, "a replaced folder will not be noticed");
            }
        }
        let changes = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF;
        let inside = inotify.add_watch(dir, entries | changes | common)?;
        let identity = identity(dir)?;
        let dir = dir.to_owned();
        Ok(Self {
            inotify,
            dir,
            inside,
            identity,
        })
    }

    /// Whether the path still leads to the folder that is watched.
    pub(super) fn is_current(&self) -> bool {
        identity(&self.dir).is_ok_and(|it| it == self.identity)
    }

    /// To wait for.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// What has happened since the last call; never waits.
    pub(super) fn drain(&self) -> io::Result<Vec<Notice>> {
        let mut notices = Vec::new();
        loop {
            match self.inotify.read_events() {
                Ok(events) => notices.extend(events.iter().filter_map(|it| self.notice(it))),
                Err(Errno::EAGAIN) => return Ok(notices),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn notice(&self, event: &InotifyEvent) -> Option<Notice> {
        let has = |flag| event.mask.intersects(flag);
        if has(AddWatchFlags::IN_Q_OVERFLOW) {
            return Some(Notice::Everything);
        }
        if event.wd != self.inside {
            return Some(Notice::Folder);
        }
        // What happens to the folder itself comes without a name.
        let Some(name) = &event.name else {
            return Some(Notice::Folder);
        };
        let name = name.to_str()?;
        if name.starts_with('.') {
            let swapped = AddWatchFlags::IN_MOVE | AddWatchFlags::IN_CREATE;
            let is_link = || self.dir.join(name).is_symlink();
            return (has(swapped) && is_link()).then_some(Notice::Everything);
        }
        if !is_manifest(name) {
            return None;
        }
        let name = name.to_owned();
        let writing = has(AddWatchFlags::IN_MODIFY)
            || (has(AddWatchFlags::IN_CREATE) && is_new_file(&self.dir.join(&name)));
        Some(if writing {
            Notice::Writing(name)
        } else if has(AddWatchFlags::IN_ATTRIB) {
            Notice::Touched(name)
        } else {
            Notice::Settled(name)
        })
    }
}

/// A file that somebody has just created will be written and closed; a link or a folder will not.
fn is_new_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.nlink() == 1)
}

fn identity(dir: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(dir).map(|it| (it.dev(), it.ino()))
}

/// The folders whose entries decide where a path leads: its parent, and if it is a symbolic
/// link, the parent of each link on the way.
fn neighbours(dir: &Path) -> Vec<PathBuf> {
    let (mut path, mut found) = (dir.to_owned(), Vec::new());
    for _ in 0..MAX_LINKS {
        let Some(parent) = path.parent().map(Path::to_owned) else {
            break;
        };
        found.push(parent.clone());
        match fs::read_link(&path) {
            Ok(target) => path = parent.join(target),
            Err(_) => break,
        }
    }
    found
}
