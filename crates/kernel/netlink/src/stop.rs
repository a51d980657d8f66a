//! Ends a wait from another thread.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::socket::{SocketError, io_error};

/// Ends the wait of a monitor from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    event: Arc<EventFd>,
}

impl Stopper {
    /// One that was not used yet.
    ///
    /// # Errors
    /// [`SocketError::Io`]: the kernel has no more files.
    pub fn new() -> Result<Self, SocketError> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_flags(flags).map_err(io_error("open event for"))?;
        Ok(Self {
            event: Arc::new(event),
        })
    }

    /// Makes every wait of the monitor return at once, now and later.
    pub fn stop(&self) {
        // Fails only when the counter is full, that is, when it is already stopped.
        let _ = self.event.write(1);
    }

    /// Whether [`stop`](Self::stop) was called. The event is never read, so it stays set.
    pub fn is_stopped(&self) -> bool {
        let mut fds = [PollFd::new(self.event.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|it| it > 0)
    }
}

impl AsFd for Stopper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
