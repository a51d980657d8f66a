//! Text side by side on a terminal.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// Puts two blocks beside each other, the left one padded to `width` characters.
pub(super) fn beside(left: &str, right: &str, width: usize) -> String {
    let mut lines = Vec::new();
    let (mut left, mut right) = (left.lines(), right.lines());
    loop {
        let (l, r) = (left.next(), right.next());
        if l.is_none() && r.is_none() {
            return lines.join("\n");
        }
        let (l, r) = (l.unwrap_or(""), r.unwrap_or(""));
        let padding = width.saturating_sub(l.chars().count());
        let line = format!("{l}{:padding$}  {r}", "");
        lines.push(line.trim_end().to_owned());
    }
}

/// A heading; bold on a terminal unless `NO_COLOR` is set.
pub(super) fn heading(text: &str) -> String {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut out = String::new();
    let written = match colour {
        true => write!(out, "\n\x1b[1m{text}\x1b[0m"),
        false => write!(out, "\n{text}"),
    };
    written.expect("writing to a string cannot fail");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_is_longer() {
        assert_eq!(beside("a\nbb█", "1", 4), "a     1\nbb█");
        assert_eq!(beside("a", "1\n2", 2), "a   1\n    2");
        assert_eq!(beside("", "", 3), "");
    }
}
