//! JSON text → the same tree.

use std::borrow::Cow;
use std::collections::HashSet;

use super::build::Parsed;
use super::{Key, MAX_DEPTH, MAX_NODES, Node, Place, Scalar, SyntaxError, Value};

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
    let repeated_keys = reader.repeated_keys;
    Parsed {
        documents,
        repeated_keys,
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

type Read<T> = Result<T, SyntaxError>;

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

    fn place(&self) -> Place {
        let column = u32::try_from(self.at - self.line_start).unwrap_or(u32::MAX);
        Place {
            line: self.line,
            column: column.saturating_add(1),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Read<T> {
        let (place, message) = (self.place(), message.into());
        Err(SyntaxError { place, message })
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
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => {
                let (text, plain) = (self.string()?, false);
                Value::Scalar(Scalar { text, plain })
            }
            Some(_) => self.literal()?,
            None => return self.fail("the file ends inside a value"),
        };
        Ok(Node { place, value })
    }

    fn map(&mut self, depth: usize) -> Read<Value<'a>> {
        self.at += 1;
        let (mut entries, mut seen) = (Vec::new(), HashSet::new());
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.fail("expected a key in double quotes");
            }
            let place = self.place();
            let text = self.string()?;
            let repeated = !seen.insert(text.clone());
            self.repeated_keys |= repeated;
            if self.peek() != Some(b':') {
                return self.fail("expected ':' after a key");
            }
            self.at += 1;
            entries.push((
                Key {
                    place,
                    text,
                    repeated,
                },
                self.value(depth + 1)?,
            ));
            if self.more(b'}')? {
                return Ok(Value::Map(entries));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Read<Value<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.more(b']')? {
                return Ok(Value::List(items));
            }
        }
    }

    /// Steps over `,` (false) or the closing bracket (true).
    fn more(&mut self, close: u8) -> Read<bool> {
        let next = self.peek();
        if next != Some(b',') && next != Some(close) {
            return self.fail(format!("expected ',' or '{}'", char::from(close)));
        }
        self.at += 1;
        Ok(next == Some(close))
    }

    fn literal(&mut self) -> Read<Value<'a>> {
        let rest = &self.text[self.at..];
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && !"+-.".contains(it));
        let word = &rest[..end.unwrap_or(rest.len())];
        if !matches!(word, "true" | "false" | "null") && !is_number(word) {
            return self.fail("expected a value");
        }
        self.at += word.len();
        let text = Cow::Borrowed(word);
        Ok(Value::Scalar(Scalar { text, plain: true }))
    }

    /// A text in double quotes, borrowed where it has no escape.
    fn string(&mut self) -> Read<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut run = start;
        loop {
            match self.text.as_bytes().get(self.at) {
                None | Some(0..0x20) => return self.fail("a text does not end in its line"),
                Some(b'"') => break,
                Some(b'\\') => {
                    let text = owned.get_or_insert_default();
                    text.push_str(&self.text[run..self.at]);
                    let unescaped = self.escape()?;
                    owned.get_or_insert_default().push(unescaped);
                    run = self.at;
                }
                Some(_) => self.at += 1,
            }
        }
        let tail = &self.text[run..self.at];
        self.at += 1;
        Ok(match owned {
            None => Cow::Borrowed(tail),
            Some(text) => Cow::Owned(text + tail),
        })
    }

    fn escape(&mut self) -> Read<char> {
        let letter = self.text.as_bytes().get(self.at + 1).copied();
        let plain = match letter {
            Some(it @ (b'"' | b'\\' | b'/')) => char::from(it),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return self.fail("an escape that JSON does not know"),
        };
        self.at += 2;
        Ok(plain)
    }

    /// `\uXXXX`, two of them for a surrogate pair; half a pair becomes U+FFFD, as in Go.
    fn unicode(&mut self) -> Read<char> {
        let first = self.unit()?;
        if let Some(single) = char::from_u32(first) {
            return Ok(single);
        }
        let rewind = self.at;
        if self.text[self.at..].starts_with("\\u") {
            let second = self.unit()?;
            if (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second) {
                let joined = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = rewind;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn unit(&mut self) -> Read<u32> {
        let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or_default();
        match u32::from_str_radix(digits, 16) {
            Ok(unit) if digits.bytes().all(|it| it.is_ascii_hexdigit()) && digits.len() == 4 => {
                self.at += 6;
                Ok(unit)
            }
            _ => self.fail("expected four hexadecimal digits after \\u"),
        }
    }
}

/// `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`
fn is_number(word: &str) -> bool {
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    let digits = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (
            mantissa,
            exponent.strip_prefix(['+', '-']).unwrap_or(exponent),
        ),
        None => (unsigned, "0"),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    digits(whole) && digits(part) && digits(exponent) && (whole == "0" || !whole.starts_with('0'))
}
