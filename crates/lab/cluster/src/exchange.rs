//! One request over HTTP on a connection of its own, as probes make it.

use std::io::{self, Read, Write};

/// Most bytes of an answer that are read.
const LARGEST: u64 = 64 * 1024;

/// The answer of a server.
pub(crate) struct Answer {
    /// The word after the version, which should be a number.
    pub(crate) status: String,
    pub(crate) body: String,
    /// Why the connection did not end as it should.
    pub(crate) broken: Option<io::Error>,
}

/// Asks for a path with these headers, and reads the answer until the server closes.
pub(crate) fn exchange(
    mut connection: impl Read + Write,
    path: &str,
    headers: &[(String, String)],
) -> io::Result<Answer> {
    let mut text = format!("GET {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "Connection: close\r\n\r\n";
    connection.write_all(text.as_bytes())?;
    connection.flush()?;
    let mut answer = Vec::new();
    let broken = connection.take(LARGEST).read_to_end(&mut answer).err();
    let answer = String::from_utf8_lossy(&answer);
    let parts = answer.split_once("\r\n\r\n");
    let parts = parts.and_then(|(head, body)| Some((head.split_whitespace().nth(1)?, body)));
    match (parts, broken) {
        (Some((status, body)), broken) => Ok(Answer {
            status: status.to_owned(),
            body: body.to_owned(),
            broken,
        }),
        (None, Some(error)) => Err(error),
        (None, None) => Err(no_answer()),
    }
}

/// The server closed before it had answered.
pub(crate) fn no_answer() -> io::Error {
    io::Error::other("closed before an answer")
}
