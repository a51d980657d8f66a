//! Netlink messages and the kernel's acknowledgements.
//!
//! `nlmsghdr { u32 length, u16 type, u16 flags, u32 sequence, u32 port }` in host order, then
//! `nfgenmsg { u8 family, u8 version, u16 resource (network order) }`, then attributes. The header
//! of generic netlink, `genlmsghdr { u8 command, u8 version, u16 reserved }`, has the same shape
//! with the command in place of the family; rtnetlink's are longer and begin with the family.

use nix::errno::Errno;

use crate::attr::{AttrWriter, Attrs, align};

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
/// `NLM_F_DUMP_INTR`: the listed objects changed during the listing.
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

/// Offset of `nlmsg_flags`.
const FLAGS: usize = 6;

const CAPPED: u16 = 0x100;
const ACK_TLVS: u16 = 0x200;
const EXTACK_MESSAGE: u16 = 1;
const EXTACK_OFFSET: u16 = 2;

/// The header of a request to any part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Subsystem in the upper byte, message in the lower one.
    pub kind: u16,
    /// `NLM_F_*`; `NLM_F_REQUEST` is added.
    pub flags: u16,
    /// The first four bytes after `nlmsghdr`: the whole header of netfilter and of generic netlink,
    /// the start of the longer headers of rtnetlink.
    pub first: [u8; 4],
}

/// Writes a header and returns where it begins, for [`end`]. The kernel's answer repeats the
/// sequence number.
pub fn begin(writer: &mut AttrWriter, head: Head, sequence: u32) -> usize {
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
pub fn set_flags(writer: &mut AttrWriter, start: usize, flags: u16) {
    writer.patch(start + FLAGS, &(flags | REQUEST).to_ne_bytes());
}

/// Sets the length of the message that began at `start` to everything written since.
pub fn end(writer: &mut AttrWriter, start: usize) {
    // The kernel refuses the length of a message of more than 4 GiB.
    let length = u32::try_from(writer.len() - start).unwrap_or(u32::MAX);
    writer.patch(start, &length.to_ne_bytes());
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Subsystem and message, or [`ERROR`], [`DONE`].
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// The sequence number of the request that this answers.
    pub sequence: u32,
    /// The port id of the socket whose request caused this message; 0 is the kernel.
    pub port: u32,
    /// Everything after `nlmsghdr`.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The first byte after `nlmsghdr`: the family, but in generic netlink; 0 when there is none.
    pub fn family(&self) -> u8 {
        self.body.first().copied().unwrap_or_default()
    }

    /// A 32-bit number in host order at this offset of the body.
    pub fn u32_at(&self, offset: usize) -> Option<u32> {
        array_at(self.body, offset).map(u32::from_ne_bytes)
    }

    /// A 16-bit number in host order at this offset of the body.
    pub fn u16_at(&self, offset: usize) -> Option<u16> {
        array_at(self.body, offset).map(u16::from_ne_bytes)
    }

    /// The attributes after the nfnetlink header.
    pub fn attrs(&self) -> Attrs<'a> {
        self.attrs_at(NETFILTER_HEADER - HEADER)
    }

    /// The attributes from this offset of the body on.
    pub fn attrs_at(&self, offset: usize) -> Attrs<'a> {
        Attrs::new(self.body.get(offset..).unwrap_or_default())
    }

    /// The kernel's acknowledgement or refusal, when this message is one. A dump that ends with an
    /// error has it in [`DONE`].
    pub fn answer(&self) -> Option<Answer> {
        let (sequence, extended) = match self.kind {
            ERROR => (self.u32_at(12).unwrap_or_default(), self.extended()),
            DONE => (self.sequence, Attrs::new(&[])),
            _ => return None,
        };
        // The kernel sends errors as negative numbers.
        let code = self.u32_at(0).map_or(0, u32::cast_signed).saturating_neg();
        Some(Answer {
            sequence,
            errno: (code != 0).then(|| Errno::from_raw(code)),
            code,
            message: extended.string(EXTACK_MESSAGE),
            offset: extended.u32_ne(EXTACK_OFFSET),
        })
    }

    /// The extended acknowledgement. It follows the request, of which the kernel repeats the header
    /// or all.
    fn extended(&self) -> Attrs<'a> {
        let repeated = match self.flags & CAPPED {
            0 => align(self.u32_at(4).unwrap_or_default() as usize).max(HEADER),
            _ => HEADER,
        };
        match self.flags & ACK_TLVS {
            0 => Attrs::new(&[]),
            _ => self.attrs_at(4 + repeated),
        }
    }
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// The kernel's answer to one request: an acknowledgement or a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Sequence number of the request.
    pub sequence: u32,
    /// The error of a refusal; `None` in an acknowledgement.
    pub errno: Option<Errno>,
    /// The error number, 0 in an acknowledgement. Parts of the kernel have numbers of their own, for
    /// which `errno` is [`Errno::UnknownErrno`].
    pub code: i32,
    /// Extended acknowledgement: the kernel's text. Most nf_tables errors have none.
    pub message: Option<String>,
    /// Extended acknowledgement: the offset of the refused attribute from the `nlmsghdr` of the request.
    pub offset: Option<u32>,
}

/// Iterates over the messages of one datagram and stops at the first that does not fit.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    bytes: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Reads `bytes` as a row of messages.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let bytes = self.bytes;
        let length = u32::from_ne_bytes(array_at(bytes, 0)?);
        let length = usize::try_from(length).ok()?;
        let message = Message {
            kind: u16::from_ne_bytes(array_at(bytes, 4)?),
            flags: u16::from_ne_bytes(array_at(bytes, FLAGS)?),
            sequence: u32::from_ne_bytes(array_at(bytes, 8)?),
            port: u32::from_ne_bytes(array_at(bytes, 12)?),
            body: bytes.get(HEADER..length)?,
        };
        self.bytes = bytes.get(align(length)..).unwrap_or_default();
        Some(message)
    }
}

#[cfg(test)]
mod tests;
