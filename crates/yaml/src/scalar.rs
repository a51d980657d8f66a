//! What a scalar means.

use std::borrow::Cow;

/// A text from a file.
#[derive(Clone, Debug)]
pub struct Scalar<'a> {
    /// The text, escapes resolved.
    pub text: Cow<'a, str>,
    /// Written without quotes, so it may mean something other than its text.
    pub plain: bool,
}

/// The meaning of a scalar under YAML 1.1 as sigs.k8s.io/yaml (go-yaml v2) has it, so that a
/// manifest means here what it means to `kubectl`:
/// quoted and block texts are strings; of the plain ones, `~ null` and nothing are null,
/// `true yes on y` and their opposites are booleans, `0x50 0b101 0o17 017 1_000` are integers
/// (a leading zero is octal), `8080.0 8e3` are floats; the rest, dates too, are strings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Meaning {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// An integer that does not fit in 64 bits.
    Huge,
    /// A string: quoted, or plain and none of the others.
    Text,
}

impl Scalar<'_> {
    /// The text, if that is what the scalar means.
    pub fn as_text(&self) -> Option<&str> {
        (self.meaning() == Meaning::Text).then_some(&*self.text)
    }

    /// What the scalar means.
    pub fn meaning(&self) -> Meaning {
        if !self.plain {
            return Meaning::Text;
        }
        match &*self.text {
            "" | "~" | "null" | "Null" | "NULL" => Meaning::Null,
            "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
                Meaning::Bool(true)
            }
            "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n"
            | "N" => Meaning::Bool(false),
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Meaning::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Meaning::Float(f64::NEG_INFINITY),
            ".nan" | ".NaN" | ".NAN" => Meaning::Float(f64::NAN),
            text => number(text),
        }
    }
}

fn number(text: &str) -> Meaning {
    let first = text.trim_start_matches(['+', '-', '.']).bytes().next();
    if !first.is_some_and(|it| it.is_ascii_digit()) {
        return Meaning::Text;
    }
    // What begins with a digit and parses as `f64` is a float of YAML 1.1, too.
    let digits = text.replace('_', "");
    let float = || digits.parse().map_or(Meaning::Text, Meaning::Float);
    integer(&digits).unwrap_or_else(float)
}

fn integer(text: &str) -> Option<Meaning> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefix = unsigned.get(..2).unwrap_or_default();
    let (radix, digits) = match prefix {
        "0x" | "0X" => (16, &unsigned[2..]),
        "0o" | "0O" => (8, &unsigned[2..]),
        "0b" | "0B" => (2, &unsigned[2..]),
        _ if unsigned.len() > 1 && unsigned.starts_with('0') => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    if digits.is_empty() || !digits.chars().all(|it| it.is_digit(radix)) {
        return None;
    }
    let Ok(value) = i128::from_str_radix(digits, radix) else {
        return Some(Meaning::Huge);
    };
    let value = if text.starts_with('-') { -value } else { value };
    Some(i64::try_from(value).map_or(Meaning::Huge, Meaning::Int))
}
