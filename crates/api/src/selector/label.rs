//! `labelSelector`: equality, sets and existence.

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
    /// One of these.
    In(Vec<String>),
    Not(Vec<String>),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    ///
    /// # Errors
    ///
    /// The term that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut depth = 0;
        let terms = text.split(move |it| {
            depth += match it {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            it == ',' && depth <= 0
        });
        let terms = terms.map(|term| {
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
                Test::In(wanted) => value.is_some_and(|it| wanted.contains(it)),
                Test::Not(unwanted) => value.is_none_or(|it| !unwanted.contains(it)),
            }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn parse_term(term: &str) -> Option<Term> {
    let value = |text: &str| vec![text.trim().to_owned()];
    let values = |text: &str| {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        let values = inner.split(',').map(|it| it.trim().to_owned());
        Some(values.collect::<Vec<_>>())
    };
    let (key, test) = if let Some((key, unwanted)) = term.split_once(" notin ") {
        (key, Test::Not(values(unwanted)?))
    } else if let Some((key, wanted)) = term.split_once(" in ") {
        (key, Test::In(values(wanted)?))
    } else if let Some(key) = term.strip_prefix('!') {
        (key, Test::Absent)
    } else if let Some((key, unwanted)) = term.split_once("!=") {
        (key, Test::Not(value(unwanted)))
    } else if let Some((key, wanted)) = term.split_once("==") {
        (key, Test::In(value(wanted)))
    } else if let Some((key, wanted)) = term.split_once('=') {
        (key, Test::In(value(wanted)))
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
            ("app in (db, web),tier", true),
            ("app in (db)", false),
            ("other in (db)", false),
            ("app notin (db,web)", false),
            ("app notin (db),other notin (x)", true),
            ("!service.kubernetes.io/headless,app", true),
        ] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.matches(&labels), expect, "{text}");
        }
    }

    #[test]
    fn bad_terms_are_named() {
        for text in ["=web", "app in web", "app in (web", "a b", "app,,tier", "!"] {
            let error = LabelSelector::parse(text).unwrap_err();
            assert!(
                error.contains("unable to parse requirement"),
                "{text}: {error}"
            );
        }
    }
}
