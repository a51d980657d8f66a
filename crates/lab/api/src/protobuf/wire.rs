//! The wire format of protocol buffers.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message with their numbers. `None` is the last item when the rest is malformed.
pub(super) fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u64, Piece<'_>)>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let piece = piece(&mut bytes);
        if piece.is_none() {
            bytes = &[];
        }
        Some(piece)
    })
}

fn piece<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Piece<'a>)> {
    let tag = number(bytes)?;
    let value = match tag & 7 {
        0 => Piece::Number(number(bytes)?),
        1 => Piece::Bytes(take(bytes, 8)?),
        2 => {
            let length = usize::try_from(number(bytes)?).ok()?;
            Piece::Bytes(take(bytes, length)?)
        }
        5 => Piece::Bytes(take(bytes, 4)?),
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Reads a varint: seven bits in each byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
