//! One file, by whatever way it changes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use tracing::error;

/// After the last change: an editor's or a kubelet's work is then done.
const QUIET: Duration = Duration::from_millis(200);

/// The longest that a writer who never rests is waited for.
const MAX_HOLD: Duration = Duration::from_secs(5);

/// How often a path whose folder is missing is looked at: the only time there is polling.
const MISSING_RETRY: Duration = Duration::from_secs(1);

/// Links that are followed in a path, as the kernel does.
const MAX_LINKS: usize = 40;

/// A running watch; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Calls `changed` on a thread of its own, soon and then each time the bytes behind the path
    /// are others and have been for a moment; a file that vanishes or comes back counts, too.
    pub(super) fn start(path: &Path, changed: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let path = absolute(path)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let stop = Arc::new(EventFd::from_flags(flags)?);
        let run = Run {
            places: Places::watch(&path)?,
            bytes: None,
            path,
            stop: stop.clone(),
            changed,
        };
        let thread = thread::Builder::new().name("config".to_owned());
        let thread = thread.spawn(move || run.run())?;
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
            // A panic has been reported on its own thread.
            let _ = thread.join();
        }
    }
}

/// Everything the thread owns.
struct Run<F> {
    path: PathBuf,
    places: Places,
    /// As last seen, `None` before the first look; inside, `None` when it could not be read.
    bytes: Option<Option<Vec<u8>>>,
    stop: Arc<EventFd>,
    changed: F,
}

impl<F: FnMut()> Run<F> {
    fn run(mut self) {
        if let Err(error) = self.follow() {
            let path = self.path.display();
            error!(%path, %error, "the configuration is not watched any more");
        }
    }

    fn follow(&mut self) -> io::Result<()> {
        // The file may have changed since the program read it and before it was watched.
        let mut pending = Some((Instant::now(), Instant::now()));
        loop {
            let due = pending.map(|(first, last)| (last + QUIET).min(first + MAX_HOLD));
            let timeout = due.map(|it| it.saturating_duration_since(Instant::now()));
            let timeout = timeout.or_else(|| (!self.places.is_complete).then_some(MISSING_RETRY));
            if !self.wait(timeout)? {
                return Ok(());
            }
            let now = Instant::now();
            let is_retry = !self.places.is_complete && pending.is_none();
            if self.places.drain()? || is_retry {
                let first = pending.map_or(now, |(first, _)| first);
                pending = Some((first, now));
                // Links may lead elsewhere now: the new places are watched before they are read.
                self.places = Places::watch(&self.path)?;
            }
            if pending.is_some_and(|(first, last)| now >= (last + QUIET).min(first + MAX_HOLD)) {
                pending = None;
                self.look();
            }
        }
    }

    /// Waits for the kernel, the time, or the end (false).
    fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        // One millisecond more, because poll cuts: it must not wake just before the time.
        let timeout = timeout.map_or(PollTimeout::NONE, |it| {
            PollTimeout::try_from(it + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let stop = PollFd::new(self.stop.as_fd(), PollFlags::POLLIN);
        let kernel = PollFd::new(self.places.inotify.as_fd(), PollFlags::POLLIN);
        let mut fds = [stop, kernel];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(!fds[0].any().unwrap_or(true)),
            Err(error) => Err(error.into()),
        }
    }

    fn look(&mut self) {
        let bytes = Some(fs::read(&self.path).ok());
        if bytes != self.bytes {
            self.bytes = bytes;
            (self.changed)();
        }
    }
}

/// The folders through which the path leads to its file, each with the names that matter in it.
struct Places {
    inotify: Inotify,
    names: BTreeMap<WatchDescriptor, Vec<OsString>>,
    /// Every folder on the way is there.
    is_complete: bool,
}

impl Places {
    fn watch(path: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let mask = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let (mut names, mut is_complete) = (BTreeMap::new(), true);
        for (folder, name) in way(path) {
            match inotify.add_watch(&folder, mask) {
                Ok(watch) => names.entry(watch).or_insert_with(Vec::new).push(name),
                Err(Errno::ENOSPC) => return Err(Errno::ENOSPC.into()),
                Err(_) => is_complete = false,
            }
        }
        Ok(Self {
            inotify,
            names,
            is_complete,
        })
    }

    /// Whether something happened to a name on the way; never waits.
    fn drain(&self) -> io::Result<bool> {
        let mut is_ours = false;
        loop {
            match self.inotify.read_events() {
                Ok(events) => {
                    is_ours |= events.iter().any(|event| match &event.name {
                        Some(name) => self
                            .names
                            .get(&event.wd)
                            .is_some_and(|it| it.contains(name)),
                        // The folder itself, or more than the kernel could hold.
                        None => true,
                    });
                }
                Err(Errno::EAGAIN) => return Ok(is_ours),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Every folder whose entry decides where the path leads, with that entry: of the file, of each
/// folder above it that is a link, and of what the links lead to. The entries of a folder that is
/// no link are watched by the folder itself.
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
