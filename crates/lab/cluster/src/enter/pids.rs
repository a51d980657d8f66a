//! The pid namespace of a process that is started. It belongs to the thread that starts it.

use std::fs::File;
use std::io;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use super::Inside;
use crate::process::Identity;

/// Where a process is started.
#[derive(Clone, Debug)]
pub(crate) enum Pids {
    /// Among the processes of this one.
    Same,
    /// As process 1 of a new namespace.
    New,
    /// Among those of a container.
    Of(Identity),
}

impl Pids {
    /// Where the processes of a container belong.
    pub(crate) fn of(inside: &Inside) -> Self {
        let process = inside.process.clone().filter(Identity::is_running);
        match (&inside.confined, process) {
            (None, _) => Self::Same,
            (Some(_), None) => Self::New,
            (Some(_), Some(process)) => Self::Of(process),
        }
    }

    /// Decides for the processes that this thread starts from now on. The thread can start no other thread afterwards.
    pub(crate) fn enter(&self) -> io::Result<()> {
        match self {
            Self::Same => {}
            Self::New => unshare(CloneFlags::CLONE_NEWPID)?,
            Self::Of(process) => {
                let file = File::open(format!("/proc/{}/ns/pid", process.pid()))?;
                setns(file, CloneFlags::CLONE_NEWPID)?;
            }
        }
        Ok(())
    }

    /// Starts a process there, on a thread of its own.
    pub(crate) fn spawn<T: Send>(
        &self,
        spawn: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        if matches!(self, Self::Same) {
            return spawn();
        }
        thread::scope(|scope| {
            let thread = scope.spawn(|| self.enter().and_then(|()| spawn()));
            thread
                .join()
                .unwrap_or_else(|it| std::panic::resume_unwind(it))
        })
    }
}
