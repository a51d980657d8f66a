//! Label selectors.

use std::collections::BTreeSet;

use super::quoted;
use crate::{LabelSelector, Requirement};

/// Reads a selector as `kubectl get -l` does: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`,
/// joined by commas.
pub(crate) fn selector(text: &str) -> Result<LabelSelector, String> {
    let requirements = parts(text)?.into_iter().map(requirement);
    let requirements = requirements.collect::<Result<_, _>>();
    Ok(LabelSelector {
        text: text.to_owned(),
        requirements: requirements
            .map_err(|why| format!("label selector {}: {why}", quoted(text)))?,
    })
}

/// The text between commas that are not in parentheses.
fn parts(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_u32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("label selector {}: \")\" is missing", quoted(text)));
    }
    parts.push(&text[begin..]);
    Ok(parts)
}

fn requirement(part: &str) -> Result<Requirement, String> {
    let part = part.trim();
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement::Absent(self::key(key)?));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(
            self::key(key)?,
            [self::value(value)?].into(),
        ));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(
            self::key(key)?,
            [self::value(value)?].into(),
        ));
    }
    let Some((key, rest)) = part.split_once(char::is_whitespace) else {
        return Ok(Requirement::Exists(self::key(part)?));
    };
    let key = self::key(key)?;
    let (operator, set) = rest.split_once('(').unwrap_or((rest, ""));
    let values = set
        .trim_end()
        .strip_suffix(')')
        .unwrap_or_default()
        .split(',');
    let values = values.map(value).collect::<Result<BTreeSet<_>, _>>()?;
    match operator.trim() {
        "in" if rest.contains('(') => Ok(Requirement::In(key, values)),
        "notin" if rest.contains('(') => Ok(Requirement::NotIn(key, values)),
        _ => Err(format!(
            "{} is no requirement such as a=b or a in (b,c)",
            quoted(part)
        )),
    }
}

/// A label's key: a name of at most 63 characters, with a domain before a slash if one is there.
fn key(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let prefix = prefix.is_none_or(|it| super::name(it).is_ok());
    if prefix && !name.is_empty() && is_label(name) {
        Ok(text.to_owned())
    } else {
        Err(format!("{} is no key of a label", quoted(text)))
    }
}

/// A label's value, which may be empty.
fn value(text: &str) -> Result<String, String> {
    let text = text.trim();
    if is_label(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{} is no value of a label", quoted(text)))
    }
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |it: Option<char>| it.is_none_or(|c| c.is_ascii_alphanumeric());
    let mut chars = text.chars();
    text.len() <= 63 && text.chars().all(inner) && ends(chars.next()) && ends(chars.next_back())
}
