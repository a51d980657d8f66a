//! `labelSelector`: equality and existence.

use std::collections::BTreeMap;

/// A parsed label selector; empty matches everything.
#[derive(Debug, Default)]
pub struct LabelSelector(Vec<Term>);

#[derive(Debug)]
struct Term {
    key: String,
    test: Test,
}

/// An object without the label passes `Not`, as in Kubernetes.
#[derive(Debug)]
enum Test {
    Exists,
    Absent,
    Is(String),
    Not(String),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,j,!k`.
    ///
    /// # Errors
    ///
    /// The term that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let terms = text.split(',').map(|term| {
            let term = term.trim();
            parse_term(term).ok_or_else(|| format!("unable to parse requirement: {term:?}"))
        });
        terms.collect::<Result<_, _>>().map(Self)
    }

    /// Whether every term holds.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|term| {
            let value = labels.get(&term.key);
            match &term.test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::Is(wanted) => value == Some(wanted),
                Test::Not(unwanted) => value != Some(unwanted),
            }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn parse_term(term: &str) -> Option<Term> {
    let value = |text: &str| text.trim().to_owned();
    let (key, test) = if let Some(key) = term.strip_prefix('!') {
        (key, Test::Absent)
    } else if let Some((key, unwanted)) = term.split_once("!=") {
        (key, Test::Not(value(unwanted)))
    } else if let Some((key, wanted)) = term.split_once("==") {
        (key, Test::Is(value(wanted)))
    } else if let Some((key, wanted)) = term.split_once('=') {
        (key, Test::Is(value(wanted)))
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
