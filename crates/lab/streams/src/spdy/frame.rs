//! Frames (draft-mbelshe-httpbis-spdy-00, section 2.2), read from untrusted bytes.
//!
//! ```text
//! control: |1| version 15 | type 16 | flags 8 | length 24 | payload
//! data:    |0| stream 31            | flags 8 | length 24 | payload
//! ```

use super::headers::{Headers, Inflate, NO_HEADERS};

/// Largest payload of a control frame in bytes. Those of kubectl have less than 100.
const LARGEST_CONTROL: usize = 16 * 1024;

/// Bytes of a frame's head.
pub(super) const HEAD: usize = 8;

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const FIN: u8 = 1;

/// The status of a RST_STREAM for a stream that is one too many.
pub(super) const REFUSED_STREAM: u32 = 3;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the version of a control frame is not 3")]
    Version,
    #[error("a control frame is larger than {LARGEST_CONTROL} bytes")]
    TooLarge,
    #[error("a control frame is too short")]
    Short,
    #[error("a stream has the number 0")]
    Zero,
    #[error("the compressed headers are malformed")]
    Compressed,
    #[error("the headers are malformed, or too many")]
    Headers,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// Bytes of the payload.
    pub(super) length: usize,
    /// Whether the sender writes no more to the stream.
    pub(super) fin: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Control { kind: u16 },
    Data { stream: u32 },
}

/// The control frames that mean something to a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Control {
    Open {
        stream: u32,
        headers: Headers,
    },
    Reset {
        stream: u32,
    },
    Ping {
        id: u32,
    },
    /// SETTINGS, GOAWAY, WINDOW_UPDATE and others, which change nothing.
    Other,
}

impl Head {
    pub(super) fn read(bytes: &[u8; HEAD]) -> Result<Self, Malformed> {
        let [a, b, c, d, flags, length @ ..] = *bytes;
        let first = u32::from_be_bytes([a, b, c, d]);
        let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
        let stream = first & 0x7fff_ffff;
        let kind = if first == stream {
            Kind::Data { stream }
        } else {
            Kind::Control {
                kind: u16::from_be_bytes([c, d]),
            }
        };
        match kind {
            Kind::Data { stream: 0 } => Err(Malformed::Zero),
            Kind::Control { .. } if stream >> 16 != u32::from(VERSION) => Err(Malformed::Version),
            Kind::Control { .. } if length > LARGEST_CONTROL => Err(Malformed::TooLarge),
            _ => Ok(Self {
                kind,
                length,
                fin: flags & FIN != 0,
            }),
        }
    }
}

impl Control {
    pub(super) fn read(
        kind: u16,
        payload: &[u8],
        inflate: &mut Inflate,
    ) -> Result<Self, Malformed> {
        let number = |at: usize| {
            let bytes = payload.get(at..at + 4).ok_or(Malformed::Short)?;
            Ok(u32::from_be_bytes(bytes.try_into().unwrap_or_default()))
        };
        let stream = || match number(0)? & 0x7fff_ffff {
            0 => Err(Malformed::Zero),
            stream => Ok(stream),
        };
        match kind {
            SYN_STREAM => {
                // The stream that it is associated with, priority and slot.
                let block = payload.get(10..).ok_or(Malformed::Short)?;
                Ok(Self::Open {
                    stream: stream()?,
                    headers: inflate.read(block)?,
                })
            }
            RST_STREAM => Ok(Self::Reset { stream: stream()? }),
            PING => Ok(Self::Ping { id: number(0)? }),
            _ => Ok(Self::Other),
        }
    }
}

/// A SYN_REPLY without headers. `is_first`: whether it begins the compressed headers of this side.
pub(super) fn reply(stream: u32, is_first: bool) -> Vec<u8> {
    let mut payload = stream.to_be_bytes().to_vec();
    payload.extend(NO_HEADERS.iter().skip(if is_first { 0 } else { 2 }));
    control(SYN_REPLY, 0, &payload)
}

pub(super) fn reset(stream: u32, status: u32) -> Vec<u8> {
    let payload = [stream.to_be_bytes(), status.to_be_bytes()].concat();
    control(RST_STREAM, 0, &payload)
}

pub(crate) fn ping(id: u32) -> Vec<u8> {
    control(PING, 0, &id.to_be_bytes())
}

/// `payload` must be shorter than 16 MiB.
pub(crate) fn data(stream: u32, payload: &[u8], fin: bool) -> Vec<u8> {
    frame(stream, if fin { FIN } else { 0 }, payload)
}

fn control(kind: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let first = 1 << 31 | u32::from(VERSION) << 16 | u32::from(kind);
    frame(first, flags, payload)
}

fn frame(first: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = first.to_be_bytes().to_vec();
    bytes.push(flags);
    bytes.extend(&length[1..]);
    bytes.extend(payload);
    bytes
}

/// A SYN_STREAM with headers, as a client writes it.
#[cfg(test)]
pub(crate) fn open_stream(stream: u32, headers: &[(&str, &str)], is_first: bool) -> Vec<u8> {
    let mut block = (headers.len() as u32).to_be_bytes().to_vec();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        block.extend((text.len() as u32).to_be_bytes());
        block.extend(text.as_bytes());
    }
    let mut payload = stream.to_be_bytes().to_vec();
    payload.extend([0; 6]);
    let length = (block.len() as u16).to_le_bytes();
    let head = [0x78, 0x01, 0, length[0], length[1], !length[0], !length[1]];
    payload.extend(&head[if is_first { 0 } else { 2 }..]);
    payload.extend(block);
    control(SYN_STREAM, 0, &payload)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn heads_are_read() {
        use Malformed::{TooLarge, Version, Zero};
        let data = |stream, length, fin| {
            Ok(Head {
                kind: Kind::Data { stream },
                length,
                fin,
            })
        };
        let control = |kind, length| {
            Ok(Head {
                kind: Kind::Control { kind },
                length,
                fin: false,
            })
        };
        for (bytes, expect) in [
            ([0, 0, 0, 5, 0, 0, 1, 2], data(5, 258, false)),
            (
                [0x7f, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff],
                data(0x7fff_ffff, 0xff_ffff, true),
            ),
            ([0, 0, 0, 0, 0, 0, 0, 1], Err(Zero)),
            ([0x80, 3, 0, 6, 0, 0, 0, 4], control(PING, 4)),
            ([0x80, 2, 0, 6, 0, 0, 0, 4], Err(Version)),
            ([0x80, 3, 0, 1, 0, 1, 0, 0], Err(TooLarge)),
        ] {
            assert_eq!(Head::read(&bytes), expect, "{bytes:x?}");
        }
    }

    #[test]
    fn control_frames_are_read() {
        let read = |frame: &[u8]| {
            let (head, payload) = frame.split_first_chunk().unwrap();
            let head = Head::read(head).unwrap();
            let Kind::Control { kind } = head.kind else {
                panic!("{head:?}");
            };
            Control::read(kind, payload, &mut Inflate::new())
        };
        assert_eq!(read(&ping(7)), Ok(Control::Ping { id: 7 }));
        assert_eq!(read(&reset(7, 1)), Ok(Control::Reset { stream: 7 }));
        assert_eq!(read(&reset(0, 1)), Err(Malformed::Zero));
        assert_eq!(read(&reply(7, true)), Ok(Control::Other));
        let short = |kind| read(&control(kind, 0, &[0, 0, 0]));
        assert_eq!(short(PING), Err(Malformed::Short));
        assert_eq!(short(SYN_STREAM), Err(Malformed::Short));
        let opened = [&[0, 0, 0, 9, 0, 0, 0, 0, 0, 0][..], &NO_HEADERS].concat();
        let open = Control::Open {
            stream: 9,
            headers: Headers::default(),
        };
        assert_eq!(read(&control(SYN_STREAM, 2, &opened)), Ok(open));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            prop_assert!(super::super::frames_of(&bytes) <= bytes.len() / HEAD);
        }

        #[test]
        fn any_headers_are_read(block in prop::collection::vec(any::<u8>(), 0..4096)) {
            let mut opened = vec![0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0x78, 0x01];
            opened.extend(block);
            prop_assert!(super::super::frames_of(&control(SYN_STREAM, 0, &opened)) <= 1);
        }
    }
}
