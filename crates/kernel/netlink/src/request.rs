//! One request to the kernel, answered by an acknowledgement, one object or a list (a dump).

use nix::errno::Errno;

use crate::attr::AttrWriter;
use crate::message::{self, Head, Message, Messages};
use crate::socket::{Socket, SocketError};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The listed objects changed during the listing, so some may be missing from it. List again.
    #[error("{operation} {object}: changed while it was read")]
    Interrupted {
        /// The verb, as `list`.
        operation: &'static str,
        /// The name of the object.
        object: String,
    },
    /// The kernel refused the request.
    #[error("{operation} {object}: {}", reason(*errno, message.as_deref()))]
    Refused {
        /// The verb, as `list`.
        operation: &'static str,
        /// The name of the object.
        object: String,
        /// The kernel's error number; `ENOENT` when there is no such object.
        errno: Errno,
        /// The kernel's text, if it sent one.
        message: Option<String>,
    },
    /// The socket failed.
    #[error("{operation} {object}")]
    Socket {
        /// The verb, as `list`.
        operation: &'static str,
        /// The name of the object.
        object: String,
        /// The error of the socket.
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
    /// The reason alone, without operation and object.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Refused { errno, message, .. } => reason(*errno, message.as_deref()),
            Self::Interrupted { .. } | Self::Socket { .. } => self.to_string(),
        }
    }

    /// The kernel refused to add an object that is there already.
    #[must_use]
    pub fn already_exists(&self) -> bool {
        self.errno() == Some(Errno::EEXIST)
    }

    /// The kernel refused because the object, or the interface that it is about, is not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(
            self.errno(),
            Some(Errno::ENOENT | Errno::ENODEV | Errno::ESRCH | Errno::EADDRNOTAVAIL)
        )
    }

    /// The kernel's error number, when it refused.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            Self::Interrupted { .. } | Self::Socket { .. } => None,
        }
    }
}

/// Turns a refusal with this error number into `false`, and success into `true`.
///
/// # Errors
/// Any other error.
pub fn unless(expected: Errno, result: Result<(), RequestError>) -> Result<bool, RequestError> {
    match result {
        Err(error) if error.errno() == Some(expected) => Ok(false),
        result => result.map(|()| true),
    }
}

/// How often a listing is tried that others change meanwhile.
const ATTEMPTS: u32 = 20;

/// Repeats a listing while others change what it lists.
///
/// # Errors
/// Any other error of it, and [`RequestError::Interrupted`] after 20 listings.
pub fn uninterrupted<T>(
    mut list: impl FnMut() -> Result<T, RequestError>,
) -> Result<T, RequestError> {
    for _ in 1..ATTEMPTS {
        match list() {
            Err(RequestError::Interrupted { .. }) => {}
            listed => return listed,
        }
    }
    list()
}

/// A request, and how errors name it.
pub struct Request<'a> {
    operation: &'static str,
    object: &'a str,
    kind: u16,
    first: [u8; 4],
    attrs: AttrWriter,
}

impl<'a> Request<'a> {
    /// A request about an object of no family. `kind` is subsystem and message, and `put` writes
    /// what follows the first four bytes after `nlmsghdr`.
    pub fn new(
        operation: &'static str,
        object: &'a str,
        kind: u16,
        put: impl FnOnce(&mut AttrWriter),
    ) -> Self {
        let mut attrs = AttrWriter::new();
        put(&mut attrs);
        Self {
            operation,
            object,
            kind,
            first: [0; 4],
            attrs,
        }
    }

    /// Sets the family, `NFPROTO_*` or `AF_*`; with generic netlink the command.
    #[must_use]
    pub fn family(mut self, family: u8) -> Self {
        self.first[0] = family;
        self
    }

    /// Sets the first four bytes after `nlmsghdr`: family and three more, which differ by message.
    #[must_use]
    pub fn first(mut self, first: [u8; 4]) -> Self {
        self.first = first;
        self
    }

    /// Requests a list and shows every message of it to `visit`.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn dump(
        &self,
        socket: &mut Socket,
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        self.exchange(socket, message::DUMP, visit)
    }

    /// Requests a list, and returns the objects that `decode` reads: none of a message for which it returns `None`.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn list<T>(
        &self,
        socket: &mut Socket,
        decode: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, RequestError> {
        let mut list = Vec::new();
        self.dump(socket, &mut |message| list.extend(decode(message)))?;
        Ok(list)
    }

    /// Requests one object; `None` when the kernel refuses with this error number, or `decode` cannot read the object.
    ///
    /// # Errors
    /// [`RequestError::Refused`] and [`RequestError::Socket`].
    pub fn find<T>(
        &self,
        socket: &mut Socket,
        missing: Errno,
        decode: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Option<T>, RequestError> {
        let mut found = None;
        let asked = self.ask(socket, &mut |message| found = decode(message));
        unless(missing, asked).map(|_| found)
    }

    /// Requests one object or one change. Shows the answer to `visit`, unless it is an
    /// acknowledgement.
    ///
    /// # Errors
    /// [`RequestError::Refused`] and [`RequestError::Socket`].
    pub fn ask(
        &self,
        socket: &mut Socket,
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        self.exchange(socket, message::ACK, visit)
    }

    /// Sends the request with these `NLM_F_*`, of which [`message::ACK`] or [`message::DUMP`] must
    /// be one, and reads the answer to its end.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn exchange(
        &self,
        socket: &mut Socket,
        flags: u16,
        visit: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), RequestError> {
        drain(socket).map_err(|it| self.failed(it))?;
        let sequence = socket.next_sequences(1);
        let mut writer = AttrWriter::new();
        let head = Head {
            kind: self.kind,
            flags,
            first: self.first,
        };
        let start = message::begin(&mut writer, head, sequence);
        writer.append(&self.attrs);
        message::end(&mut writer, start);
        if writer.take_oversized() {
            return Err(self.refused(Errno::EMSGSIZE, None));
        }
        let sent = socket.send(&[writer.as_bytes()]);
        sent.map_err(|it| self.failed(it))?;
        let reason = socket.reasons();
        let mut interrupted = false;
        loop {
            let datagram = socket.receive().map_err(|it| self.failed(it))?;
            for message in Messages::new(datagram).filter(|it| it.sequence == sequence) {
                interrupted |= message.flags & message::DUMP_INTERRUPTED != 0;
                let Some(answer) = message.answer() else {
                    visit(&message);
                    continue;
                };
                return match answer.errno {
                    Some(errno) if errno != Errno::EINTR => {
                        Err(self.refused(errno, reason(answer)))
                    }
                    None if !interrupted => Ok(()),
                    _ => Err(RequestError::Interrupted {
                        operation: self.operation,
                        object: self.object.to_owned(),
                    }),
                };
            }
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

    /// The error of a socket that could not carry this request.
    pub fn failed(&self, source: SocketError) -> RequestError {
        RequestError::Socket {
            operation: self.operation,
            object: self.object.to_owned(),
            source,
        }
    }
}

/// Discards the rest of the answer to an earlier request. The kernel refuses a second dump until
/// the first one was read to its end.
///
/// # Errors
/// [`SocketError::Io`] and [`SocketError::Truncated`].
pub fn drain(socket: &mut Socket) -> Result<(), SocketError> {
    loop {
        match socket.try_receive() {
            Ok(Some(_)) | Err(SocketError::Overrun) => {}
            Ok(None) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
