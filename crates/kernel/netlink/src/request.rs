//! Questions to the kernel: one answer, or a dump.

use nix::errno::Errno;

use crate::attr::AttrWriter;
use crate::message::{self, Header, Message, Messages};
use crate::socket::{Socket, SocketError};

/// Why the kernel did not answer a question or do a single thing.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// What was listed changed meanwhile; what was seen so far may miss objects. Ask again.
    #[error("{operation} {object}: changed while it was read")]
    Interrupted {
        /// What was attempted.
        operation: &'static str,
        /// What it was attempted on.
        object: String,
    },
    /// The kernel refused.
    #[error("{operation} {object}: {}", reason(*errno, message.as_deref()))]
    Refused {
        /// What was attempted.
        operation: &'static str,
        /// What it was attempted on.
        object: String,
        /// The kernel's reason as a number; `ENOENT` when the object is not there.
        errno: Errno,
        /// The kernel's reason in words, if it has any.
        message: Option<String>,
    },
    /// The socket failed.
    #[error("{operation} {object}")]
    Socket {
        /// What was attempted.
        operation: &'static str,
        /// What it was attempted on.
        object: String,
        /// The socket's reason.
        source: SocketError,
    },
}

fn reason(errno: Errno, message: Option<&str>) -> String {
    match message {
        None => errno.desc().to_owned(),
        Some(words) if errno == Errno::UnknownErrno => words.to_owned(),
        Some(words) => format!("{} ({words})", errno.desc()),
    }
}

impl RequestError {
    /// Why, without saying of what.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Refused { errno, message, .. } => reason(*errno, message.as_deref()),
            Self::Interrupted { .. } | Self::Socket { .. } => self.to_string(),
        }
    }

    /// The kernel's reason as a number, when it refused.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            Self::Interrupted { .. } | Self::Socket { .. } => None,
        }
    }
}

/// A question, and how to name it in errors.
pub(crate) struct Request<'a> {
    pub(crate) operation: &'static str,
    pub(crate) object: &'a str,
    /// Subsystem and message.
    pub(crate) kind: u16,
    /// `NFPROTO_*`.
    pub(crate) family: u8,
    pub(crate) attrs: &'a dyn Fn(&mut AttrWriter),
}

impl<'a> Request<'a> {
    /// About an object of no family.
    pub(crate) fn of_no_family(
        operation: &'static str,
        object: &'a str,
        kind: u16,
        attrs: &'a dyn Fn(&mut AttrWriter),
    ) -> Self {
        Self {
            operation,
            object,
            kind,
            family: 0,
            attrs,
        }
    }

    /// Asks for a list and shows every message of it to `visit`.
    pub(crate) fn dump(
        &self,
        socket: &mut Socket,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        self.exchange(socket, buffer, message::DUMP, visit)
    }

    /// Asks for one thing, or to do one thing, and shows the answer, if it is more than an
    /// acknowledgement, to `visit`.
    pub(crate) fn ask(
        &self,
        socket: &mut Socket,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        self.exchange(socket, buffer, message::ACK, visit)
    }

    /// Asks with these `NLM_F_*`, of which [`message::ACK`] or [`message::DUMP`] must be one.
    pub(crate) fn exchange(
        &self,
        socket: &mut Socket,
        buffer: &mut Vec<u8>,
        flags: u16,
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        drain(socket, buffer).map_err(|it| self.failed(it))?;
        let sequence = socket.next_sequences(1);
        let mut writer = AttrWriter::new();
        let header = Header {
            kind: self.kind,
            flags,
            sequence,
            family: self.family,
            resource: 0,
        };
        let start = message::begin(&mut writer, header);
        (self.attrs)(&mut writer);
        message::end(&mut writer, start);
        if writer.take_oversized() {
            return Err(self.refused(Errno::EMSGSIZE, None));
        }
        socket
            .send(&[writer.as_bytes()])
            .map_err(|it| self.failed(it))?;
        let mut interrupted = false;
        loop {
            let datagram = socket.receive(buffer).map_err(|it| self.failed(it))?;
            for message in Messages::new(datagram).filter(|it| it.sequence == sequence) {
                interrupted |= message.flags & message::DUMP_INTERRUPTED != 0;
                match message.answer() {
                    None => visit(&message),
                    Some(answer) => {
                        return match answer.errno {
                            Some(Errno::EINTR) => Err(self.interrupted()),
                            Some(errno) => Err(self.refused(errno, answer.reason(self.kind))),
                            None if interrupted => Err(self.interrupted()),
                            None => Ok(()),
                        };
                    }
                }
            }
        }
    }

    fn interrupted(&self) -> RequestError {
        RequestError::Interrupted {
            operation: self.operation,
            object: self.object.to_owned(),
        }
    }

    fn refused(&self, errno: Errno, message: Option<String>) -> RequestError {
        RequestError::Refused {
            operation: self.operation,
            object: self.object.to_owned(),
            errno,
            message,
        }
    }

    pub(crate) fn failed(&self, source: SocketError) -> RequestError {
        RequestError::Socket {
            operation: self.operation,
            object: self.object.to_owned(),
            source,
        }
    }
}

/// Reads what an earlier question left; the kernel refuses a second dump before the first one was
/// read to its end.
pub(crate) fn drain(socket: &Socket, buffer: &mut Vec<u8>) -> Result<(), SocketError> {
    loop {
        match socket.try_receive(buffer) {
            Ok(Some(_)) | Err(SocketError::Overrun) => {}
            Ok(None) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
