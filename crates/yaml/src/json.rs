//! JSON text → the same tree.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::build::{Parsed, mark_repeated};
use super::{Key, MAX_DEPTH, MAX_NODES, Node, Position, Read, Scalar, SyntaxError, Value};

/// Reads the JSON values of a text, one after the other.
pub fn parse_json(text: &str) -> Parsed<'_> {
    let mut reader = Reader {
        text,
        at: 0,
        line: 1,
        line_start: 0,
        nodes: 0,
        repeated_keys: false,
    };
    let mut documents = Vec::new();
    let mut error = None;
    while error.is_none() && reader.peek().is_some() {
        match reader.value(0) {
            Ok(node) => documents.push(node),
            Err(why) => error = Some(why),
        }
    }
    Parsed {
        documents,
        repeated_keys: reader.repeated_keys,
        error,
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    nodes: usize,
    repeated_keys: bool,
}

impl<'a> Reader<'a> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at)? {
                b'\n' => {
                    self.line += 1;
                    self.line_start = self.at + 1;
                }
                b' ' | b'\t' | b'\r' => {}
                other => return Some(*other),
            }
            self.at += 1;
        }
    }

    fn place(&self) -> Position {
        let column = u32::try_from(self.at - self.line_start).unwrap_or(u32::MAX);
        Position {
            line: self.line,
            column: column.saturating_add(1),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Read<T> {
        SyntaxError::at(self.place(), message)
    }

    fn value(&mut self, depth: usize) -> Read<Node<'a>> {
        let next = self.peek();
        let place = self.place();
        self.nodes += 1;
        if depth > MAX_DEPTH {
            return self.fail(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        if self.nodes > MAX_NODES {
            return self.fail(format!("more than {MAX_NODES} values in one file"));
        }
        let value = match next {
            Some(b'{') => {
                let mut entries = self.elements(b'}', |it| it.entry(depth + 1))?;
                self.repeated_keys |= mark_repeated(&mut entries);
                Value::Map(entries)
            }
            Some(b'[') => Value::List(self.elements(b']', |it| it.value(depth + 1))?),
            Some(b'"') => {
                let (text, plain) = (self.string()?, false);
                Value::Scalar(Scalar { text, plain })
            }
            Some(_) => self.literal()?,
            None => return self.fail("the file ends inside a value"),
        };
        Ok(Node { place, value })
    }

    /// Reads from an opening bracket to `close`, each element with `read`.
    fn elements<T>(&mut self, close: u8, read: impl Fn(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        self.at += 1;
        let mut elements = Vec::new();
        let mut is_closed = self.peek() == Some(close);
        while !is_closed {
            elements.push(read(self)?);
            match self.peek() {
                Some(b',') => self.at += 1,
                next if next == Some(close) => is_closed = true,
                _ => return self.fail(format!("expected ',' or '{}'", char::from(close))),
            }
        }
        self.at += 1;
        Ok(elements)
    }

    fn entry(&mut self, depth: usize) -> Read<(Key<'a>, Node<'a>)> {
        if self.peek() != Some(b'"') {
            return self.fail("expected a key in double quotes");
        }
        let key = Key {
            place: self.place(),
            text: self.string()?,
            repeated: false,
        };
        if self.peek() != Some(b':') {
            return self.fail("expected ':' after a key");
        }
        self.at += 1;
        Ok((key, self.value(depth)?))
    }

    /// Reads `true`, `false`, `null` or a number.
    fn literal(&mut self) -> Read<Value<'a>> {
        let rest = &self.text[self.at..];
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && !"+-.".contains(it));
        let word = &rest[..end.unwrap_or(rest.len())];
        if serde_json::from_str::<IgnoredAny>(word).is_err() {
            return self.fail("expected a value");
        }
        self.at += word.len();
        let text = Cow::Borrowed(word);
        Ok(Value::Scalar(Scalar { text, plain: true }))
    }

    /// A text in double quotes, borrowed where it has no escape.
    fn string(&mut self) -> Read<Cow<'a, str>> {
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let rest = &self.text[self.at..];
            let end = rest.find(|it: char| matches!(it, '"' | '\\' | '\0'..' '));
            let (run, rest) = rest.split_at(end.unwrap_or(rest.len()));
            self.at += run.len();
            text += run;
            match rest.as_bytes().first() {
                Some(b'"') => break,
                Some(b'\\') => self.escape(text.to_mut())?,
                _ => return self.fail("a text does not end in its line"),
            }
        }
        self.at += 1;
        Ok(text)
    }

    fn escape(&mut self, text: &mut String) -> Read<()> {
        text.push(match self.text.as_bytes().get(self.at + 1) {
            Some(it @ (b'"' | b'\\' | b'/')) => char::from(*it),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(text),
            _ => return self.fail("an escape that JSON does not know"),
        });
        self.at += 2;
        Ok(())
    }

    /// A run of `\uXXXX`, UTF-16; half a surrogate pair becomes U+FFFD, as in Go.
    fn unicode(&mut self, text: &mut String) -> Read<()> {
        let mut units = Vec::new();
        while self.text[self.at..].starts_with("\\u") {
            let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or_default();
            let is_hex = digits.bytes().all(|it| it.is_ascii_hexdigit());
            match u16::from_str_radix(digits, 16) {
                Ok(unit) if is_hex => units.push(unit),
                _ => return self.fail("expected four hexadecimal digits after \\u"),
            }
            self.at += 6;
        }
        let chars = char::decode_utf16(units);
        text.extend(chars.map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER)));
        Ok(())
    }
}
