//! Client of a running agent's status socket.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The agent answers between two syncs, so a large sync delays the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// After this time without an answer the thread of the agent's servers is asked whether it lives. It answers `/status`
/// sooner, whatever the agent does.
const QUIET: Duration = Duration::from_millis(1200);
/// How long that thread has for a path which it does not know.
const LIFE: Duration = Duration::from_millis(400);

/// The agent gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No agent listens on the socket.
    #[error("no agent at {0}: is `sluice proxy` running?")]
    Absent(String),
    /// A process listens on the socket and does not answer.
    #[error("the agent at {socket} does not answer: {process}")]
    Silent {
        /// Path of the socket.
        socket: String,
        /// The process that listens.
        process: Peer,
    },
    /// The agent does not know the object of the question; one line.
    #[error("{0}")]
    Unclear(String),
    /// The socket cannot be used, the agent refused, or its answer is malformed.
    #[error("{operation} at {socket}: {problem}")]
    Failed {
        /// The operation that failed.
        operation: &'static str,
        /// Path of the socket.
        socket: String,
        /// Why there is no answer, in one line.
        problem: String,
    },
}

/// The process that listens on a socket. Displays as what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// `None` in a PID namespace that does not have it.
    pub pid: Option<u32>,
    /// A signal has stopped it.
    pub is_stopped: bool,
}

impl Peer {
    fn of(stream: &UnixStream) -> Self {
        let credentials = getsockopt(stream, PeerCredentials).ok();
        let pid = credentials.and_then(|it| u32::try_from(it.pid()).ok());
        let pid = pid.filter(|it| *it != 0);
        let state =
            pid.and_then(|it| state_of(&fs::read_to_string(format!("/proc/{it}/stat")).ok()?));
        Self {
            pid,
            is_stopped: state.is_some_and(|it| "Tt".contains(it)),
        }
    }

    /// The command that makes it answer, or shows why it does not.
    #[must_use]
    pub fn mend(&self) -> String {
        match self.pid {
            Some(pid) if self.is_stopped => format!("kill -CONT {pid}"),
            Some(pid) => format!(
                "its log; cat /proc/{pid}/wchan /proc/{pid}/stack; then kill -KILL {pid} and start it again: the rules stay"
            ),
            None => "restart it: the rules stay meanwhile".to_owned(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self
            .pid
            .map(|it| format!(" (pid {it})"))
            .unwrap_or_default();
        let state = if self.is_stopped {
            "is stopped, by SIGSTOP or a debugger"
        } else {
            "hangs, or gets no processor"
        };
        write!(f, "its process exists{pid} and {state}")
    }
}

/// The state of a process: the letter behind its name in `/proc/PID/stat` (`proc_pid_stat(5)`). A name may have blanks and
/// brackets.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The process of the agent behind this socket, where it is in another network namespace than the calling thread. `None`
/// also when that cannot be known.
#[must_use]
pub fn in_other_namespace(socket: &Path) -> Option<u32> {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let pid = Peer::of(&UnixStream::connect(socket).ok()?).pid?;
    (namespace(&pid.to_string())? != namespace("thread-self")?).then_some(pid)
}

/// The agent's answer to a question on its status socket, with the pairs of its query: `/explain`, `/services`,
/// `/service`.
///
/// # Errors
///
/// Any [`ClientError`].
pub fn ask<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    query: &[(&str, &str)],
) -> Result<T, ClientError> {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query)
        .finish();
    get(socket, &format!("{path}?{query}"))
}

/// The agent's answer to `GET path` on its status socket: `/status`, `/connections`.
///
/// # Errors
///
/// Any [`ClientError`].
pub fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    let name = || socket.display().to_string();
    let failed = |operation, problem: String| ClientError::Failed {
        operation,
        socket: name(),
        problem,
    };
    let ask_failed = |problem| failed("ask the agent", problem);
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::Absent(name()),
        _ => failed("connect to the agent", error.to_string()),
    })?;
    let answer = match exchange(&mut stream, path, || is_alive(socket)) {
        Ok(answer) => answer,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(ClientError::Silent {
                socket: name(),
                process: Peer::of(&stream),
            });
        }
        Err(error) => return Err(ask_failed(error.to_string())),
    };
    let parts = answer.split_once("\r\n\r\n");
    let (head, body) = parts.ok_or_else(|| ask_failed("no answer".to_owned()))?;
    match head.split(' ').nth(1) {
        Some("200") => {}
        Some("400") => return Err(ClientError::Unclear(body.trim().to_owned())),
        Some("404") if body.starts_with("404") || body.is_empty() => {
            return Err(ask_failed(format!(
                "it knows no {path}: it is an older version"
            )));
        }
        _ => return Err(ask_failed(body.trim().to_owned())),
    }
    serde_json::from_str(body).map_err(|error| ask_failed(error.to_string()))
}

/// Whether the agent behind this socket has written the whole cluster state to the kernel.
pub fn is_synced(socket: &Path) -> bool {
    #[derive(Deserialize)]
    struct Synced {
        synced: bool,
    }
    get::<Synced>(socket, "/status").is_ok_and(|it| it.synced)
}

/// Whether the thread of the agent's servers answers.
fn is_alive(socket: &Path) -> bool {
    let ask = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(LIFE))?;
        request(&mut stream, "/")?;
        stream.read(&mut [0])
    };
    ask().is_ok()
}

/// HTTP/1.0: the server closes the connection after one answer in one piece. `is_alive` is asked when the answer takes
/// long.
fn exchange(
    stream: &mut UnixStream,
    path: &str,
    is_alive: impl Fn() -> bool,
) -> io::Result<String> {
    stream.set_read_timeout(Some(QUIET))?;
    request(stream, path)?;
    let mut answer = Vec::new();
    let mut first = [0];
    let length = match stream.read(&mut first) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && is_alive() => {
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            stream.read(&mut first)?
        }
        read => read?,
    };
    answer.extend(&first[..length]);
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.read_to_end(&mut answer)?;
    String::from_utf8(answer).map_err(io::Error::other)
}

fn request(stream: &mut UnixStream, path: &str) -> io::Result<()> {
    let request = format!("GET {path} HTTP/1.0\r\nHost: sluice\r\n\r\n");
    stream.write_all(request.as_bytes())
}

#[cfg(test)]
mod tests;
