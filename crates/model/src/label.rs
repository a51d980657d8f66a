//! What keys and values of labels may look like, in the words of `apimachinery/pkg/util/validation` and
//! `pkg/api/validate/content`.

use crate::name::is_label_of_any_length;

/// Whether a text is a value of a label: at most 63 of `[A-Za-z0-9._-]`, the ends alphanumeric, or empty.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    value_problems(text).is_empty()
}

/// What is wrong with the value of a label (`IsValidLabelValue`).
#[must_use]
pub fn value_problems(text: &str) -> Vec<String> {
    said([
        (text.len() > 63, "must be no more than 63 bytes"),
        (!text.is_empty() && !is_name(text), VALUE),
    ])
}

/// What is wrong with the key of a label (`IsLabelKey`): a name, with a domain before a slash if one is there.
#[must_use]
pub fn key_problems(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let mut found = match prefix {
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => {
            let problems = subdomain_problems(prefix);
            let part = |it: &String| format!("prefix part {it}");
            problems.iter().map(part).collect()
        }
        None => Vec::new(),
    };
    let problems = said([
        (name.is_empty(), "must be non-empty"),
        (name.len() > 63, "must be no more than 63 bytes"),
        (!is_name(name), NAME),
    ]);
    found.extend(problems.iter().map(|it| format!("name part {it}")));
    found
}

/// What is wrong with a DNS subdomain (`IsDNS1123Subdomain`): labels joined by dots, at most 253 bytes.
#[must_use]
pub fn subdomain_problems(text: &str) -> Vec<String> {
    said([
        (text.len() > 253, "must be no more than 253 characters"),
        (!text.split('.').all(is_label_of_any_length), SUBDOMAIN),
    ])
}

fn said<const N: usize>(checks: [(bool, &str); N]) -> Vec<String> {
    let wrong = checks.into_iter().filter(|(is_wrong, _)| *is_wrong);
    wrong.map(|(_, why)| why.to_owned()).collect()
}

/// The name part of a label.
fn is_name(text: &str) -> bool {
    let is_inside = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    let is_end = |it: char| it.is_ascii_alphanumeric();
    text.bytes().all(is_inside) && text.starts_with(is_end) && text.ends_with(is_end)
}

/// What is wrong with a text that is no DNS subdomain.
pub const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
