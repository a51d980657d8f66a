//! Asks a running agent over its status socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::status::Status;

/// An agent in the middle of a large sync answers after it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The agent gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens on the socket.
    #[error("no agent at {0}: is `sluice proxy` running?")]
    Absent(String),
    /// The socket cannot be used, or the answer did not come.
    #[error("{operation} at {socket}: {source}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The socket.
        socket: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The agent refused, or its answer is not of the expected form.
    #[error("ask the agent at {socket}: {problem}")]
    Answer {
        /// The socket.
        socket: String,
        /// What is wrong with the answer.
        problem: String,
    },
}

/// What the agent behind this socket answers to `GET path`: `/status`, `/connections`.
///
/// # Errors
///
/// [`ClientError`].
pub fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    let name = || socket.display().to_string();
    let mut stream = UnixStream::connect(socket).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::Absent(name()),
        _ => ClientError::Io {
            operation: "connect to the agent",
            socket: name(),
            source,
        },
    })?;
    let answer = exchange(&mut stream, path).map_err(|source| ClientError::Io {
        operation: "ask the agent",
        socket: name(),
        source,
    })?;
    let wrong = |problem: String| ClientError::Answer {
        socket: name(),
        problem,
    };
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| wrong("no answer".into()))?;
    if head.split(' ').nth(1) != Some("200") {
        return Err(wrong(body.trim().to_owned()));
    }
    serde_json::from_str(body).map_err(|error| wrong(error.to_string()))
}

/// Whether the agent behind this socket has written everything that it was told.
pub fn is_synced(socket: &Path) -> bool {
    get::<Status>(socket, "/status").is_ok_and(|it| it.synced)
}

/// HTTP/1.0: the server closes the connection after one answer in one piece.
fn exchange(stream: &mut UnixStream, path: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: sluice\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
