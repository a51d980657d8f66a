//! Netlink attributes: a writer that appends to one buffer, and a reader that checks every length.
//!
//! An attribute is `u16 length (with this header), u16 type, payload, padding to 4 bytes`; both
//! header fields are in host order (`linux/netlink.h`, `struct nlattr`).

use std::net::IpAddr;

/// Length of an attribute header in bytes.
pub const HEADER: usize = 4;

/// Marks an attribute whose payload is attributes (`NLA_F_NESTED`).
const NESTED: u16 = 1 << 15;

/// The type without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const TYPE_MASK: u16 = 0x3fff;

/// Rounds up to the alignment of attributes and messages.
pub const fn align(length: usize) -> usize {
    (length + 3) & !3
}

/// Appends attributes to a buffer it owns.
///
/// The length of the buffer is a multiple of four after every call. Numbers and addresses may be `None`, which
/// writes nothing.
#[derive(Clone, Debug, Default)]
pub struct AttrWriter {
    bytes: Vec<u8>,
    oversized: bool,
}

/// An open attribute, to be closed with [`AttrWriter::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an attribute that is never ended has length zero"]
pub struct Nest {
    start: usize,
}

impl AttrWriter {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes written so far.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a place in the buffer: nobody asks whether it is the first"
    )]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether an attribute since the last call is too long for its 16-bit length. Its length is wrong
    /// and it must not be sent.
    pub fn take_oversized(&mut self) -> bool {
        std::mem::take(&mut self.oversized)
    }

    /// Appends bytes that are not an attribute (a message header), padded to four bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    /// Appends everything that another writer holds.
    pub fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
        self.oversized |= other.oversized;
    }

    /// Overwrites bytes written earlier; out of range is ignored.
    pub fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(slot) = self.bytes.get_mut(at..at + bytes.len()) {
            slot.copy_from_slice(bytes);
        }
    }

    /// Removes everything after the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Opens an attribute that holds attributes.
    pub fn begin(&mut self, kind: u16) -> Nest {
        let start = self.bytes.len();
        self.header(HEADER, kind | NESTED);
        Nest { start }
    }

    /// Sets the length of the attribute to everything written since it was opened. May be called again
    /// after more was written.
    pub fn end(&mut self, nest: Nest) {
        let length = self.length(self.bytes.len() - nest.start);
        self.patch(nest.start, &length.to_ne_bytes());
    }

    /// Bytes written since `nest` was opened, its header included.
    pub fn length_of(&self, nest: Nest) -> usize {
        self.bytes.len() - nest.start
    }

    /// Writes an attribute with the attributes that `body` writes.
    pub fn nested(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        let nest = self.begin(kind);
        body(self);
        self.end(nest);
    }

    /// Writes raw bytes.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.joined(kind, &[value]);
    }

    /// Writes the parts, one after the other, as one attribute.
    pub fn joined(&mut self, kind: u16, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|it| it.len()).sum();
        self.header(HEADER + length, kind);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.pad();
    }

    /// Writes one byte.
    pub fn u8(&mut self, kind: u16, value: impl Into<Option<u8>>) {
        self.given(kind, value.into().map(|it| [it]));
    }

    /// Writes a 16-bit number in host order.
    pub fn u16_ne(&mut self, kind: u16, value: impl Into<Option<u16>>) {
        self.given(kind, value.into().map(u16::to_ne_bytes));
    }

    /// Writes a 16-bit number in network order.
    pub fn u16_be(&mut self, kind: u16, value: impl Into<Option<u16>>) {
        self.given(kind, value.into().map(u16::to_be_bytes));
    }

    /// Writes a 32-bit number in network order.
    pub fn u32_be(&mut self, kind: u16, value: impl Into<Option<u32>>) {
        self.given(kind, value.into().map(u32::to_be_bytes));
    }

    /// Writes a 32-bit number in host order.
    pub fn u32_ne(&mut self, kind: u16, value: impl Into<Option<u32>>) {
        self.given(kind, value.into().map(u32::to_ne_bytes));
    }

    /// Writes a 64-bit number in network order.
    pub fn u64_be(&mut self, kind: u16, value: impl Into<Option<u64>>) {
        self.given(kind, value.into().map(u64::to_be_bytes));
    }

    /// Writes a string and the NUL that ends it.
    pub fn string(&mut self, kind: u16, value: &str) {
        self.joined(kind, &[value.as_bytes(), &[0]]);
    }

    /// Writes the 4 or 16 bytes of an address.
    pub fn address(&mut self, kind: u16, value: impl Into<Option<IpAddr>>) {
        match value.into() {
            Some(IpAddr::V4(ip)) => self.bytes(kind, &ip.octets()),
            Some(IpAddr::V6(ip)) => self.bytes(kind, &ip.octets()),
            None => {}
        }
    }

    fn given<const N: usize>(&mut self, kind: u16, value: Option<[u8; N]>) {
        if let Some(bytes) = value {
            self.bytes(kind, &bytes);
        }
    }

    fn header(&mut self, length: usize, kind: u16) {
        let length = self.length(length);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
    }

    fn length(&mut self, length: usize) -> u16 {
        u16::try_from(length).unwrap_or_else(|_| {
            self.oversized = true;
            u16::MAX
        })
    }

    fn pad(&mut self) {
        self.bytes.resize(align(self.bytes.len()), 0);
    }
}

/// One attribute read from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr<'a> {
    /// Attribute type, flags removed.
    pub kind: u16,
    /// The payload without padding.
    pub value: &'a [u8],
}

impl<'a> Attr<'a> {
    /// The first bytes of the payload.
    pub fn array<const N: usize>(&self) -> Option<[u8; N]> {
        self.value.first_chunk().copied()
    }

    /// The text before the first NUL; `None` when it is not UTF-8.
    pub fn str(&self) -> Option<&'a str> {
        let end = self.value.iter().position(|it| *it == 0);
        std::str::from_utf8(&self.value[..end.unwrap_or(self.value.len())]).ok()
    }

    /// The payload as attributes.
    pub fn nested(&self) -> Attrs<'a> {
        Attrs::new(self.value)
    }
}

/// Iterates over attributes and stops at the first one that does not fit.
///
/// The methods that take a type read the last attribute of that type, as the kernel's `nla_parse`
/// does; `None` when it is missing or too short.
#[derive(Clone, Debug)]
pub struct Attrs<'a> {
    bytes: &'a [u8],
}

impl<'a> Attrs<'a> {
    /// Reads `bytes` as a row of attributes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The attribute itself.
    pub fn find(&self, kind: u16) -> Option<Attr<'a>> {
        self.clone().filter(|it| it.kind == kind).last()
    }

    /// Its payload as attributes: none when it is missing.
    pub fn nested(&self, kind: u16) -> Self {
        Self::new(self.find(kind).map_or(&[], |it| it.value))
    }

    /// The text before the first NUL; `None` also when it is not UTF-8.
    pub fn str(&self, kind: u16) -> Option<&'a str> {
        self.find(kind)?.str()
    }

    /// The same text as [`str`](Self::str).
    pub fn string(&self, kind: u16) -> Option<String> {
        self.str(kind).map(str::to_owned)
    }

    /// One byte.
    pub fn u8(&self, kind: u16) -> Option<u8> {
        self.find(kind)?.array().map(u8::from_ne_bytes)
    }

    /// A 16-bit number in host order.
    pub fn u16_ne(&self, kind: u16) -> Option<u16> {
        self.find(kind)?.array().map(u16::from_ne_bytes)
    }

    /// A 16-bit number in network order.
    pub fn u16_be(&self, kind: u16) -> Option<u16> {
        self.find(kind)?.array().map(u16::from_be_bytes)
    }

    /// A 32-bit number in host order.
    pub fn u32_ne(&self, kind: u16) -> Option<u32> {
        self.find(kind)?.array().map(u32::from_ne_bytes)
    }

    /// A 32-bit number in network order.
    pub fn u32_be(&self, kind: u16) -> Option<u32> {
        self.find(kind)?.array().map(u32::from_be_bytes)
    }

    /// A 64-bit number in host order.
    pub fn u64_ne(&self, kind: u16) -> Option<u64> {
        self.find(kind)?.array().map(u64::from_ne_bytes)
    }

    /// A 64-bit number in network order.
    pub fn u64_be(&self, kind: u16) -> Option<u64> {
        self.find(kind)?.array().map(u64::from_be_bytes)
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = Attr<'a>;

    fn next(&mut self) -> Option<Attr<'a>> {
        let (length, rest) = self.bytes.split_first_chunk::<2>()?;
        let (kind, _) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_ne_bytes(*length));
        let value = self.bytes.get(HEADER..length)?;
        self.bytes = self.bytes.get(align(length)..).unwrap_or_default();
        Some(Attr {
            kind: u16::from_ne_bytes(*kind) & TYPE_MASK,
            value,
        })
    }
}

#[cfg(test)]
mod tests;
