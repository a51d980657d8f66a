//! Messages that the kernel sends without being asked.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;

use crate::message::{Message, Messages};
use crate::socket::{Socket, SocketError};

/// The notices of the multicast groups of a socket.
#[derive(Debug)]
pub struct Notices<T> {
    socket: Socket,
    decode: fn(&Message<'_>) -> Option<T>,
    pending: VecDeque<T>,
}

impl<T> Notices<T> {
    /// The kernel keeps at most `queue` bytes of unread notices. Messages for which `decode` returns `None` are left
    /// out.
    pub fn new(socket: Socket, queue: usize, decode: fn(&Message<'_>) -> Option<T>) -> Self {
        socket.grow_receive_buffer(queue);
        Self {
            socket,
            decode,
            pending: VecDeque::new(),
        }
    }

    /// Waits for the next notice; `None` at the deadline. Without a deadline it waits for ever.
    ///
    /// # Errors
    /// Any [`SocketError`]; after [`SocketError::Overrun`] some notices are lost, and later ones still come.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Result<Option<T>, SocketError> {
        loop {
            if let Some(notice) = self.pending.pop_front() {
                return Ok(Some(notice));
            }
            if let Some(datagram) = self.socket.try_receive()? {
                let notices = Messages::new(datagram).filter_map(|it| (self.decode)(&it));
                self.pending.extend(notices);
                continue;
            }
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            // At least one millisecond, so that a shorter rest is not a busy loop. A long one is cut to 24 days.
            let timeout = left.map_or(PollTimeout::NONE, |it| {
                let left = it.max(Duration::from_millis(1));
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            });
            self.socket.wait(None, timeout)?;
        }
    }
}
