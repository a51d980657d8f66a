//! Probes over gRPC: one call of `grpc.health.v1.Health/Check` without TLS (`pkg/probe/grpc`).
//!
//! ```text
//! preface, SETTINGS, HEADERS, DATA: the service's name ─▶
//!                          ◀─ SETTINGS, HEADERS, DATA: its status, HEADERS
//! ```
//!
//! The headers of the answer are not decoded: a server that is well says so in DATA.
//!
//! Frames are written and read here, because nothing else in the program speaks HTTP/2: for this one call the crate h2,
//! behind hyper's client, made a small stripped program 0.5 MB larger.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use crate::timed::Timed;

/// Types of frames, and their flags (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// Of SETTINGS and PING.
const ACK: u8 = 1;
/// Of DATA and HEADERS.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// The stream of the only call.
const CALL: u32 = 1;

/// Most bytes of a frame: what a peer may send that was asked for nothing else.
const LARGEST: usize = 16_384;

/// The names of `HealthCheckResponse.ServingStatus` (`health.proto` of gRPC) by their numbers.
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/// Asks a server whether a service of it is well; an empty name is the server itself. From the network namespace of this
/// thread; the error is the reason of the failure.
pub(super) fn check(target: SocketAddr, service: &str, timeout: Duration) -> Result<(), String> {
    let connection = Timed::connect(target, timeout)
        .map_err(|it| format!("error: failed to connect service at {target}: {it}"))?;
    let status = call(connection, &target.to_string(), service)
        .map_err(|it| format!("error: health rpc probe failed: {it}"))?;
    match STATUSES.get(status) {
        Some(&"SERVING") => Ok(()),
        Some(name) => Err(format!("service unhealthy (responded with {name:?})")),
        None => Err(format!("service unhealthy (responded with {status})")),
    }
}

/// The number of the status that a server answers.
fn call(mut server: impl Read + Write, authority: &str, service: &str) -> io::Result<usize> {
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    request.extend(frame(SETTINGS, 0, 0, &[]));
    request.extend(frame(HEADERS, END_HEADERS, CALL, &headers(authority)));
    request.extend(frame(DATA, END_STREAM, CALL, &message(service)));
    server.write_all(&request)?;
    let mut answer = Vec::new();
    let mut has_begun = false;
    loop {
        let (kind, flags, stream, content) = match read(&mut server) {
            Ok((kind, ..)) if !has_begun && kind != SETTINGS => return Err(no_http2()),
            // A server of HTTP/1.1 closes the connection, with or without a word.
            Err(error) if !has_begun && error.kind() != io::ErrorKind::TimedOut => {
                return Err(no_http2());
            }
            frame => frame?,
        };
        has_begun = true;
        match kind {
            SETTINGS | PING if flags & ACK == 0 => {
                let echoed = if kind == PING { &content[..] } else { &[] };
                server.write_all(&frame(kind, ACK, 0, echoed))?;
            }
            DATA if stream == CALL && answer.len() < LARGEST => {
                answer.extend(unpadded(flags, &content));
            }
            RST_STREAM if stream == CALL => return Err(broken("the server reset the call")),
            GOAWAY if content.get(4..8) != Some(&[0; 4]) => {
                return Err(broken("the server ended the connection"));
            }
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && stream == CALL && flags & END_STREAM != 0 {
            return status(&answer);
        }
    }
}

/// The header block of the call: names by their numbers in HPACK's table, values as they are (RFC 7541, appendix A and
/// section 6.2.2).
fn headers(authority: &str) -> Vec<u8> {
    // `:method: POST` and `:scheme: http` are whole in the table.
    let mut block = vec![0x83, 0x86];
    let mut literal = |name: &[u8], value: &str| {
        block.extend(name);
        // An address and the names here are far below 127 bytes, where a length has more than one byte.
        block.push(u8::try_from(value.len()).unwrap_or_default());
        block.extend(value.as_bytes());
    };
    literal(&[0x01], authority);
    literal(&[0x04], "/grpc.health.v1.Health/Check");
    // 31 is 15, which the first byte has room for, and 16.
    literal(&[0x0f, 16], "application/grpc");
    literal(b"\0\x02te", "trailers");
    block
}

/// `HealthCheckRequest` as gRPC sends it: not compressed, its length, field 1.
fn message(service: &str) -> Vec<u8> {
    let mut content = Vec::new();
    if !service.is_empty() {
        content.push(0x0a);
        let mut rest = service.len();
        while rest > 0x7f {
            // Seven bits, and more follow.
            content.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        content.push(rest.to_le_bytes()[0]);
        content.extend(service.as_bytes());
    }
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], &content].concat()
}

/// The status in a `HealthCheckResponse`, as gRPC sends it; a field that is left out is 0.
fn status(answer: &[u8]) -> io::Result<usize> {
    match answer {
        [0, _, _, _, _] => Ok(0),
        [0, _, _, _, _, 0x08, status @ 0..=0x7f, ..] => Ok(usize::from(*status)),
        _ => Err(broken(
            "no status: the server has no grpc.health.v1.Health, or does not know the service",
        )),
    }
}

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let head = [&length.to_be_bytes()[1..], &[kind, flags]].concat();
    [&head, &stream.to_be_bytes()[..], content].concat()
}

/// Type, flags, stream and content of the next frame.
fn read(server: &mut impl Read) -> io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    server.read_exact(&mut head).map_err(closed)?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    if length > LARGEST {
        return Err(no_http2());
    }
    let mut content = vec![0; length];
    server.read_exact(&mut content).map_err(closed)?;
    Ok((kind, flags, u32::from_be_bytes(stream), content))
}

/// The content of DATA without its padding.
fn unpadded(flags: u8, content: &[u8]) -> &[u8] {
    match content {
        [padding, rest @ ..] if flags & PADDED != 0 => {
            &rest[..rest.len().saturating_sub(usize::from(*padding))]
        }
        _ => content,
    }
}

fn closed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => broken("the server closed the connection"),
        _ => error,
    }
}

fn no_http2() -> io::Error {
    broken("the server does not speak HTTP/2")
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A server that says this, whatever it is told.
    struct Canned {
        says: VecDeque<u8>,
        told: Vec<u8>,
    }

    impl Read for Canned {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.says.read(bytes)
        }
    }

    impl Write for Canned {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.told.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn canned(frames: &[Vec<u8>]) -> Canned {
        Canned {
            says: frames.concat().into(),
            told: Vec::new(),
        }
    }

    #[test]
    fn what_servers_answer_is_read() {
        let settings = || frame(SETTINGS, 0, 0, &[]);
        let head = || frame(HEADERS, END_HEADERS, CALL, &[0x88]);
        let end = || frame(HEADERS, END_HEADERS | END_STREAM, CALL, &[0x88]);
        let said = |content: &[u8]| {
            let length = u8::try_from(content.len()).unwrap();
            [&[0, 0, 0, 0, length], content].concat()
        };
        let data = |content: &[u8]| frame(DATA, 0, CALL, &said(content));
        let padded = [&[2][..], &said(&[8, 1]), &[0, 0]].concat();
        let (first, second) = (&said(&[8, 1])[..3], &said(&[8, 1])[3..]);
        for (frames, expected) in [
            (vec![settings(), head(), data(&[8, 1]), end()], "1"),
            (vec![settings(), head(), data(&[8, 2]), end()], "2"),
            // The default value is not written.
            (vec![settings(), head(), data(&[]), end()], "0"),
            (vec![settings(), head(), data(&[8, 9]), end()], "9"),
            (
                vec![settings(), frame(DATA, PADDED, CALL, &padded), end()],
                "1",
            ),
            (
                vec![
                    settings(),
                    frame(DATA, 0, CALL, first),
                    frame(8, 0, 0, &[0, 0, 1, 0]),
                    frame(DATA, END_STREAM, CALL, second),
                ],
                "1",
            ),
            (vec![settings(), end()], "no status"),
            (vec![settings(), head()], "closed the connection"),
            (
                vec![settings(), frame(RST_STREAM, 0, CALL, &[0; 4])],
                "reset the call",
            ),
            (
                vec![settings(), frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 1])],
                "ended the connection",
            ),
            // It ends, and answers before that.
            (
                vec![
                    settings(),
                    frame(GOAWAY, 0, 0, &[0; 8]),
                    data(&[8, 1]),
                    end(),
                ],
                "1",
            ),
            (vec![head()], "does not speak HTTP/2"),
            (vec![], "does not speak HTTP/2"),
            (
                vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()],
                "does not speak HTTP/2",
            ),
        ] {
            let found = match call(canned(&frames), "10.0.0.1:1", "") {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{found} is not {expected}");
        }
    }

    #[test]
    fn the_server_is_told_what_it_waits_for() {
        let mut server = canned(&[
            frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 1, 0]),
            frame(SETTINGS, ACK, 0, &[]),
            frame(PING, 0, 0, b"12345678"),
            frame(DATA, END_STREAM, CALL, &[0, 0, 0, 0, 2, 8, 1]),
        ]);
        let name = "x".repeat(300);
        assert_eq!(call(&mut server, "10.0.0.1:1", &name).unwrap(), 1);
        let told = &server.told[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()..];
        let mut told = io::Cursor::new(told);
        let frames: Vec<_> = std::iter::from_fn(|| read(&mut told).ok()).collect();
        let kinds: Vec<_> = frames.iter().map(|it| (it.0, it.1, it.2)).collect();
        assert_eq!(
            kinds,
            [
                (SETTINGS, 0, 0),
                (HEADERS, END_HEADERS, CALL),
                (DATA, END_STREAM, CALL),
                (SETTINGS, ACK, 0),
                (PING, ACK, 0)
            ]
        );
        // 300 is 0b10_0101100.
        let start = [0, 0, 0, 1, 47, 0x0a, 0b1010_1100, 0b10];
        assert_eq!(frames[2].3, [&start[..], name.as_bytes()].concat());
        assert_eq!(frames[4].3, b"12345678");
    }
}
