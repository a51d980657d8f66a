//! `labelSelector`: equality, sets and existence.

use std::collections::BTreeMap;

/// A parsed label selector; empty matches everything.
#[derive(Debug, Default)]
pub(crate) struct LabelSelector(Vec<Term>);

#[derive(Debug)]
struct Term {
    key: String,
    test: Test,
}

/// An object without the label passes `NotIn`, as in Kubernetes.
#[derive(Debug)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    ///
    /// # Errors
    ///
    /// The term that cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let terms = terms(text).into_iter().map(|term| {
            let term = term.trim();
            parse_term(term).ok_or_else(|| format!("unable to parse requirement: {term:?}"))
        });
        terms.collect::<Result<_, _>>().map(Self)
    }

    /// Whether every term holds.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|term| {
            let value = labels.get(&term.key);
            match &term.test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(set) => value.is_some_and(|it| set.contains(it)),
                Test::NotIn(set) => value.is_none_or(|it| !set.contains(it)),
            }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Splits at the commas outside parentheses.
fn terms(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(move |it: char| {
        depth += i32::from(it == '(') - i32::from(it == ')');
        it == ',' && depth == 0
    });
    if text.trim().is_empty() {
        Vec::new()
    } else {
        parts.collect()
    }
}

fn parse_term(term: &str) -> Option<Term> {
    let one = |value: &str| vec![value.trim().to_owned()];
    let (key, test) = if let Some(key) = term.strip_prefix('!') {
        (key, Test::Absent)
    } else if let Some((key, value)) = term.split_once("!=") {
        (key, Test::NotIn(one(value)))
    } else if let Some((key, value)) = term.split_once("==") {
        (key, Test::In(one(value)))
    } else if let Some((key, value)) = term.split_once('=') {
        (key, Test::In(one(value)))
    } else if let Some((key, values)) = term.split_once(" notin ") {
        (key, Test::NotIn(set(values)?))
    } else if let Some((key, values)) = term.split_once(" in ") {
        (key, Test::In(set(values)?))
    } else {
        (term, Test::Exists)
    };
    let key = key.trim();
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_./".contains(it);
    (!key.is_empty() && key.chars().all(plain)).then(|| Term {
        key: key.to_owned(),
        test,
    })
}

fn set(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    Some(inner.split(',').map(|it| it.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_tested() {
        let labels = [("app", "web"), ("tier", "front"), ("empty", "")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = labels.into();
        for (text, expect) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app=web,tier=back", false),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (web, api),tier", true),
            ("app in (api)", false),
            ("app notin (web,api)", false),
            ("other notin (web)", true),
            ("empty=", true),
            ("!service.kubernetes.io/headless,app", true),
        ] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.matches(&labels), expect, "{text}");
        }
    }

    #[test]
    fn bad_terms_are_named() {
        for text in ["=web", "app in web", "a b", "app,,tier", "!"] {
            let error = LabelSelector::parse(text).unwrap_err();
            assert!(
                error.contains("unable to parse requirement"),
                "{text}: {error}"
            );
        }
    }
}
