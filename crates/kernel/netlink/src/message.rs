//! Netlink messages with the nfnetlink header, and the kernel's answer to one.
//!
//! `nlmsghdr { u32 length, u16 type, u16 flags, u32 sequence, u32 port }` in host order, then
//! `nfgenmsg { u8 family, u8 version, u16 resource (network order) }`, then attributes. The header
//! of generic netlink, `genlmsghdr { u8 command, u8 version, u16 reserved }`, has the same shape
//! with the command in place of the family; rtnetlink's are longer and begin with the family.

use nix::errno::Errno;

use crate::attr::{AttrWriter, Attrs, align};
use crate::ipset;

/// Length of `nlmsghdr` in bytes.
pub const HEADER: usize = 16;

/// Length of `nlmsghdr` and `nfgenmsg` together: where the attributes begin.
pub const NETFILTER_HEADER: usize = HEADER + 4;

/// `NLMSG_ERROR`: an acknowledgement, or an error when its code is not zero.
pub const ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a dump.
pub const DONE: u16 = 3;

/// `NLM_F_REQUEST`.
pub const REQUEST: u16 = 0x1;
/// `NLM_F_ACK`.
pub const ACK: u16 = 0x4;
/// `NLM_F_DUMP_INTR`: what is dumped changed while it was dumped.
pub const DUMP_INTERRUPTED: u16 = 0x10;
/// `NLM_F_DUMP`.
pub const DUMP: u16 = 0x300;
/// `NLM_F_REPLACE`: change the object when it exists.
pub const REPLACE: u16 = 0x100;
/// `NLM_F_EXCL`: refuse when the object exists.
pub const EXCLUSIVE: u16 = 0x200;
/// `NLM_F_CREATE`: create when the object does not exist.
pub const CREATE: u16 = 0x400;
/// `NLM_F_APPEND`: add at the end of the list.
pub const APPEND: u16 = 0x800;

/// Where `nlmsg_flags` stands.
const FLAGS: usize = 6;

const CAPPED: u16 = 0x100;
const ACK_TLVS: u16 = 0x200;
const EXTACK_MESSAGE: u16 = 1;
const EXTACK_OFFSET: u16 = 2;

/// Everything of a header that differs between requests.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Subsystem in the upper byte, message in the lower one.
    pub kind: u16,
    /// `NLM_F_*`; `NLM_F_REQUEST` is added.
    pub flags: u16,
    /// Echoed in the kernel's answer.
    pub sequence: u32,
    /// `NFPROTO_*`.
    pub family: u8,
    /// Resource id; the subsystem in the frame of a batch, else zero.
    pub resource: u16,
}

/// What stands at the front of a request of any part of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// As [`Header::kind`].
    pub(crate) kind: u16,
    /// `NLM_F_*`; `NLM_F_REQUEST` is added.
    pub(crate) flags: u16,
    /// What follows `nlmsghdr`: the whole header of netfilter and of generic netlink, the first
    /// fields of those of rtnetlink.
    pub(crate) first: [u8; 4],
}

/// Writes a header and returns where it begins, for [`end`].
pub fn begin(writer: &mut AttrWriter, header: Header) -> usize {
    let [high, low] = header.resource.to_be_bytes();
    let head = Head {
        kind: header.kind,
        flags: header.flags,
        first: [header.family, 0, high, low],
    };
    begin_with(writer, head, header.sequence)
}

/// As [`begin`], whatever the four bytes after `nlmsghdr` mean.
pub(crate) fn begin_with(writer: &mut AttrWriter, head: Head, sequence: u32) -> usize {
    let start = writer.len();
    let mut bytes = [0; NETFILTER_HEADER];
    bytes[4..6].copy_from_slice(&head.kind.to_ne_bytes());
    bytes[FLAGS..FLAGS + 2].copy_from_slice(&(head.flags | REQUEST).to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes[HEADER..].copy_from_slice(&head.first);
    writer.raw(&bytes);
    start
}

/// Replaces the flags of the message that began at `start`.
pub(crate) fn set_flags(writer: &mut AttrWriter, start: usize, flags: u16) {
    writer.patch(start + FLAGS, &(flags | REQUEST).to_ne_bytes());
}

/// Gives the message that began at `start` the length of everything written since.
pub fn end(writer: &mut AttrWriter, start: usize) {
    // A message of 4 GiB cannot be sent anyway; the kernel refuses a length that does not fit.
    let length = u32::try_from(writer.len() - start).unwrap_or(u32::MAX);
    writer.patch(start, &length.to_ne_bytes());
}

/// One message received.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Subsystem and message, or [`ERROR`], [`DONE`].
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// The sequence number of the request that this answers.
    pub sequence: u32,
    /// The port id of the socket whose request caused this; 0 is the kernel.
    pub port: u32,
    /// Everything after `nlmsghdr`.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// `NFPROTO_*` from the nfnetlink header; 0 when there is none.
    #[must_use]
    pub fn family(&self) -> u8 {
        self.body.first().copied().unwrap_or_default()
    }

    /// The attributes after the nfnetlink header.
    #[must_use]
    pub fn attrs(&self) -> Attrs<'a> {
        Attrs::new(
            self.body
                .get(NETFILTER_HEADER - HEADER..)
                .unwrap_or_default(),
        )
    }

    /// The kernel's verdict, when this message is one. A dump that ends with an error carries it
    /// in [`DONE`].
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        match self.kind {
            ERROR => Some(self.error_answer()),
            DONE => Some(Answer {
                sequence: self.sequence,
                errno: self.errno(),
                code: self.code(),
                message: None,
                offset: None,
            }),
            _ => None,
        }
    }

    fn errno(&self) -> Option<Errno> {
        let code = self.code();
        (code != 0).then(|| Errno::from_raw(code))
    }

    /// The kernel sends errors as negative numbers.
    fn code(&self) -> i32 {
        let code = self.body.first_chunk();
        code.map_or(0, |it| i32::from_ne_bytes(*it).saturating_neg())
    }

    fn error_answer(&self) -> Answer {
        let original = self.body.get(4..).unwrap_or_default();
        let word = |at: usize| {
            original
                .get(at..)
                .and_then(|it| it.first_chunk())
                .map_or(0, |it| u32::from_ne_bytes(*it))
        };
        let echoed = if self.flags & CAPPED != 0 {
            HEADER
        } else {
            align(word(0) as usize).max(HEADER)
        };
        let attrs = match original.get(echoed..) {
            Some(bytes) if self.flags & ACK_TLVS != 0 => Attrs::new(bytes),
            _ => Attrs::new(&[]),
        };
        Answer {
            sequence: word(8),
            errno: self.errno(),
            code: self.code(),
            message: attrs
                .find(EXTACK_MESSAGE)
                .and_then(|it| it.str())
                .map(str::to_owned),
            offset: attrs.find(EXTACK_OFFSET).and_then(|it| it.u32_ne()),
        }
    }
}

/// What the kernel said to one request: an acknowledgement when `errno` is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Sequence number of the request.
    pub sequence: u32,
    /// The error; `None` is success.
    pub errno: Option<Errno>,
    /// The error as a number; 0 is success. Parts of the kernel have numbers of their own that
    /// `errno` does not know.
    pub code: i32,
    /// Extended acknowledgement: the kernel's own words. Most nf_tables errors have none.
    pub message: Option<String>,
    /// Extended acknowledgement: where in the request, from its `nlmsghdr`, the bad attribute is.
    pub offset: Option<u32>,
}

impl Answer {
    /// Why it is an error: the kernel's words, or ours for a number that only its part of the
    /// kernel knows. `kind` is that of the request.
    pub(crate) fn reason(self, kind: u16) -> Option<String> {
        let unknown = || match self.errno {
            Some(Errno::UnknownErrno) if kind >> 8 == ipset::SUBSYSTEM => {
                Some(ipset::reason(self.code))
            }
            Some(Errno::UnknownErrno) => Some(format!("error {}", self.code)),
            _ => None,
        };
        self.message.or_else(unknown)
    }
}

/// Iterates over the messages of one datagram and stops at the first that does not fit.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    bytes: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Reads `bytes` as a row of messages.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let header: &[u8; HEADER] = self.bytes.first_chunk()?;
        let [
            l0,
            l1,
            l2,
            l3,
            k0,
            k1,
            f0,
            f1,
            s0,
            s1,
            s2,
            s3,
            p0,
            p1,
            p2,
            p3,
        ] = *header;
        let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
        let body = self.bytes.get(HEADER..length)?;
        self.bytes = self.bytes.get(align(length)..).unwrap_or_default();
        Some(Message {
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            port: u32::from_ne_bytes([p0, p1, p2, p3]),
            body,
        })
    }
}

#[cfg(test)]
mod tests;
