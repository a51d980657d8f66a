//! A client that reads all objects and discards them: the time of the transfer alone.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;

/// The two large lists, as a streaming list.
const PATHS: [&str; 2] = [
    "/api/v1/services",
    "/apis/discovery.k8s.io/v1/endpointslices",
];

/// Reads both lists at the same time, as the agent does; returns the bytes and the duration.
pub(super) fn read_all(server: SocketAddr) -> anyhow::Result<(usize, Duration)> {
    let started = Instant::now();
    let bytes = std::thread::scope(|scope| {
        let readers = PATHS.map(|path| scope.spawn(move || read(server, path)));
        let mut bytes = 0;
        for reader in readers {
            bytes += reader.join().ok().context("a reader panicked")??;
        }
        anyhow::Ok(bytes)
    })?;
    Ok((bytes, started.elapsed()))
}

/// Reads until the bookmark that ends the initial events.
fn read(server: SocketAddr, path: &str) -> anyhow::Result<usize> {
    let mut stream = TcpStream::connect(server).context("connect to the API server")?;
    write!(
        stream,
        "GET {path}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )?;
    let mut reader = BufReader::with_capacity(1 << 20, stream);
    let mut line = Vec::new();
    let mut bytes = 0;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        anyhow::ensure!(read > 0, "the API server ended the list of {path}");
        bytes += read;
        let end = b"initial-events-end";
        if line.windows(end.len()).any(|it| it == end) {
            return Ok(bytes);
        }
    }
}
