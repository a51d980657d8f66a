//! Ending a wait from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::socket::SocketError;

/// What a waiting thread listens to beside its socket.
#[derive(Debug)]
pub(crate) struct Stop {
    event: Arc<EventFd>,
}

impl Stop {
    pub(crate) fn new() -> Result<Self, SocketError> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_flags(flags).map_err(open_error)?;
        Ok(Self {
            event: Arc::new(event),
        })
    }

    pub(crate) fn stopper(&self) -> Stopper {
        Stopper {
            event: Arc::clone(&self.event),
        }
    }

    /// The event is never read, so it stays on.
    pub(crate) fn is_stopped(&self) -> bool {
        let mut fds = [PollFd::new(self.event.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|it| it > 0)
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Ends the wait of a monitor from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    event: Arc<EventFd>,
}

impl Stopper {
    /// Makes every wait of the monitor return at once, from now on.
    pub fn stop(&self) {
        // Fails only when the counter is full, that is, when it is already stopped.
        let _ = self.event.write(1);
    }
}

fn open_error(errno: Errno) -> SocketError {
    SocketError::Io {
        operation: "open event for",
        source: io::Error::from(errno),
    }
}
