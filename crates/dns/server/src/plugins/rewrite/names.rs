//! Matches and replaces names as text.

use regex::Captures;
use sluice_corefile::{NameMatch, NameRewrite, Pattern};

/// Whether a rule is for a name, given in lower case with its last dot.
pub(super) fn matches(rule: &NameMatch, name: &str) -> bool {
    match rule {
        NameMatch::Exact(it) => name == it,
        NameMatch::Prefix(it) => name.starts_with(it),
        NameMatch::Suffix(it) => name.ends_with(it),
        NameMatch::Substring(it) => name.contains(it),
        NameMatch::Regex(it) => it.is_match(name),
    }
}

/// The new name; `None` when the rule does not match.
pub(super) fn renamed(rule: &NameRewrite, name: &str) -> Option<String> {
    let to = &rule.to;
    match &rule.name {
        NameMatch::Exact(it) => (name == it).then(|| to.clone()),
        NameMatch::Prefix(it) => Some(format!("{to}{}", name.strip_prefix(it.as_str())?)),
        NameMatch::Suffix(it) => Some(format!("{}{to}", name.strip_suffix(it.as_str())?)),
        NameMatch::Substring(it) => name.contains(it).then(|| name.replace(it, to)),
        NameMatch::Regex(it) => substituted(it, to, name),
    }
}

/// `to` with the groups of the pattern in place of `{0}`, `{1}`… `None`: the pattern does not match.
pub(super) fn substituted(pattern: &Pattern, to: &str, name: &str) -> Option<String> {
    let groups = pattern.captures(name)?;
    Some(filled(to, &groups))
}

fn filled(to: &str, groups: &Captures<'_>) -> String {
    let mut out = String::new();
    let mut rest = to;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let group = after.split_once('}').and_then(|(number, after)| {
            let number: usize = number.parse().ok()?;
            Some((groups.get(number).map_or("", |it| it.as_str()), after))
        });
        match group {
            Some((text, after)) => {
                out.push_str(text);
                rest = after;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out + rest
}
