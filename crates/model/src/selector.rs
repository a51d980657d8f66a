//! Label selectors, in both of the forms that Kubernetes has: `a=b,c in (d,e),!f`, and an object with
//! `matchLabels` and `matchExpressions`.

mod parse;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::label::{key_problems, value_problems};

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
    /// The label is a whole number above this one.
    Above(Arc<str>, i64),
    /// The label is a whole number below this one.
    Below(Arc<str>, i64),
}

/// One of `matchExpressions`.
#[derive(Clone, Debug)]
pub struct Expression<'a> {
    pub key: &'a str,
    /// `operator`: In, NotIn, Exists, DoesNotExist.
    pub operator: &'a str,
    pub values: Vec<&'a str>,
}

impl Selector {
    /// Reads `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1` and `a<1`, joined by commas: what
    /// `kubectl get -l` takes. A text without anything selects everything.
    ///
    /// # Errors
    ///
    /// What is wrong, in the words of Kubernetes' own parser.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self {
            text: text.into(),
            requirements: parse::requirements(text)?,
        })
    }

    /// Reads the object form. Without labels and expressions it selects everything.
    ///
    /// # Errors
    ///
    /// The first label or expression that cannot be read, and what is wrong with it.
    pub fn of<'a>(
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        expressions: impl IntoIterator<Item = Expression<'a>>,
    ) -> Result<Self, String> {
        let equal = labels.into_iter().map(|(key, value)| Expression {
            key,
            operator: "In",
            values: vec![value],
        });
        let read = |it: Expression<'a>| {
            let values = it.values.join(",");
            expression(&it).map_err(|why| format!("{} {} ({values}): {why}", it.key, it.operator))
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
        let number = |key: &str| value(key).and_then(|it| it.parse::<i64>().ok());
        self.requirements.iter().all(|it| match it {
            Requirement::In(key, values) => is_among(key, values),
            Requirement::NotIn(key, values) => !is_among(key, values),
            Requirement::Exists(key) => value(key).is_some(),
            Requirement::Absent(key) => value(key).is_none(),
            Requirement::Above(key, bound) => number(key).is_some_and(|it| it > *bound),
            Requirement::Below(key, bound) => number(key).is_some_and(|it| it < *bound),
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
            Self::Above(key, bound) => write!(f, "{key}>{bound}"),
            Self::Below(key, bound) => write!(f, "{key}<{bound}"),
        }
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
            "{other:?} is not one of In, NotIn, Exists, DoesNotExist"
        )),
    }
}

fn key(text: &str) -> Result<Arc<str>, String> {
    or_problems(text, &key_problems(text))
}

fn values<'a>(texts: impl Iterator<Item = &'a str>) -> Result<BTreeSet<Arc<str>>, String> {
    let value = |it| or_problems(it, &value_problems(it));
    texts.map(value).collect()
}

fn or_problems(text: &str, problems: &[String]) -> Result<Arc<str>, String> {
    if problems.is_empty() {
        return Ok(text.into());
    }
    Err(format!("{text:?}: {}", problems.join("; ")))
}

#[cfg(test)]
mod tests;
