//! Many changes or questions with few system calls.
//!
//! `netlink_rcv_skb` (`af_netlink.c`) walks the messages of a datagram one after the other, and a
//! refusal of one does not touch the others. It reports each refusal. The acknowledgement of the last
//! message means that it made all others before.

use nix::errno::Errno;

use crate::attr::AttrWriter;
use crate::message::{self, Head, Message, Messages};
use crate::request::{self, RequestError};
use crate::socket::{Socket, SocketError};

/// Messages of one datagram. A refusal takes about a kilobyte of the receive queue, so all of them
/// fit into [`QUEUE`].
const MESSAGES: usize = 512;

/// Most kernel memory for unread answers in bytes.
const QUEUE: usize = 1 << 20;

/// A change that the kernel refused. The others were made.
#[derive(Debug)]
pub struct Failure {
    /// Index of the change in the list of the caller.
    pub index: usize,
    /// The refusal.
    pub error: RequestError,
}

/// Changes or questions that do not hang together, sent in their order.
pub struct Bulk<'a, T> {
    /// The changes or questions.
    pub changes: &'a [T],
    /// Operation and object, for errors.
    pub name: &'a dyn Fn(&T) -> (&'static str, String),
    /// The header of its message.
    pub head: &'a dyn Fn(&T) -> Head,
    /// Writes what follows the header.
    pub attrs: &'a dyn Fn(&T, &mut AttrWriter),
    /// Whether an error means that nothing had to be changed.
    pub is_done: &'a dyn Fn(&T, Errno) -> bool,
}

impl<T> Bulk<'_, T> {
    /// Makes all changes that the kernel does not refuse, and returns the refused ones in order.
    ///
    /// # Errors
    /// It is about the socket. It is unknown whether the change that it names and later ones
    /// were made.
    pub fn apply(&self, socket: &mut Socket) -> Result<Vec<Failure>, RequestError> {
        self.ask(socket, &mut |_| {})
    }

    /// As [`apply`](Self::apply); calls `visit` with every answer that is no acknowledgement.
    ///
    /// # Errors
    /// As of `apply`.
    pub fn ask(
        &self,
        socket: &mut Socket,
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<Vec<Failure>, RequestError> {
        let mut failures = Vec::new();
        if self.changes.len() > 1 {
            socket.grow_receive_buffer(QUEUE);
        }
        for (number, chunk) in self.changes.chunks(MESSAGES).enumerate() {
            let start = number * MESSAGES;
            let sent = self.send(socket, chunk, visit);
            failures.extend(sent?.into_iter().map(|(at, error)| Failure {
                index: start + at,
                error,
            }));
        }
        Ok(failures)
    }

    fn send(
        &self,
        socket: &mut Socket,
        chunk: &[T],
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<Vec<(usize, RequestError)>, RequestError> {
        let failed = |source| self.failed(&chunk[0], source);
        request::drain(socket).map_err(failed)?;
        let first = socket.next_sequences(chunk.len());
        let mut refused = Vec::new();
        let mut writer = AttrWriter::new();
        let mut last = None;
        for ((at, change), sequence) in chunk.iter().enumerate().zip(first..) {
            let head = (self.head)(change);
            let start = message::begin(&mut writer, head, sequence);
            (self.attrs)(change, &mut writer);
            message::end(&mut writer, start);
            if writer.take_oversized() {
                writer.truncate(start);
                refused.push((at, self.refused(change, Errno::EMSGSIZE, None)));
            } else {
                last = Some((at, start, head.flags));
            }
        }
        let Some((last, start, flags)) = last else {
            return Ok(refused);
        };
        message::set_flags(&mut writer, start, flags | message::ACK);
        socket.send(&[writer.as_bytes()]).map_err(failed)?;
        let reason = socket.reasons();
        let mut is_answered = false;
        // The answers are there when the send returns.
        while let Some(datagram) = socket.try_receive().map_err(failed)? {
            for message in Messages::new(datagram) {
                let Some(answer) = message.answer() else {
                    visit(&message);
                    continue;
                };
                let at = usize::try_from(answer.sequence.wrapping_sub(first)).ok();
                let Some((at, change)) = at.and_then(|it| Some((it, chunk.get(it)?))) else {
                    continue;
                };
                is_answered |= at == last;
                if let Some(errno) = answer.errno.filter(|it| !(self.is_done)(change, *it)) {
                    refused.push((at, self.refused(change, errno, reason(answer))));
                }
            }
        }
        refused.sort_by_key(|(at, _)| *at);
        match (is_answered, refused.is_empty()) {
            (true, _) => Ok(refused),
            // Without the privilege `nfnetlink_rcv` refuses the datagram at its first message.
            (false, false) => Err(refused.swap_remove(0).1),
            (false, true) => Err(failed(SocketError::Io {
                operation: "receive from",
                source: Errno::EAGAIN.into(),
            })),
        }
    }

    fn refused(&self, change: &T, errno: Errno, message: Option<String>) -> RequestError {
        let (operation, object) = (self.name)(change);
        RequestError::Refused {
            operation,
            object,
            errno,
            message,
        }
    }

    fn failed(&self, change: &T, source: SocketError) -> RequestError {
        let (operation, object) = (self.name)(change);
        RequestError::Socket {
            operation,
            object,
            source,
        }
    }
}
