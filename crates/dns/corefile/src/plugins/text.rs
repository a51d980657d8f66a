//! Texts of `template`: the part of Go's `text/template` that needs no control flow.

use crate::values::{number, quoted};
use crate::{Pattern, Text, TextPart, TextValue};

/// Reads a text with actions in `{{` and `}}`: `.Name`, `.Type`, `.Class`, `.Zone`, `.Remote`, `.Group.NAME`,
/// `index .Match N`, `index .Group "NAME"`, `parseInt VALUE BASE BITS`, texts in quotes, comments. `{{-` and
/// `-}}` cut the white space beside them.
pub(super) fn parse(text: &str) -> Result<Text, String> {
    let (mut parts, mut rest, mut cut) = (Vec::new(), text, false);
    while let Some((literal, after)) = rest.split_once("{{") {
        let (inner, after) =
            split(after).ok_or_else(|| format!("{}: \"}}}}\" is missing", quoted(text)))?;
        // Go wants white space between the minus and what stands inside.
        let (inner, cut_left) = match inner.strip_prefix('-') {
            Some(it) if it.starts_with(char::is_whitespace) => (it, true),
            _ => (inner, false),
        };
        let (inner, cut_right) = match inner.strip_suffix('-') {
            Some(it) if it.ends_with(char::is_whitespace) => (it, true),
            _ => (inner, false),
        };
        let literal = if cut { literal.trim_start() } else { literal };
        let literal = if cut_left {
            literal.trim_end()
        } else {
            literal
        };
        push(&mut parts, literal);
        match action(inner.trim())? {
            Some(TextPart::Literal(text)) => push(&mut parts, &text),
            Some(part) => parts.push(part),
            None => {}
        }
        (rest, cut) = (after, cut_right);
    }
    push(&mut parts, if cut { rest.trim_start() } else { rest });
    Ok(Text { parts })
}

fn push(parts: &mut Vec<TextPart>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(TextPart::Literal(before)) => before.push_str(text),
        _ => parts.push(TextPart::Literal(text.to_owned())),
    }
}

/// What stands before the end of an action, and what after it. A text in quotes may contain `}}`.
fn split(text: &str) -> Option<(&str, &str)> {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match quote {
            Some('"') if c == '\\' && !escaped => {
                escaped = true;
                continue;
            }
            Some(end) if c == end && !escaped => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '`') => quote = Some(c),
            None if text[at..].starts_with("}}") => return Some((&text[..at], &text[at + 2..])),
            None => {}
        }
        escaped = false;
    }
    None
}

/// One action; `None` for a comment.
fn action(text: &str) -> Result<Option<TextPart>, String> {
    let unsupported = || {
        format!(
            "{} is not supported, only .Name, .Type, .Class, .Zone, .Remote, .Group.NAME, index .Match N, \
             index .Group NAME and parseInt are",
            quoted(&format!("{{{{ {text} }}}}"))
        )
    };
    if text.starts_with("/*") && text.ends_with("*/") {
        return Ok(None);
    }
    if let Some(text) = literal(text) {
        return Ok(Some(TextPart::Literal(text)));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    if let ["parseInt", value @ .., base, bits] = &*words {
        let value = self::value(value).ok_or_else(unsupported)?;
        let (base, bits) = (number(base, 2..=36)?, number(bits, 0..=64)?);
        // As in strconv.ParseUint, 0 bits are those of an int.
        let bits = if bits == 0 { 64 } else { bits };
        return Ok(Some(TextPart::Number { value, base, bits }));
    }
    value(&words)
        .map(|it| Some(TextPart::Value(it)))
        .ok_or_else(unsupported)
}

/// A text in quotes without escapes that need more than `\"` and `\\`.
fn literal(text: &str) -> Option<String> {
    if let Some(text) = text.strip_prefix('`').and_then(|it| it.strip_suffix('`')) {
        return (!text.contains('`')).then(|| text.to_owned());
    }
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let (mut out, mut chars) = (String::new(), inner.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => out.push(chars.next().filter(|it| matches!(it, '"' | '\\'))?),
            _ => out.push(c),
        }
    }
    Some(out)
}

fn value(words: &[&str]) -> Option<TextValue> {
    // `(index .Match 1)` is one value for parseInt.
    let joined = words.join(" ");
    if let Some(inner) = joined.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
        return value(&inner.split_whitespace().collect::<Vec<_>>());
    }
    Some(match words {
        [".Name"] => TextValue::Name,
        [".Type"] => TextValue::Type,
        [".Class"] => TextValue::Class,
        [".Zone"] => TextValue::Zone,
        [".Remote"] => TextValue::Remote,
        ["index", ".Match", number] => TextValue::Match(number.parse().ok()?),
        ["index", ".Group", name] => TextValue::Group(literal(name)?),
        [name] => TextValue::Group(
            name.strip_prefix(".Group.")
                .filter(|it| is_name(it))?
                .to_owned(),
        ),
        _ => return None,
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// The values in a text.
pub(super) fn values(text: &Text) -> impl Iterator<Item = &TextValue> {
    text.parts.iter().filter_map(|it| match it {
        TextPart::Literal(_) => None,
        TextPart::Value(value) | TextPart::Number { value, .. } => Some(value),
    })
}

/// Whether a pattern has the group that a value stands for.
pub(super) fn has(pattern: &Pattern, value: &TextValue) -> Result<(), String> {
    let shown = quoted(pattern.as_str());
    match value {
        TextValue::Match(group) if *group >= pattern.captures_len() => {
            Err(format!("the pattern {shown} has no group {group}"))
        }
        TextValue::Group(name) if pattern.capture_names().flatten().all(|it| it != name) => {
            Err(format!("the pattern {shown} has no group {}", quoted(name)))
        }
        _ => Ok(()),
    }
}
