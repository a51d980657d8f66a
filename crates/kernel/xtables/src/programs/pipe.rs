//! Our end of a pipe to a program.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Reads or writes until a moment. Who holds the other end may outlive the program.
pub(super) struct Pipe<T> {
    end: T,
    until: Instant,
}

impl<T: AsFd> Pipe<T> {
    /// # Errors
    ///
    /// The system does not let us use it without blocking.
    pub(super) fn new(end: T, until: Instant) -> io::Result<Self> {
        // The other end has flags of its own.
        fcntl(&end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { end, until })
    }

    fn when<R>(
        &mut self,
        ready: PollFlags,
        mut use_it: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.end.as_fd(), ready)], timeout) {
                Ok(0) | Err(Errno::EINTR) => continue,
                result => result?,
            };
            match use_it(&mut self.end) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

impl<T: AsFd + Read> Read for Pipe<T> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.when(PollFlags::POLLIN, |it| it.read(to))
    }
}

impl<T: AsFd + Write> Write for Pipe<T> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.when(PollFlags::POLLOUT, |it| it.write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end.flush()
    }
}
