//! What is wrong with a text that is no JSON, in the words of Go's decoder (`encoding/json/scanner.go`).

/// Most lists and objects within each other: a text that is read here was refused by a decoder with this limit.
const DEEPEST: usize = 128;

/// Why the text is no JSON; `None`: it is.
pub(crate) fn problem(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.document().err()
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        self.value("looking for beginning of value", DEEPEST)?;
        match self.next() {
            None => Ok(()),
            Some(_) => Err(self.wrong("after top-level value")),
        }
    }

    /// The next character that is no space.
    fn next(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.peek()
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn wrong(&self, context: &str) -> String {
        match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(it) => format!("invalid character {} {context}", quoted(it)),
        }
    }

    fn value(&mut self, context: &str, depth: usize) -> Result<(), String> {
        if depth == 0 {
            return Err("exceeded max depth".to_owned());
        }
        match self.next() {
            Some(b'{') => self.entries(b'}', depth),
            Some(b'[') => self.entries(b']', depth),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => Err(self.wrong(context)),
        }
    }

    /// What is in an object or a list.
    fn entries(&mut self, end: u8, depth: usize) -> Result<(), String> {
        self.at += 1;
        if self.next() == Some(end) {
            self.at += 1;
            return Ok(());
        }
        loop {
            let after = if end == b'}' {
                if self.next() != Some(b'"') {
                    return Err(self.wrong("looking for beginning of object key string"));
                }
                self.string()?;
                if self.next() != Some(b':') {
                    return Err(self.wrong("after object key"));
                }
                self.at += 1;
                "after object key:value pair"
            } else {
                "after array element"
            };
            self.value("looking for beginning of value", depth - 1)?;
            match self.next() {
                Some(b',') => self.at += 1,
                Some(it) if it == end => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.wrong(after)),
            }
        }
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                None | Some(..b' ') => return Err(self.wrong("in string literal")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        self.at += 1;
        match self.peek() {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|it| it.is_ascii_hexdigit()) {
                        return Err(self.wrong("in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.wrong("in string escape code")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !self.peek().is_some_and(|it| it.is_ascii_digit()) {
            return Err(self.wrong(context));
        }
        while self.peek().is_some_and(|it| it.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.chars() {
            if self.peek().map(char::from) != Some(expected) {
                let context = format!("in literal {word} (expecting '{expected}')");
                return Err(self.wrong(&context));
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// A byte as Go quotes a character.
fn quoted(byte: u8) -> String {
    match byte {
        b'"' => "'\"'".to_owned(),
        b'\'' => "'\\''".to_owned(),
        byte => format!("'{}'", escaped(char::from(byte))),
    }
}

/// A character as `strconv.Quote` of Go writes it between quotes.
pub(crate) fn escaped(it: char) -> String {
    match it {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        '\n' | '\r' | '\t' => it.escape_default().to_string(),
        it if is_printable(it) => it.to_string(),
        it if u32::from(it) < 0x80 => format!("\\x{:02x}", u32::from(it)),
        it if u32::from(it) < 0x1_0000 => format!("\\u{:04x}", u32::from(it)),
        it => format!("\\U{:08x}", u32::from(it)),
    }
}

/// Whether a character can be seen: `unicode.IsPrint` of Go.
pub(crate) fn is_printable(it: char) -> bool {
    // Escaped first in a text, characters that only change the one before would count, too.
    matches!(it, '"' | '\'' | '\\') || format!("a{it}").escape_debug().count() == 2
}
