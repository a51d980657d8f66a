//! Containers with `stdin` or `tty`: what `kubectl attach` writes to. What they write is in their logs, as of all
//! containers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeReader, Write as _, pipe};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use k8s_openapi::api::core::v1::Container as Spec;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sluice_streams::PIECE;
use tokio::sync::watch;

use crate::enter::Pids;
use crate::terminal::Terminal;

/// The console of one run of a container. It ends with the lab's server: the container's input ends then, and its terminal
/// hangs up.
#[derive(Debug)]
pub(crate) struct Console {
    /// Our end of the terminal or of the input; `None` after the end of the input.
    input: Mutex<Option<OwnedFd>>,
    pub(crate) is_terminal: bool,
    /// Whether the input ends with the first client that attaches to it.
    once: bool,
    was_attached: AtomicBool,
    /// Bytes of the log that clients have read before anybody attached: `kubectl run` does since 1.36.
    seen: AtomicU64,
    /// Tells that a terminal has written.
    written: watch::Receiver<()>,
}

/// What the process of a container with a console starts with.
#[derive(Debug)]
pub(crate) struct Streams {
    kind: Kind,
    written: watch::Sender<()>,
}

#[derive(Debug)]
enum Kind {
    Terminal(Terminal),
    Pipe(PipeReader),
}

impl Console {
    /// The console of a container that asks for one.
    pub(crate) fn open(spec: &Spec) -> io::Result<Option<(Self, Streams)>> {
        let has = |it: Option<bool>| it == Some(true);
        let (kind, input) = match (has(spec.tty), has(spec.stdin)) {
            (true, _) => {
                let terminal = Terminal::open()?;
                let ours = terminal.ours.try_clone()?;
                (Kind::Terminal(terminal), ours)
            }
            (false, true) => {
                let (reader, writer) = pipe()?;
                (Kind::Pipe(reader), writer.into())
            }
            (false, false) => return Ok(None),
        };
        let (sender, written) = watch::channel(());
        let console = Self {
            input: Mutex::new(Some(input)),
            is_terminal: matches!(kind, Kind::Terminal(_)),
            once: has(spec.stdin_once),
            was_attached: AtomicBool::new(false),
            seen: AtomicU64::new(0),
            written,
        };
        let streams = Streams {
            kind,
            written: sender,
        };
        Ok(Some((console, streams)))
    }

    /// A client attaches. Returns the offset in the log from which the first one reads.
    pub(crate) fn attach(&self) -> Option<u64> {
        let is_first = !self.was_attached.swap(true, Ordering::Relaxed);
        is_first.then(|| self.seen.load(Ordering::Relaxed))
    }

    /// Whether no client has attached yet.
    pub(crate) fn is_new(&self) -> bool {
        !self.was_attached.load(Ordering::Relaxed)
    }

    /// A client has read the log so far.
    pub(crate) fn seen(&self, end: u64) {
        self.seen.fetch_max(end, Ordering::Relaxed);
    }

    /// A descriptor to write to; `None` after the end of the input.
    pub(crate) fn input(&self) -> io::Result<Option<OwnedFd>> {
        let input = lock(&self.input);
        input.as_ref().map(OwnedFd::try_clone).transpose()
    }

    /// A client writes no more to the input.
    pub(crate) fn detach(&self) {
        if self.once && !self.is_terminal {
            *lock(&self.input) = None;
        }
    }

    pub(crate) fn written(&self) -> watch::Receiver<()> {
        self.written.clone()
    }
}

impl Streams {
    /// The path of the terminal.
    pub(crate) fn terminal(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Terminal(it) => Some(&it.path),
            Kind::Pipe(_) => None,
        }
    }

    /// Starts the process. Its output goes to the log.
    pub(crate) fn spawn(self, mut command: Command, log: File, pids: &Pids) -> io::Result<Child> {
        match self.kind {
            Kind::Pipe(input) => {
                let errors = log.try_clone()?;
                command.stdin(input).stdout(log).stderr(errors);
                pids.spawn(|| command.process_group(0).spawn())
            }
            Kind::Terminal(terminal) => {
                let (child, ours) = pids.spawn(|| terminal.spawn(command))?;
                thread::spawn(move || copy(&ours, &log, &self.written));
                Ok(child)
            }
        }
    }
}

/// Copies what a terminal's program writes to the log, until no process has the terminal open.
fn copy(from: &OwnedFd, mut to: &File, written: &watch::Sender<()>) {
    let mut piece = vec![0; PIECE];
    loop {
        let mut polled = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
        match nix::unistd::read(from, &mut piece) {
            Ok(length @ 1..) => {
                // A full disk loses it: the program goes on.
                let _ = to.write_all(&piece[..length]);
                written.send_replace(());
            }
            // Clients have made the descriptor non-blocking.
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// The consoles of all containers.
#[derive(Debug, Default)]
pub(crate) struct Consoles(Mutex<BTreeMap<(String, String), Arc<Console>>>);

impl Consoles {
    /// A container of the pod `uid` has started.
    pub(crate) fn set(&self, uid: &str, container: &str, console: Option<Console>) {
        let key = (uid.to_owned(), container.to_owned());
        let mut all = lock(&self.0);
        match console {
            Some(it) => drop(all.insert(key, Arc::new(it))),
            None => drop(all.remove(&key)),
        }
    }

    pub(crate) fn get(&self, uid: &str, container: &str) -> Option<Arc<Console>> {
        let key = (uid.to_owned(), container.to_owned());
        lock(&self.0).get(&key).cloned()
    }

    /// The pod `uid` is gone.
    pub(crate) fn remove(&self, uid: &str) {
        lock(&self.0).retain(|(it, _), _| it != uid);
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().expect("nobody panics with a console")
}
