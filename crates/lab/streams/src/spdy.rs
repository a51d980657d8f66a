//! SPDY/3.1 as Go's clients of Kubernetes speak it (`github.com/moby/spdystream`): streams that the client opens, without
//! windows. Neither side sends WINDOW_UPDATE: what is not read waits in the connection.

mod connection;
mod frame;
mod headers;
pub(crate) mod remote;

pub(crate) use connection::{Event, Sender, open};
#[cfg(test)]
pub(crate) use frame::{data, open_stream, ping};

/// Reads bytes as a server reads a connection, and returns how many frames they have.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub fn frames_of(mut bytes: &[u8]) -> usize {
    let mut inflate = headers::Inflate::new();
    let mut count = 0;
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let Ok(head) = frame::Head::read(head) else {
            break;
        };
        let Some((payload, rest)) = rest.split_at_checked(head.length) else {
            break;
        };
        if let frame::Kind::Control { kind, .. } = head.kind
            && frame::Control::read(kind, payload, &mut inflate).is_err()
        {
            break;
        }
        count += 1;
        bytes = rest;
    }
    count
}
