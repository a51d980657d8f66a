//! Netlink attributes: a writer that appends to one buffer and a reader that trusts nothing.
//!
//! An attribute is `u16 length (with this header), u16 type, payload, padding to 4 bytes`; both
//! header fields are in host order (`linux/netlink.h`, `struct nlattr`).

/// Length of an attribute header in bytes.
pub const HEADER: usize = 4;

/// Marks an attribute whose payload is attributes (`NLA_F_NESTED`).
const NESTED: u16 = 1 << 15;

/// The type without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const TYPE_MASK: u16 = 0x3fff;

/// Rounds up to the alignment of attributes and messages.
#[must_use]
pub const fn align(length: usize) -> usize {
    (length + 3) & !3
}

/// Appends attributes to a buffer it owns.
///
/// Holds the invariant that the buffer's length is a multiple of four after every call.
#[derive(Clone, Debug, Default)]
pub struct AttrWriter {
    bytes: Vec<u8>,
    oversized: bool,
}

/// An attribute that was begun and waits for [`AttrWriter::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an attribute that is never ended has length zero"]
pub struct Nest {
    start: usize,
}

impl AttrWriter {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was written so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether an attribute outgrew its 16-bit length since the last call; such an attribute is
    /// cut short on the wire and must not be sent.
    pub fn take_oversized(&mut self) -> bool {
        std::mem::take(&mut self.oversized)
    }

    /// Appends bytes that are not an attribute (a message header), padded to four bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    /// Overwrites bytes written earlier; out of range is ignored.
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(slot) = self.bytes.get_mut(at..at + bytes.len()) {
            slot.copy_from_slice(bytes);
        }
    }

    /// Takes back everything after the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Opens an attribute that holds attributes.
    pub fn begin(&mut self, kind: u16) -> Nest {
        let start = self.bytes.len();
        self.header(HEADER, kind | NESTED);
        Nest { start }
    }

    /// Gives the nested attribute the length of everything written since it was opened. May be
    /// called again after more was appended.
    pub fn end(&mut self, nest: Nest) {
        let length = self.length(self.bytes.len() - nest.start);
        self.patch(nest.start, &length.to_ne_bytes());
    }

    /// Bytes written since `nest` was opened, its header included.
    #[must_use]
    pub fn length_of(&self, nest: Nest) -> usize {
        self.bytes.len() - nest.start
    }

    /// Writes an attribute that holds whatever `body` writes.
    pub fn nested(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        let nest = self.begin(kind);
        body(self);
        self.end(nest);
    }

    /// Writes raw bytes.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.header(HEADER + value.len(), kind);
        self.raw(value);
    }

    /// Writes one byte.
    pub fn u8(&mut self, kind: u16, value: u8) {
        self.bytes(kind, &[value]);
    }

    /// Writes a 16-bit number in host order.
    pub fn u16_ne(&mut self, kind: u16, value: u16) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    /// Writes a 16-bit number in network order.
    pub fn u16_be(&mut self, kind: u16, value: u16) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// Writes a 32-bit number in network order.
    pub fn u32_be(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// Writes a 32-bit number in host order.
    pub fn u32_ne(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    /// Writes a 64-bit number in network order.
    pub fn u64_be(&mut self, kind: u16, value: u64) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// Writes a string and the NUL that ends it.
    pub fn string(&mut self, kind: u16, value: &str) {
        self.header(HEADER + value.len() + 1, kind);
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
        self.pad();
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
    /// The first byte.
    #[must_use]
    pub fn u8(&self) -> Option<u8> {
        self.value.first().copied()
    }

    /// A 16-bit number in host order.
    #[must_use]
    pub fn u16_ne(&self) -> Option<u16> {
        self.value.first_chunk().map(|it| u16::from_ne_bytes(*it))
    }

    /// A 16-bit number in network order.
    #[must_use]
    pub fn u16_be(&self) -> Option<u16> {
        self.value.first_chunk().map(|it| u16::from_be_bytes(*it))
    }

    /// A 32-bit number in network order.
    #[must_use]
    pub fn u32_be(&self) -> Option<u32> {
        self.value.first_chunk().map(|it| u32::from_be_bytes(*it))
    }

    /// A 32-bit number in host order.
    #[must_use]
    pub fn u32_ne(&self) -> Option<u32> {
        self.value.first_chunk().map(|it| u32::from_ne_bytes(*it))
    }

    /// A number of 32 or 64 bits in host order, whichever the payload's length says.
    #[must_use]
    pub fn counter_ne(&self) -> Option<u64> {
        match self.value.first_chunk() {
            Some(it) => Some(u64::from_ne_bytes(*it)),
            None => self.u32_ne().map(u64::from),
        }
    }

    /// A 64-bit number in network order.
    #[must_use]
    pub fn u64_be(&self) -> Option<u64> {
        self.value.first_chunk().map(|it| u64::from_be_bytes(*it))
    }

    /// The text before the first NUL; `None` when it is not UTF-8.
    #[must_use]
    pub fn str(&self) -> Option<&'a str> {
        let end = self.value.iter().position(|it| *it == 0);
        std::str::from_utf8(&self.value[..end.unwrap_or(self.value.len())]).ok()
    }

    /// The payload as attributes.
    #[must_use]
    pub fn nested(&self) -> Attrs<'a> {
        Attrs::new(self.value)
    }
}

/// Iterates over attributes and stops at the first one that does not fit.
#[derive(Clone, Debug)]
pub struct Attrs<'a> {
    bytes: &'a [u8],
}

impl<'a> Attrs<'a> {
    /// Reads `bytes` as a row of attributes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The last attribute of this type, as the kernel's `nla_parse` picks it.
    #[must_use]
    pub fn find(&self, kind: u16) -> Option<Attr<'a>> {
        self.clone().filter(|it| it.kind == kind).last()
    }

    /// Number of bytes not read yet.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
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
