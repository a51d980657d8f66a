//! The folder as it changes.
//!
//! One thread waits in `poll` for inotify and for the end; idle, it costs nothing. The kernel
//! says which names changed, [`settle`] decides when nobody is writing any more, the folder is
//! read, the catalog says what follows, the sink gets it.

mod gate;
mod notice;
mod run;
mod settle;

use std::path::{Path, absolute};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::sys::eventfd::{EfdFlags, EventFd};
use sluice_model::Event;

use crate::error::SourceError;
use gate::Gate;
use run::Run;

/// A running watch. Dropping it ends the watch; the sink is not called any more after that.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

/// Watches a folder of manifests.
///
/// `sink` is called on the watch's own thread. Its first batch holds every object and every
/// problem and ends with [`Event::Synced`]. Each later batch is the whole consequence of one
/// settled change, so applying a batch as one keeps objects that moved between files.
///
/// A file counts once its writer has closed it or has been quiet for a second. What cannot be
/// read keeps its last good state: a file, a document, an object, the whole folder while it is
/// missing. [`Event::Problems`] say so, with the file name as origin (the folder's path for the
/// folder itself).
///
/// A change behind a symbolic link is noticed when the link is replaced, or a `..data` link as
/// in a ConfigMap volume; not when a file outside the folder is written in place.
///
/// # Errors
/// [`SourceError::Folder`] when the folder cannot be listed now, [`SourceError::Watch`] when
/// the kernel has no watch left.
pub fn watch(
    dir: impl AsRef<Path>,
    sink: impl FnMut(Vec<Event>) + Send + 'static,
) -> Result<Watch, SourceError> {
    let path = dir.as_ref().to_owned();
    let fail = |error| SourceError::Watch {
        path: path.clone(),
        error,
    };
    let dir = absolute(&path).map_err(fail)?;
    std::fs::read_dir(&dir).map_err(|error| SourceError::Folder {
        path: path.clone(),
        error,
    })?;
    let gate = Gate::open(&dir).map_err(fail)?;
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let stop = EventFd::from_flags(flags).map_err(|it| fail(it.into()))?;
    let stop = Arc::new(stop);
    let run = Run::new(dir, gate, stop.clone(), Box::new(sink));
    let thread = thread::Builder::new()
        .name("manifests".to_owned())
        .spawn(move || run.run())
        .map_err(fail)?;
    Ok(Watch {
        stop,
        thread: Some(thread),
    })
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
