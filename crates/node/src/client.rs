//! Client of a running agent's status socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The agent answers between two syncs, so a large sync delays the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The agent gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No agent listens on the socket.
    #[error("no agent at {0}: is `sluice proxy` running?")]
    Absent(String),
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
    let answer = exchange(&mut stream, path).map_err(|error| ask_failed(error.to_string()))?;
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

/// HTTP/1.0: the server closes the connection after one answer in one piece.
fn exchange(stream: &mut UnixStream, path: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: sluice\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
