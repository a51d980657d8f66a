//! Text line by line, as it comes.

use std::io::{self, Write};

/// Hands on each line that has come to its end, without that; what is no UTF-8 is replaced.
pub(super) struct ByLine<F> {
    /// What has come of a line.
    begun: Vec<u8>,
    take: F,
}

impl<F: FnMut(&str)> ByLine<F> {
    pub(super) fn new(take: F) -> Self {
        let begun = Vec::new();
        Self { begun, take }
    }
}

impl<F: FnMut(&str)> Write for ByLine<F> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        for part in piece.split_inclusive(|it| *it == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(end) => {
                    self.begun.extend_from_slice(end);
                    (self.take)(&String::from_utf8_lossy(&self.begun));
                    self.begun.clear();
                }
                None => self.begun.extend_from_slice(part),
            }
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_come_in_pieces() {
        let mut lines = Vec::new();
        let mut to = ByLine::new(|it: &str| lines.push(it.to_owned()));
        for piece in [&b"*fil"[..], b"ter\n:IN", b"", b"PUT\n\n\xff", b"\nCOM"] {
            to.write_all(piece).unwrap();
        }
        assert_eq!(lines, ["*filter", ":INPUT", "", "\u{fffd}"]);
    }
}
