//! Folders and files as they change.
//!
//! A thread waits in `poll` for inotify and for the end; idle, it costs nothing. [`path`] says which
//! entries changed, [`settle`] which of them are complete. Those files are read at once, and no
//! others; all files are looked at when folders or their links change, and when the kernel's queue ran
//! over. [`held`] keeps back deletions for a moment.

mod changes;
mod file;
mod folder;
mod held;
mod path;
mod settle;

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, absolute};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::SourceError;
use crate::hub::Hub;
use changes::ChangeWatch;
use file::FileWatch;
use folder::FolderWatch;
use path::PathWatch;

/// A path of which a part is missing or cannot be watched is looked at again after this time.
const MISSING_RETRY: Duration = Duration::from_secs(1);

/// The result of reading a folder that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The folder was read, with or without problems in its files.
    Done,
    /// The folder could not be read: it is tried again.
    Failed,
}

/// A running watch. Dropping it ends the watch; nothing is called any more after that.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Feeds this hub from a folder of manifests with its subfolders. A hub has one feed.
    ///
    /// A batch that takes objects away waits 40 ms for files that bring them back, 80 ms at most, and 2 s while they come
    /// or a new file is being written. So objects that move between files are not deleted.
    ///
    /// A file counts at once when its writer closes it, or when it is renamed or linked into place. A
    /// writer that does not close it is waited for until it is quiet for a second, two seconds at most;
    /// then the file counts, but objects that it lacks stay. The first batch waits for the files that
    /// were being written meanwhile, and for nothing else: it has every object and every problem, and ends with
    /// [`Notice::Synced`].
    ///
    /// Hidden files and folders and backups are not read. A subfolder behind a link is read, each folder
    /// once. Of a [`Selection`](crate::Selection) counts here what the model of the kind keeps.
    ///
    /// A file, document, object or subfolder that cannot be read keeps its last good state; so does the whole folder
    /// while it is missing. [`Notice::Problems`] say so, with the path below the folder as origin (the folder's own
    /// path for the folder itself). Reading is tried again until it works, of a file with the waits of
    /// [`sluice_reconcile::Backoff`].
    ///
    /// A change behind a symbolic link is noticed when the link is replaced, or a `..data` link as
    /// in a ConfigMap volume; not when a file outside the folder is written in place.
    ///
    /// # Errors
    /// [`SourceError::Folder`] when the folder cannot be listed now, [`SourceError::Watch`] when
    /// the kernel has no watch left.
    ///
    /// [`Notice::Synced`]: sluice_model::Notice::Synced
    /// [`Notice::Problems`]: sluice_model::Notice::Problems
    pub fn watch(&self, dir: impl AsRef<Path>) -> Result<Watch, SourceError> {
        watch(dir.as_ref(), self.clone())
    }
}

/// Watches a folder of manifests with its subfolders for the consumers of a hub.
fn watch(path: &Path, hub: Hub) -> Result<Watch, SourceError> {
    let fail = |error| SourceError::Watch {
        path: path.to_owned(),
        error,
    };
    let dir = absolute(path).map_err(fail)?;
    std::fs::read_dir(&dir).map_err(|error| SourceError::Folder {
        path: path.to_owned(),
        error,
    })?;
    let places = PathWatch::of_folder(&dir).map_err(fail)?;
    hub.wake_by(event().map_err(fail)?);
    let run = FolderWatch::new(dir, places, hub);
    Watch::spawn("manifests", |stop| run.run(&stop)).map_err(fail)
}

/// Watches one file.
///
/// `changed` gets the content of the file on the watch's own thread, soon and then each time that it is different; a
/// file that vanishes or comes back counts, too. A file that cannot be read is read again with the waits of
/// [`sluice_reconcile::Backoff`]. All links on the path are followed.
///
/// `changed` must not read the file once more: it might see a content that is gone when the watch looks again.
///
/// # Errors
/// The kernel has no watch or no thread left.
pub fn watch_file(
    path: &Path,
    changed: impl FnMut(io::Result<Vec<u8>>) + Send + 'static,
) -> io::Result<Watch> {
    let run = FileWatch::new(absolute(path)?, changed)?;
    Watch::spawn("config", |stop| run.run(&stop))
}

/// Watches a folder of manifests for a reader that reads all of it, as with [`objects`](crate::objects()).
///
/// `changed` is called on the watch's own thread, soon and then after changes of manifests, once they are
/// complete; again with the waits of [`sluice_reconcile::Backoff`] until it could do its work.
///
/// # Errors
/// [`SourceError::Watch`] when the folder cannot be watched now.
pub fn watch_changes(
    dir: &Path,
    changed: impl FnMut() -> Reading + Send + 'static,
) -> Result<Watch, SourceError> {
    let fail = |error| SourceError::Watch {
        path: dir.to_owned(),
        error,
    };
    let run = ChangeWatch::new(absolute(dir).map_err(fail)?, changed).map_err(fail)?;
    Watch::spawn("manifests", |stop| run.run(&stop)).map_err(fail)
}

impl Watch {
    fn spawn(name: &str, run: impl FnOnce(Arc<EventFd>) + Send + 'static) -> io::Result<Self> {
        let stop = Arc::new(event()?);
        let stopped = stop.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run(stopped))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It cannot fail: the counter is far from full. The thread leaves its poll.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            // A panic of the sink has been reported on its own thread.
            let _ = thread.join();
        }
    }
}

fn event() -> io::Result<EventFd> {
    Ok(EventFd::from_flags(
        EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK,
    )?)
}

/// Waits for inotify, for `due`, for `wake`, or for the end of the watch (false).
fn wait(
    stop: &EventFd,
    wake: Option<&EventFd>,
    places: Option<&PathWatch>,
    due: Option<Instant>,
) -> bool {
    // One millisecond more, because poll cuts: it must not wake just before the time.
    let timeout = due.map_or(PollTimeout::NONE, |it| {
        let left = it.saturating_duration_since(Instant::now());
        PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    });
    let mut fds = vec![PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    fds.extend(places.map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
    fds.extend(wake.map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => !fds[0].any().unwrap_or(true),
        Err(error) => {
            // The kernel has no memory for it now.
            tracing::warn!(%error, "cannot wait for changes of files: trying again");
            #[expect(clippy::disallowed_methods, reason = "poll itself failed")]
            thread::sleep(MISSING_RETRY);
            true
        }
    }
}
