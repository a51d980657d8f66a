//! Bytes as text, and foreign text in messages: field paths, quotes, escapes.

use crate::{Place, Read, SyntaxError};

/// The bytes as text. A NUL byte would end the file for the parser.
///
/// # Errors
///
/// The bytes are not UTF-8, or have a control character other than tab and line end. The place is
/// the line in `bytes`.
pub fn readable(bytes: &[u8]) -> Read<&str> {
    let fail = |offset: usize, message: String| {
        let lines = bytes[..offset].iter().filter(|it| **it == b'\n').count();
        let line = u32::try_from(lines + 1).unwrap_or(u32::MAX);
        SyntaxError::at(Place { line, column: 1 }, message)
    };
    let is_bad = |it: &u8| (*it < 0x20 && !b"\t\n\r".contains(it)) || *it == 0x7f;
    match (std::str::from_utf8(bytes), bytes.iter().position(is_bad)) {
        (Err(error), _) => fail(error.valid_up_to(), "not UTF-8".to_owned()),
        (Ok(_), Some(at)) => fail(at, format!("control character 0x{:02x}", bytes[at])),
        (Ok(text), None) => Ok(text),
    }
}

/// Adds a field to a path: `.name`, or `[a/b]` for a name with a slash such as a label.
pub fn push_field(path: &mut String, name: &str) {
    if name.contains('/') {
        *path += &format!("[{name}]");
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Adds a position in a list to a path.
pub fn push_index(path: &mut String, index: usize) {
    *path += &format!("[{index}]");
}

/// A foreign text in quotes, escaped and cut to a readable length.
pub fn quoted(text: &str) -> String {
    const MAX: usize = 64;
    if text.chars().nth(MAX).is_none() {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(MAX).collect();
    format!("{head:?}...")
}

/// The text with control characters escaped: a problem is one line whatever a file is called.
pub fn escaped(text: &str) -> String {
    let escape = |it: char| match it.is_control() {
        true => it.escape_default().collect::<String>(),
        false => it.to_string(),
    };
    text.chars().map(escape).collect()
}
