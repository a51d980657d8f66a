//! Servers of a test, and a client of one that has just been started. The tests of the Service proxy share it.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use sluice_lab::eventually;

use super::MetricsServer;

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

/// A metrics server with a configuration and two flags.
pub(crate) fn metrics_server(address: SocketAddr) -> MetricsServer {
    MetricsServer {
        address,
        mode: "nftables",
        config: serde_json::json!({"kubeproxy.config.k8s.io": {"mode": "nftables"}}),
        flags: [("v", "2"), ("proxy-mode", "nftables")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        version: "0.1.0".to_owned(),
        set_verbosity: None,
    }
}
