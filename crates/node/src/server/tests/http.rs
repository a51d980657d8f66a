//! A client of a server that has just been started.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

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
    let deadline = Instant::now() + WITHIN;
    let mut stream = loop {
        match connect() {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > deadline => panic!("no server: {error}"),
            Err(_) => thread::yield_now(),
        }
    };
    // A server that refuses the head may close before it has read the rest.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a whole answer");
    answer
}
