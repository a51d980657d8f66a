//! User data: bytes that the kernel stores with an object for user space, in `nft`'s format.
//!
//! A row of `u8 type, u8 length, bytes` (`libnftnl/udata.h`). Sluice writes comments, which `nft`
//! prints; the `typeof` descriptions of a set's key and data come from the caller.

/// Longest comment in bytes, its NUL included (`NFTNL_UDATA_COMMENT_MAXLEN`).
const COMMENT_MAX: usize = 128;

/// `NFTNL_UDATA_{TABLE,CHAIN,RULE,SET_ELEM}_COMMENT`.
pub(crate) const COMMENT: u8 = 0;

/// `NFTNL_UDATA_SET_COMMENT`.
pub(crate) const SET_COMMENT: u8 = 7;

/// Appends one entry; a value is cut at 255 bytes.
pub fn push_tlv(buffer: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let length = u8::try_from(value.len()).unwrap_or(u8::MAX);
    buffer.extend_from_slice(&[kind, length]);
    buffer.extend_from_slice(&value[..usize::from(length)]);
}

/// Iterates over entries and stops at the first that does not fit.
pub(crate) fn tlvs(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&[kind, length], rest) = bytes.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(length))?;
        bytes = rest;
        Some((kind, value))
    })
}

/// The first comment of this type; `None` when there is none or it is not UTF-8.
pub(crate) fn comment(bytes: &[u8], kind: u8) -> Option<&str> {
    let (_, value) = tlvs(bytes).find(|it| it.0 == kind)?;
    let end = value.iter().position(|it| *it == 0).unwrap_or(value.len());
    std::str::from_utf8(&value[..end]).ok()
}

/// The longest prefix that fits into [`COMMENT_MAX`] with its NUL, cut at a character and before the
/// first NUL.
pub(crate) fn fitting(comment: &str) -> &str {
    let comment = comment.split('\0').next().unwrap_or_default();
    &comment[..comment.floor_char_boundary(COMMENT_MAX - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_comment_is_cut_between_characters() {
        assert_eq!(fitting(&"é".repeat(80)), "é".repeat(63));
        assert_eq!(fitting(&"x".repeat(500)).len(), COMMENT_MAX - 1);
        assert_eq!(fitting("a\0b"), "a");
    }

    #[test]
    fn entries_read_back() {
        let mut buffer = Vec::new();
        push_tlv(&mut buffer, 3, &[1, 2]);
        push_tlv(&mut buffer, SET_COMMENT, b"a set\0");
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
    }
}
