//! `labelSelector`: requirements of labels, read as kube-apiserver reads them and refused in its words
//! (`apimachinery/pkg/labels/selector.go`).
//!
//! ```text
//! a=b,c notin (d,e),!f ──tokens──▶ a = b , c notin ( d , e ) , ! f ──▶ requirements
//! ```

use std::collections::{BTreeMap, BTreeSet};

use sluice_controller::Format;

/// A parsed label selector; the empty one matches every object.
#[derive(Debug, Default)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Debug)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    /// A whole number that is greater than the value.
    More,
    Less,
}

/// What stands before a value, and what it means.
const OPERATORS: [(&str, Operator); 7] = [
    ("in", Operator::In),
    ("notin", Operator::NotIn),
    ("=", Operator::In),
    ("==", Operator::In),
    ("!=", Operator::NotIn),
    (">", Operator::More),
    ("<", Operator::Less),
];

impl LabelSelector {
    /// Parses a selector.
    ///
    /// # Errors
    ///
    /// The words of the refusal.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
        };
        let mut all = Vec::new();
        loop {
            match parser.look() {
                Token::Word(_) | Token::Sign("!") => {}
                Token::End => return Ok(Self(all)),
                other => {
                    let expected = "!, identifier, or 'end of string'";
                    return Err(format!("found '{}', expected: {expected}", other.text()));
                }
            }
            let read = parser.requirement();
            all.push(read.map_err(|it| format!("unable to parse requirement: {it}"))?);
            match parser.take() {
                Token::End => return Ok(Self(all)),
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

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|it| it.holds(labels.get(&it.key)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Requirement {
    /// Checks a requirement (`NewRequirement`).
    fn new(key: &str, operator: Operator, values: BTreeSet<String>) -> Result<Self, String> {
        let mut wrong = Vec::new();
        for (at, value) in values.iter().enumerate() {
            if [Operator::More, Operator::Less].contains(&operator) && value.parse::<i64>().is_err()
            {
                wrong.push(format!(
                    "values[{at}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                ));
            }
        }
        for (at, value) in values.iter().enumerate() {
            let why = Format::LabelValue.problems(value).join("; ");
            if !why.is_empty() {
                wrong.push(format!(
                    "values[{at}][{key}]: Invalid value: {value:?}: {why}"
                ));
            }
        }
        match &*wrong {
            [] => Ok(Self {
                key: key.to_owned(),
                operator,
                values,
            }),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    fn holds(&self, label: Option<&String>) -> bool {
        let is_among = label.is_some_and(|it| self.values.contains(it));
        let number = |it: &String| it.parse::<i64>().ok();
        let numbers = label
            .and_then(number)
            .zip(self.values.first().and_then(number));
        match self.operator {
            Operator::In => is_among,
            Operator::NotIn => !is_among,
            Operator::Exists => label.is_some(),
            Operator::Absent => label.is_none(),
            Operator::More => numbers.is_some_and(|(it, bound)| it > bound),
            Operator::Less => numbers.is_some_and(|(it, bound)| it < bound),
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
        let why = Format::Qualified.problems(key).join("; ");
        if !why.is_empty() {
            // The path is that of no field.
            return Err(format!("<nil>: Invalid value: {key:?}: {why}"));
        }
        let is_alone = [Token::End, Token::Sign(",")].contains(&self.look());
        if is_absent || is_alone {
            let operator = if is_absent {
                Operator::Absent
            } else {
                Operator::Exists
            };
            return Requirement::new(key, operator, BTreeSet::new());
        }
        let sign = self.take().text();
        let Some((_, operator)) = OPERATORS.iter().find(|(it, _)| *it == sign) else {
            return Err(format!(
                "found '{sign}', expected: in, notin, =, ==, !=, gt, lt"
            ));
        };
        let values = match sign {
            "in" | "notin" => self.values()?,
            _ => [self.value()?].into(),
        };
        Requirement::new(key, *operator, values)
    }

    /// One value, which may be empty.
    fn value(&mut self) -> Result<String, String> {
        match self.look() {
            Token::End | Token::Sign(",") => Ok(String::new()),
            Token::Word(value) => {
                self.take();
                Ok(value.to_owned())
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// Values in parentheses, each of which may be empty: `(a,,b)`.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
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
                    all.insert(value.to_owned());
                    if !matches!(next, Token::Sign("," | ")")) {
                        return wrong(next, ", expected: ',' or ')'");
                    }
                }
                (Token::Sign(","), next) => {
                    if all.is_empty() || matches!(next, Token::Sign("," | ")")) {
                        all.insert(String::new());
                    }
                }
                (Token::Sign(")"), _) => {
                    if all.is_empty() {
                        all.insert(String::new());
                    }
                    return Ok(all);
                }
                (other, _) => return wrong(other, ", expected: ',', or identifier"),
            }
        }
    }
}

#[cfg(test)]
mod tests;
