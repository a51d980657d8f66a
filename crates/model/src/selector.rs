//! Label selectors, in both of the forms that Kubernetes has: `a=b,c in (d,e),!f`, and an object with
//! `matchLabels` and `matchExpressions`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::name::is_subdomain;

/// A selector of objects by their labels. The empty one, the default, selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    text: Arc<str>,
    requirements: Vec<Requirement>,
}

/// One requirement of a [`Selector`], about the label of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Requirement {
    /// The label is there and has one of the values.
    In(Arc<str>, BTreeSet<Arc<str>>),
    /// The label is absent or has none of the values.
    NotIn(Arc<str>, BTreeSet<Arc<str>>),
    /// The label is there.
    Exists(Arc<str>),
    /// The label is absent.
    Absent(Arc<str>),
}

/// One of `matchExpressions`.
#[derive(Clone, Debug)]
pub struct Expression<'a> {
    pub key: &'a str,
    /// `operator`: In, NotIn, Exists, DoesNotExist.
    pub operator: &'a str,
    pub values: Vec<&'a str>,
}

/// A requirement that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct BadSelector {
    /// The requirement, as it is written.
    pub requirement: String,
    /// What is wrong with it.
    pub why: String,
}

impl Selector {
    /// Reads `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a` and `!a`, joined by commas: what `kubectl get -l`
    /// takes. A text without anything selects everything.
    ///
    /// # Errors
    ///
    /// The first requirement that cannot be read.
    pub fn parse(text: &str) -> Result<Self, BadSelector> {
        let mut requirements = Vec::new();
        if !text.trim().is_empty() {
            for part in parts(text) {
                let read = requirement(part.trim());
                requirements.push(read.map_err(|why| bad(part, why))?);
            }
        }
        Ok(Self {
            text: text.into(),
            requirements,
        })
    }

    /// Reads the object form. Without labels and expressions it selects everything.
    ///
    /// # Errors
    ///
    /// The first label or expression that cannot be read.
    pub fn of<'a>(
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        expressions: impl IntoIterator<Item = Expression<'a>>,
    ) -> Result<Self, BadSelector> {
        let equal = labels.into_iter().map(|(key, value)| Expression {
            key,
            operator: "In",
            values: vec![value],
        });
        let read = |it: Expression<'a>| {
            let part = format!("{} {} ({})", it.key, it.operator, it.values.join(","));
            expression(&it).map_err(|why| bad(&part, why))
        };
        let all = equal.chain(expressions).map(read);
        let requirements: Vec<Requirement> = all.collect::<Result<_, _>>()?;
        let text: Vec<String> = requirements.iter().map(ToString::to_string).collect();
        Ok(Self {
            text: text.join(",").into(),
            requirements,
        })
    }

    /// The selector of the objects that both select.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let texts = [&*self.text, &*other.text];
        let texts: Vec<&str> = texts
            .into_iter()
            .filter(|it| !it.trim().is_empty())
            .collect();
        Self {
            text: texts.join(",").into(),
            requirements: [&*self.requirements, &*other.requirements].concat(),
        }
    }

    /// As it is written, for the `labelSelector` of a list or watch.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// All must hold; none: everything is selected.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object is selected whose labels have these values. An object without a label passes `!=` and `notin`.
    pub fn selects<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> bool {
        let is_among = |key: &str, values: &BTreeSet<Arc<str>>| {
            value(key).is_some_and(|it| values.contains(it))
        };
        self.requirements.iter().all(|it| match it {
            Requirement::In(key, values) => is_among(key, values),
            Requirement::NotIn(key, values) => !is_among(key, values),
            Requirement::Exists(key) => value(key).is_some(),
            Requirement::Absent(key) => value(key).is_none(),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// As in the text of a selector.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = |values: &BTreeSet<Arc<str>>| {
            let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
            values.join(",")
        };
        match self {
            Self::In(key, values) if values.len() == 1 => write!(f, "{key}={}", set(values)),
            Self::In(key, values) => write!(f, "{key} in ({})", set(values)),
            Self::NotIn(key, values) => write!(f, "{key} notin ({})", set(values)),
            Self::Exists(key) => f.write_str(key),
            Self::Absent(key) => write!(f, "!{key}"),
        }
    }
}

fn bad(requirement: &str, why: String) -> BadSelector {
    BadSelector {
        requirement: requirement.trim().to_owned(),
        why,
    }
}

/// At most 80 characters of a text, in quotes and in one line.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The text between commas that are not in parentheses.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |it| {
        match it {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        it == ',' && depth == 0
    })
}

fn requirement(part: &str) -> Result<Requirement, String> {
    if part.contains('(') && !part.ends_with(')') {
        return Err("\")\" is missing".to_owned());
    }
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
    let set = rest
        .trim_end()
        .strip_suffix(')')
        .and_then(|it| it.split_once('('));
    match set.map(|(operator, values)| (operator.trim(), values)) {
        Some(("in", set)) => Ok(Requirement::In(self::key(key)?, values(set.split(','))?)),
        Some(("notin", set)) => Ok(Requirement::NotIn(self::key(key)?, values(set.split(','))?)),
        _ => Err(format!(
            "{} is no requirement such as a=b or a in (b,c)",
            quoted(part)
        )),
    }
}

fn expression(it: &Expression<'_>) -> Result<Requirement, String> {
    let (key, values) = (key(it.key)?, values(it.values.iter().copied())?);
    match (it.operator, values.is_empty()) {
        ("In", false) => Ok(Requirement::In(key, values)),
        ("NotIn", false) => Ok(Requirement::NotIn(key, values)),
        ("Exists", true) => Ok(Requirement::Exists(key)),
        ("DoesNotExist", true) => Ok(Requirement::Absent(key)),
        ("In" | "NotIn", true) => Err(format!("{} needs values", it.operator)),
        ("Exists" | "DoesNotExist", false) => Err(format!("{} takes no values", it.operator)),
        (other, _) => Err(format!(
            "{} is not one of In, NotIn, Exists, DoesNotExist",
            quoted(other)
        )),
    }
}

/// A label's key: a name of at most 63 characters, with a domain before a slash if one is there.
fn key(text: &str) -> Result<Arc<str>, String> {
    let text = text.trim();
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    let is_key = domain.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name);
    is_key
        .then(|| text.into())
        .ok_or_else(|| format!("{} is no key of a label", quoted(text)))
}

fn values<'a>(texts: impl Iterator<Item = &'a str>) -> Result<BTreeSet<Arc<str>>, String> {
    texts.map(value).collect()
}

/// A label's value, which may be empty.
fn value(text: &str) -> Result<Arc<str>, String> {
    let text = text.trim();
    let is_value = is_label_value(text);
    is_value
        .then(|| text.into())
        .ok_or_else(|| format!("{} is no value of a label", quoted(text)))
}

/// Whether a text is a value of a label: at most 63 of `[A-Za-z0-9._-]`, the ends alphanumeric, or empty.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let ends = |it: Option<u8>| it.is_none_or(|it| it.is_ascii_alphanumeric());
    let inside = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    text.len() <= 63
        && text.bytes().all(inside)
        && ends(text.bytes().next())
        && ends(text.bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &Selector) -> bool {
        let labels = [("app", "web"), ("tier", "front"), ("empty", "")];
        selector.selects(|key| labels.iter().find(|it| it.0 == key).map(|it| it.1))
    }

    #[test]
    fn requirements_are_tested() {
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
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selects(&selector), expect, "{text}");
            assert_eq!(selector.as_str(), text);
            let shown: Vec<String> = selector
                .requirements()
                .iter()
                .map(|it| it.to_string())
                .collect();
            let again = Selector::parse(&shown.join(",")).unwrap();
            assert_eq!(again.requirements(), selector.requirements(), "{text}");
        }
    }

    #[test]
    fn bad_requirements_are_named() {
        for (text, requirement, why) in [
            ("=web", "=web", "\"\" is no key of a label"),
            (
                "app in web",
                "app in web",
                "\"app in web\" is no requirement such as a=b or a in (b,c)",
            ),
            ("tier,app in (web", "app in (web", "\")\" is missing"),
            (
                "a b",
                "a b",
                "\"a b\" is no requirement such as a=b or a in (b,c)",
            ),
            ("app,,tier", "", "\"\" is no key of a label"),
            ("!", "!", "\"\" is no key of a label"),
            ("a=b=c", "a=b=c", "\"b=c\" is no value of a label"),
        ] {
            let error = Selector::parse(text).unwrap_err();
            assert_eq!(
                (&*error.requirement, &*error.why),
                (requirement, why),
                "{text}"
            );
        }
    }

    #[test]
    fn the_object_form_is_the_same_selector() {
        let of = |labels: &[(&'static str, &'static str)],
                  expressions: &[(&'static str, &'static str, &[&'static str])]| {
            let expressions = expressions
                .iter()
                .map(|(key, operator, values)| Expression {
                    key,
                    operator,
                    values: values.to_vec(),
                });
            Selector::of(labels.iter().copied(), expressions)
        };
        let selector = of(
            &[("app", "web")],
            &[
                ("tier", "In", &["front", "back"]),
                ("app", "NotIn", &["db"]),
                ("app", "Exists", &[]),
                ("old", "DoesNotExist", &[]),
            ],
        );
        let selector = selector.unwrap();
        assert_eq!(
            selector.as_str(),
            "app=web,tier in (back,front),app notin (db),app,!old"
        );
        assert_eq!(Selector::parse(selector.as_str()), Ok(selector.clone()));
        assert!(selects(&selector) && of(&[], &[]).unwrap().is_empty());
        for (operator, values, why) in [
            ("In", &[][..], "In needs values"),
            ("Exists", &["a"], "Exists takes no values"),
            (
                "Like",
                &["a"],
                "\"Like\" is not one of In, NotIn, Exists, DoesNotExist",
            ),
        ] {
            let error = of(&[], &[("app", operator, values)]).unwrap_err();
            assert_eq!(error.to_string(), why);
        }
    }
}
