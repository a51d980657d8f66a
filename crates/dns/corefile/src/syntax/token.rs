//! Tokens: words between white space, or texts in double quotes.

use std::sync::Arc;

use crate::{Location, Problem};

/// A word of a Corefile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Without quotes.
    pub(crate) text: String,
    /// The line of its first character.
    pub(crate) place: Location,
    /// Whether it is the first of its line. A quoted text may end on a later line than it begins.
    pub(crate) first: bool,
}

/// Splits a file into tokens.
///
/// A `#` outside of quotes begins a comment, also in the middle of a word. Within quotes `\"` is a quote and
/// every other backslash is itself. A quote within a word is itself.
pub(crate) fn tokens(file: &Arc<str>, text: &str) -> Result<Vec<Token>, Problem> {
    let mut lexer = Lexer {
        file,
        line: 1,
        first: true,
        tokens: Vec::new(),
    };
    let mut chars = text.strip_prefix('\u{feff}').unwrap_or(text).chars();
    let mut word = String::new();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {}
            '\n' => {
                lexer.end(&mut word);
                lexer.line += 1;
                lexer.first = true;
            }
            _ if c.is_whitespace() => lexer.end(&mut word),
            '#' => {
                lexer.end(&mut word);
                if chars.by_ref().any(|it| it == '\n') {
                    lexer.line += 1;
                    lexer.first = true;
                }
            }
            '"' if word.is_empty() => lexer.quoted(&mut chars)?,
            _ => word.push(c),
        }
    }
    lexer.end(&mut word);
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    file: &'a Arc<str>,
    line: u32,
    first: bool,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn end(&mut self, word: &mut String) {
        if !word.is_empty() {
            let line = self.line;
            self.push(std::mem::take(word), line);
        }
    }

    fn push(&mut self, text: String, line: u32) {
        let file = Arc::clone(self.file);
        self.tokens.push(Token {
            text,
            place: Location { file, line },
            first: std::mem::take(&mut self.first),
        });
    }

    /// The text up to the closing quote; the opening one is read already.
    fn quoted(&mut self, chars: &mut std::str::Chars<'_>) -> Result<(), Problem> {
        let (mut text, begin) = (String::new(), self.line);
        loop {
            match chars.next() {
                Some('"') => break,
                Some('\\') => match chars.next() {
                    Some('"') => text.push('"'),
                    Some(c) => {
                        self.line += u32::from(c == '\n');
                        text.extend(['\\', c]);
                    }
                    None => return Err(self.unclosed(begin)),
                },
                Some(c) => {
                    self.line += u32::from(c == '\n');
                    text.push(c);
                }
                None => return Err(self.unclosed(begin)),
            }
        }
        self.push(text, begin);
        Ok(())
    }

    fn unclosed(&self, line: u32) -> Problem {
        let file = Arc::clone(self.file);
        Problem::at(&Location { file, line }, "the quote is not closed")
    }
}

/// Replaces `{%NAME%}` and `{$NAME}` by what `variable` says. A replaced text is not read again; a reference
/// without name ends the replacing.
pub(crate) fn expand(text: &str, variable: &dyn Fn(&str) -> String) -> String {
    let text = expand_form(text, "{%", "%}", variable);
    expand_form(&text, "{$", "}", variable)
}

fn expand_form(text: &str, open: &str, close: &str, variable: &dyn Fn(&str) -> String) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(open) {
        let Some((name, after)) = after.split_once(close).filter(|(name, _)| !name.is_empty())
        else {
            break;
        };
        out.push_str(before);
        out.push_str(&variable(name));
        rest = after;
    }
    out + rest
}
