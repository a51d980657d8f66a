//! User data: bytes that the kernel stores beside an object for user space, in `nft`'s format.
//!
//! A row of `u8 type, u8 length, bytes` (`libnftnl/udata.h`). Sluice writes comments, which `nft`
//! prints; the `typeof` descriptions of a set's key and data come from the caller.

/// Longest comment in bytes, its NUL included (`NFTNL_UDATA_COMMENT_MAXLEN`).
pub const COMMENT_MAX: usize = 128;

/// `NFTNL_UDATA_{TABLE,CHAIN,RULE,SET_ELEM}_COMMENT`.
pub(crate) const COMMENT: u8 = 0;

/// `NFTNL_UDATA_SET_COMMENT`.
pub(crate) const SET_COMMENT: u8 = 7;

/// Appends one entry; a value longer than 255 bytes is cut.
pub fn push_tlv(buffer: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let length = u8::try_from(value.len()).unwrap_or(u8::MAX);
    buffer.extend_from_slice(&[kind, length]);
    buffer.extend_from_slice(&value[..usize::from(length)]);
}

/// Iterates over entries and stops at the first that does not fit.
pub fn tlvs(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&[kind, length], rest) = bytes.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(length))?;
        bytes = rest;
        Some((kind, value))
    })
}

/// Appends a comment, cut at a character so that it fits [`COMMENT_MAX`].
pub(crate) fn push_comment(buffer: &mut Vec<u8>, kind: u8, comment: &str) {
    let mut entry = [0; COMMENT_MAX];
    let comment = fitting(comment);
    entry[..comment.len()].copy_from_slice(comment.as_bytes());
    push_tlv(buffer, kind, &entry[..=comment.len()]);
}

/// The user data of an object that has nothing but a comment.
pub(crate) struct CommentData {
    bytes: [u8; COMMENT_MAX + 2],
    length: usize,
}

impl CommentData {
    pub(crate) fn new(comment: &str) -> Self {
        let comment = fitting(comment);
        let mut bytes = [0; COMMENT_MAX + 2];
        // At most COMMENT_MAX, which fits a byte.
        bytes[1] = (comment.len() + 1) as u8;
        bytes[2..2 + comment.len()].copy_from_slice(comment.as_bytes());
        Self {
            bytes,
            length: comment.len() + 3,
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The first comment of this type; `None` when there is none or it is not UTF-8.
pub(crate) fn comment(bytes: &[u8], kind: u8) -> Option<&str> {
    let (_, value) = tlvs(bytes).find(|it| it.0 == kind)?;
    let end = value.iter().position(|it| *it == 0).unwrap_or(value.len());
    std::str::from_utf8(&value[..end]).ok()
}

/// The longest beginning that fits with its NUL and has none inside.
fn fitting(comment: &str) -> &str {
    let comment = comment.split('\0').next().unwrap_or_default();
    &comment[..comment.floor_char_boundary(COMMENT_MAX - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_comment_is_type_length_text_nul() {
        let data = CommentData::new("ns/name:port");
        assert_eq!(data.as_bytes(), b"\x00\x0dns/name:port\0");
        assert_eq!(comment(data.as_bytes(), COMMENT), Some("ns/name:port"));
    }

    #[test]
    fn a_long_comment_is_cut_between_characters() {
        let long = "é".repeat(80);
        let data = CommentData::new(&long);
        assert_eq!(
            comment(data.as_bytes(), COMMENT),
            Some("é".repeat(63).as_str())
        );
        let mut buffer = Vec::new();
        push_comment(&mut buffer, COMMENT, &"x".repeat(500));
        assert_eq!(buffer.len(), 2 + COMMENT_MAX);
        assert_eq!(buffer.last(), Some(&0));
    }

    #[test]
    fn entries_read_back() {
        let mut buffer = Vec::new();
        push_tlv(&mut buffer, 3, &[1, 2]);
        push_comment(&mut buffer, SET_COMMENT, "a set");
        assert_eq!(
            tlvs(&buffer).collect::<Vec<_>>(),
            [(3, [1, 2].as_slice()), (7, b"a set\0")]
        );
        assert_eq!(comment(&buffer, SET_COMMENT), Some("a set"));
    }

    proptest! {
        #[test]
        fn never_panics_on_random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (tlvs(&bytes).count(), comment(&bytes, COMMENT));
        }

        #[test]
        fn any_short_comment_reads_back(text in "[^\0]{0,31}") {
            let data = CommentData::new(&text);
            prop_assert_eq!(comment(data.as_bytes(), COMMENT), Some(text.as_str()));
        }
    }
}
