//! A client of a server that has just been started.

use std::io::{self, Read, Write};
use std::time::Duration;

use sluice_lab::eventually;

/// How long an answer may take.
pub(crate) const WITHIN: Duration = Duration::from_secs(10);

/// Asks until there is an answer: servers start on another thread.
pub(crate) fn ask<S: Read + Write>(connect: impl Fn() -> io::Result<S>, path: &str) -> String {
    send(connect, &format!("GET {path}"), "")
}

/// Sends `METHOD path` with a body.
pub(crate) fn send<S: Read + Write>(
    connect: impl Fn() -> io::Result<S>,
    line: &str,
    body: &str,
) -> String {
    let length = body.len();
    let head = format!("{line} HTTP/1.0\r\nHost: node\r\nContent-Length: {length}\r\n\r\n");
    send_text(connect, &format!("{head}{body}"))
}

/// Sends a whole request.
pub(crate) fn send_text<S: Read + Write>(
    connect: impl Fn() -> io::Result<S>,
    request: &str,
) -> String {
    let mut stream = eventually(WITHIN, || connect().ok()).expect("a server");
    // A server that refuses the head may close before it has read the rest.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a whole answer");
    answer
}
