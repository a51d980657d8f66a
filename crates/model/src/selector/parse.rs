//! The text of a selector, read as kube-apiserver and CoreDNS read it and refused in their words
//! (`apimachinery/pkg/labels/selector.go`).
//!
//! ```text
//! a=b,c notin (d,e),!f ──tokens──▶ a = b , c notin ( d , e ) , ! f ──▶ requirements
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Requirement;
use crate::label::{key_problems, value_problems};

/// The requirements of a text.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    let mut all = Vec::new();
    loop {
        match parser.look() {
            Token::Word(_) | Token::Sign("!") => {}
            Token::End => return Ok(all),
            other => {
                let expected = "!, identifier, or 'end of string'";
                return Err(format!("found '{}', expected: {expected}", other.text()));
            }
        }
        let read = parser.requirement();
        all.push(read.map_err(|it| format!("unable to parse requirement: {it}"))?);
        match parser.take() {
            Token::End => return Ok(all),
            Token::Sign(",") => match parser.look() {
                Token::Word(_) | Token::Sign("!") => {}
                other => {
                    let found = other.text();
                    return Err(format!("found '{found}', expected: identifier after ','"));
                }
            },
            other => {
                let found = other.text();
                return Err(format!("found '{found}', expected: ',' or 'end of string'"));
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, or an operator in letters.
    Word(&'a str),
    Sign(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(it) | Self::Sign(it) => it,
            Self::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_space = |it: char| [' ', '\t', '\r', '\n'].contains(&it);
    let is_sign = |it: char| "=!(),><".contains(it);
    let (mut rest, mut all) = (text, Vec::new());
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next() else {
            return all;
        };
        let is_long = rest.starts_with("==") || rest.starts_with("!=");
        let length = match first {
            _ if is_long => 2,
            it if is_sign(it) => 1,
            _ => {
                let end = rest.find(|it| is_sign(it) || is_space(it));
                end.unwrap_or(rest.len())
            }
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        all.push(if is_sign(first) {
            Token::Sign(token)
        } else {
            Token::Word(token)
        });
    }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn look(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.look();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let is_absent = self.look() == Token::Sign("!");
        if is_absent {
            self.take();
        }
        let key = match self.take() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        let why = key_problems(key).join("; ");
        if !why.is_empty() {
            // The path is that of no field.
            return Err(format!("<nil>: Invalid value: {key:?}: {why}"));
        }
        if is_absent {
            return Ok(Requirement::Absent(key.into()));
        }
        if [Token::End, Token::Sign(",")].contains(&self.look()) {
            return Ok(Requirement::Exists(key.into()));
        }
        let operator = self.take().text();
        match operator {
            "in" => Ok(Requirement::In(key.into(), checked(key, self.values()?)?)),
            "notin" => Ok(Requirement::NotIn(
                key.into(),
                checked(key, self.values()?)?,
            )),
            "=" | "==" => {
                let values = [self.value()?].into();
                Ok(Requirement::In(key.into(), checked(key, values)?))
            }
            "!=" => {
                let values = [self.value()?].into();
                Ok(Requirement::NotIn(key.into(), checked(key, values)?))
            }
            ">" => Ok(Requirement::Above(key.into(), number(key, self.value()?)?)),
            "<" => Ok(Requirement::Below(key.into(), number(key, self.value()?)?)),
            sign => Err(format!(
                "found '{sign}', expected: in, notin, =, ==, !=, gt, lt"
            )),
        }
    }

    /// One value, which may be empty.
    fn value(&mut self) -> Result<&'a str, String> {
        match self.look() {
            Token::End | Token::Sign(",") => Ok(""),
            Token::Word(value) => {
                self.take();
                Ok(value)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// Values in parentheses, each of which may be empty: `(a,,b)`.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let wrong = |token: Token<'_>, what| Err(format!("found '{}'{what}", token.text()));
        let mut all = BTreeSet::new();
        match self.take() {
            Token::Sign("(") => {}
            other => return wrong(other, " expected: '('"),
        }
        if !matches!(self.look(), Token::Word(_) | Token::Sign("," | ")")) {
            return wrong(self.look(), ", expected: ',', ')' or identifier");
        }
        loop {
            match (self.take(), self.look()) {
                (Token::Word(value), next) => {
                    all.insert(value);
                    if !matches!(next, Token::Sign("," | ")")) {
                        return wrong(next, ", expected: ',' or ')'");
                    }
                }
                (Token::Sign(","), next) => {
                    if all.is_empty() || matches!(next, Token::Sign("," | ")")) {
                        all.insert("");
                    }
                }
                (Token::Sign(")"), _) => {
                    if all.is_empty() {
                        all.insert("");
                    }
                    return Ok(all);
                }
                (other, _) => return wrong(other, ", expected: ',', or identifier"),
            }
        }
    }
}

/// Values that a label may have.
fn checked(key: &str, values: BTreeSet<&str>) -> Result<BTreeSet<Arc<str>>, String> {
    let numbered = values.iter().enumerate();
    refuse(numbered.filter_map(|(at, value)| problem(at, key, value)))?;
    Ok(values.into_iter().map(Arc::from).collect())
}

/// A whole number that a label may have: none is below zero.
fn number(key: &str, value: &str) -> Result<i64, String> {
    let number = value.parse();
    let words = "for 'Gt', 'Lt' operators, the value must be an integer";
    let wrong = number
        .is_err()
        .then(|| format!("values[0]: Invalid value: {value:?}: {words}"));
    refuse(wrong.into_iter().chain(problem(0, key, value)))?;
    number.map_err(|_| words.to_owned())
}

fn problem(at: usize, key: &str, value: &str) -> Option<String> {
    let why = value_problems(value).join("; ");
    (!why.is_empty()).then(|| format!("values[{at}][{key}]: Invalid value: {value:?}: {why}"))
}

fn refuse(wrong: impl Iterator<Item = String>) -> Result<(), String> {
    let wrong: Vec<String> = wrong.collect();
    match &*wrong {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}
