//! Bytes as text, and foreign text in messages: field paths, quotes, escapes.

use std::borrow::Cow;

use crate::{Position, Read, SyntaxError};

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
        SyntaxError::at(Position { line, column: 1 }, message)
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

/// The text in one line that reads as it is: every character that cannot be seen is escaped, as
/// Rust does in `{:?}` (`core/src/unicode/printable.rs`). Those are control characters, format
/// characters (U+202E turns the rest of a line around, U+200B has no width), unassigned and private
/// ones, spaces other than U+0020, and marks that are drawn over the character before them.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '"' | '\'' | '\\' => shown.push(it),
            it => shown.extend(it.escape_debug()),
        }
    }
    shown
}

/// A text of any number of lines as it leaves for a terminal or a browser: line feeds and tabs stay, every other
/// character that cannot be seen is [`escaped`].
pub fn shown(text: &str) -> Cow<'_, str> {
    let is_plain = |it: &u8| matches!(it, b' '..=b'~' | b'\n' | b'\t');
    if text.as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let pieces = text.split_inclusive(['\n', '\t']).map(|piece| {
        let end = piece.trim_end_matches(['\n', '\t']).len();
        escaped(&piece[..end]) + &piece[end..]
    });
    Cow::Owned(pieces.collect())
}

/// JSON as it leaves for a terminal, a log or a browser: characters that cannot be seen are escaped, as JSON does, so
/// that its meaning stays. Such characters are in strings only, but for line feeds and tabs, which stay.
pub fn shown_json(json: &str) -> Cow<'_, str> {
    if shown(json) == json {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len());
    for it in json.chars() {
        if matches!(it, '"' | '\'' | '\\' | '\n' | '\t') || it.escape_debug().len() == 1 {
            text.push(it);
        } else {
            let units = it.encode_utf16(&mut [0; 2]).to_vec();
            text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    Cow::Owned(text)
}

/// An error message of another program or machine as we show it: its first KiB, [`escaped`].
pub fn message(text: &str) -> String {
    const MAX: usize = 1_024;
    match text.floor_char_boundary(MAX) {
        end if end < text.len() => escaped(&text[..end]) + "...",
        _ => escaped(text),
    }
}
