//! Descriptors of pipes and terminals for tokio, whose handles of pipes do no more than read(2), write(2) and poll.

use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use futures::stream;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use sluice_streams::{Output, PIECE};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};

/// What a descriptor gives, until its end. For a task of tokio.
///
/// # Errors
///
/// The descriptor cannot be polled.
pub(crate) fn output(descriptor: OwnedFd) -> io::Result<Output> {
    make_nonblocking(&descriptor)?;
    let receiver = Receiver::from_owned_fd_unchecked(descriptor)?;
    let pieces = stream::unfold((receiver, vec![0; PIECE]), |(mut from, mut piece)| async {
        // A terminal that no process has open any more gives EIO.
        let length = from.read(&mut piece).await.ok()?;
        let bytes = Bytes::copy_from_slice(&piece[..length]);
        (length > 0).then_some((bytes, (from, piece)))
    });
    Ok(Box::pin(pieces))
}

/// A descriptor that is written to; its drop closes it. For a task of tokio.
///
/// # Errors
///
/// The descriptor cannot be polled.
pub(crate) fn input(descriptor: OwnedFd) -> io::Result<Sender> {
    make_nonblocking(&descriptor)?;
    Sender::from_owned_fd_unchecked(descriptor)
}

fn make_nonblocking(descriptor: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(descriptor, FcntlArg::F_GETFL)?);
    fcntl(descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
