//! Commits transactions.

use std::fmt;
use std::process;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::SockProtocol;

use sluice_netlink::message::{Answer, Messages};
use sluice_netlink::request;
use sluice_netlink::socket::{Socket, SocketError};
use sluice_reconcile::BackendError;

use super::batch::Batch;

/// Attempts to commit a transaction when the kernel asks for a retry.
const ATTEMPTS: usize = 10;

/// One refusal of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Tags of the refused objects: one when the kernel named the object, those of all elements of a
    /// message when it did not, none when it refused the transaction as a whole.
    pub tags: Vec<u32>,
    /// The kernel's error number.
    pub errno: Errno,
    /// The kernel's text; most refusals of `nf_tables` have none.
    pub message: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tags.as_slice() {
            [] => write!(f, "transaction")?,
            [tag] => write!(f, "object {tag}")?,
            [first, .., last] => write!(f, "one of objects {first} to {last}")?,
        }
        write!(f, ": {}", self.reason())
    }
}

impl Failure {
    /// The kernel's words.
    fn reason(&self) -> String {
        let words = self.errno.desc();
        match &self.message {
            Some(message) => format!("{words} ({message})"),
            None => words.to_owned(),
        }
    }
}

/// Why a commit failed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The kernel refused the transaction and changed nothing. There is at least one failure.
    #[error("commit nftables transaction: {}", summary(failures))]
    Refused {
        /// In the order of the batch.
        failures: Vec<Failure>,
    },
    /// The kernel did not answer, or its answer was lost: it is unknown whether it was applied.
    #[error("commit nftables transaction: no answer from the kernel")]
    Unanswered,
    /// The socket failed. After an error of the send nothing was applied.
    #[error("commit nftables transaction")]
    Socket(#[source] SocketError),
}

impl CommitError {
    /// Tags of the refused objects, in the order of the batch.
    pub fn tags(&self) -> impl Iterator<Item = u32> + '_ {
        let failures = match self {
            Self::Refused { failures } => &failures[..],
            Self::Unanswered | Self::Socket(_) => &[],
        };
        failures.iter().flat_map(|it| it.tags.iter().copied())
    }

    /// As the error of an operation on objects that its text names: it has the kernel's words, and no tags.
    #[must_use]
    pub fn of(self, operation: impl Into<String>) -> BackendError {
        BackendError {
            operation: operation.into(),
            reason: match &self {
                Self::Refused { failures } => {
                    let reasons: Vec<String> = failures.iter().map(Failure::reason).collect();
                    format!("kernel said: {}", reasons.join("; "))
                }
                other => other.to_string(),
            },
            source: Some(Box::new(self)),
        }
    }
}

fn summary(failures: &[Failure]) -> String {
    match failures {
        [] => String::new(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first}; and {} more", rest.len()),
    }
}

/// A transaction that the kernel answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Bytes of the transaction.
    pub sent: usize,
    /// Bytes of the answer.
    pub received: usize,
    /// Time from the send to the last byte of the answer.
    pub elapsed: Duration,
}

/// The function of [`Connection::on_exchange`].
struct Observer(Option<Box<dyn Fn(Exchange) + Send + Sync>>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").field(&self.0.is_some()).finish()
    }
}

/// A socket that commits transactions and lists objects.
#[derive(Debug)]
pub struct Connection {
    pub(super) socket: Socket,
    observer: Observer,
}

/// What a process writes with a socket of its own. The port id says so to a watch for changes by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Removes what an earlier program left.
    Leftovers = 1,
    /// Writes the rules of Services.
    Services = 2,
    /// Writes the rules of network policies.
    Policies = 3,
}

impl Purpose {
    pub const ALL: [Self; 3] = [Self::Leftovers, Self::Services, Self::Policies];

    /// The port id in this process; more than any process id (`PID_MAX_LIMIT`).
    #[must_use]
    pub fn port_id(self) -> u32 {
        process::id() + ((self as u32) << 22)
    }

    /// Connects to `nf_tables` of the calling thread's network namespace, by this port id if no other socket there has
    /// it.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn connect(self) -> Result<Connection, SocketError> {
        Connection::open_at(self.port_id()).or_else(|_| Connection::open())
    }
}

impl Connection {
    /// Connects to `nf_tables` of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        Self::open_at(0)
    }

    /// As [`open`](Self::open) with this port id, which a [`Monitor`](super::Monitor) can ignore before
    /// the connection exists. By itself the kernel chooses process ids, and numbers above 2³¹
    /// (`netlink_autobind`, `af_netlink.c`).
    ///
    /// # Errors
    /// [`SocketError::Io`], also when another socket has the port id.
    pub fn open_at(port_id: u32) -> Result<Self, SocketError> {
        Ok(Self {
            socket: Socket::bound(SockProtocol::NetlinkNetFilter, port_id, 0, &mut [])?,
            observer: Observer(None),
        })
    }

    /// Gives the socket the first free descriptor from this number on. A process that is killed closes its files one
    /// after the other, the highest descriptor first: the tables that this connection [owns](Batch::add_owned_table)
    /// are deleted before the files of lower descriptors are closed (`close_files`, fs/file.c, and `task_work_run`,
    /// kernel/task_work.c).
    ///
    /// # Errors
    /// [`SocketError::Io`]: the number is beyond the limit of this process, or no descriptor is free. The
    /// socket keeps its descriptor.
    pub fn renumber(&mut self, least: i32) -> Result<(), SocketError> {
        self.socket.renumber(least)
    }

    /// Calls this function after every later transaction, applied or refused.
    pub fn on_exchange(&mut self, observer: impl Fn(Exchange) + Send + Sync + 'static) {
        self.observer = Observer(Some(Box::new(observer)));
    }

    /// The port id that notices about this connection's changes carry, for
    /// [`super::Monitor::ignoring`].
    #[must_use]
    pub fn port_id(&self) -> u32 {
        self.socket.port_id()
    }

    /// The body of [`Kernel::commit`](super::kernel::Kernel::commit).
    pub(super) fn send(&mut self, batch: &Batch) -> Result<(), CommitError> {
        if batch.is_empty() {
            return Ok(());
        }
        if !batch.oversized().is_empty() {
            return Err(CommitError::Refused {
                failures: batch.oversized().iter().map(oversized).collect(),
            });
        }
        let mut attempt = 1;
        loop {
            let result = self.attempt(batch);
            match &result {
                Err(CommitError::Refused { failures })
                    if attempt < ATTEMPTS && failures.iter().all(is_transient) =>
                {
                    attempt += 1;
                }
                _ => return result,
            }
        }
    }

    /// Sends a batch once.
    fn attempt(&mut self, batch: &Batch) -> Result<(), CommitError> {
        request::drain(&mut self.socket).map_err(CommitError::Socket)?;
        // Enough for a few errors in each message of 60 kB. When a batch of rules has more errors than
        // fit, the later ones are lost.
        self.socket.grow_receive_buffer((1 << 20).max(batch.len()));
        let end = Batch::end();
        let parts = [batch.begin_and_changes(), end.as_bytes()];
        let start = Instant::now();
        self.socket.send(&parts).map_err(CommitError::Socket)?;
        let (answers, received) = self.answers()?;
        if let Some(observer) = &self.observer.0 {
            observer(Exchange {
                sent: parts.iter().map(|it| it.len()).sum(),
                received,
                elapsed: start.elapsed(),
            });
        }
        let failures: Vec<Failure> = answers.iter().filter_map(|it| failure(batch, it)).collect();
        match (failures.is_empty(), answers.is_empty()) {
            (false, _) => Err(CommitError::Refused { failures }),
            (true, true) => Err(CommitError::Unanswered),
            (true, false) => Ok(()),
        }
    }

    /// All answers of the kernel, and their length in bytes. The kernel has queued them when the send returns.
    fn answers(&mut self) -> Result<(Vec<Answer>, usize), CommitError> {
        let mut answers = Vec::new();
        let mut bytes = 0;
        loop {
            match self.socket.try_receive() {
                Ok(Some(datagram)) => {
                    bytes += datagram.len();
                    answers.extend(Messages::new(datagram).filter_map(|it| it.answer()));
                }
                Ok(None) => return Ok((answers, bytes)),
                // The kernel sends errors in order and success last, so the lost ones are later errors.
                Err(SocketError::Overrun) => {}
                Err(error) => return Err(CommitError::Socket(error)),
            }
        }
    }
}

fn failure(batch: &Batch, answer: &Answer) -> Option<Failure> {
    let errno = answer.errno?;
    Some(Failure {
        tags: batch.refused(answer),
        errno,
        message: answer.message.clone(),
    })
}

fn oversized(tag: &u32) -> Failure {
    Failure {
        tags: vec![*tag],
        errno: Errno::EMSGSIZE,
        message: Some("longer than a netlink attribute".to_owned()),
    }
}

/// Whether a retry can help: the kernel loaded a module, another transaction came in between, or a
/// signal arrived.
fn is_transient(failure: &Failure) -> bool {
    failure.tags.is_empty()
        && matches!(
            failure.errno,
            Errno::EAGAIN | Errno::EINTR | Errno::ERESTART
        )
}
