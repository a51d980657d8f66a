//! Labels of an object.

use std::fmt;
use std::sync::Arc;

/// `metadata.labels`, ordered by key. A clone is a pointer: a source makes equal sets one, since the pods of a
/// Deployment all have the same. No labels take no memory of their own.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Option<Arc<[Label]>>);

/// Key and value.
type Label = (Arc<str>, Arc<str>);

impl Labels {
    /// The value of a label; `None` for an object without it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let labels = self.0.as_deref()?;
        let found = labels.binary_search_by(|(it, _)| (**it).cmp(key)).ok()?;
        Some(&labels[found].1)
    }

    /// Every key with its value, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.0.iter().flat_map(|it| it.iter());
        labels.map(|(key, value)| (&**key, &**value))
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many clones of this set there are, this one included. 0 for none.
    #[must_use]
    pub fn shares(&self) -> usize {
        self.0.as_ref().map_or(0, Arc::strong_count)
    }
}

/// Of two values of one key the last one counts.
impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        let mut labels: Vec<_> = labels.into_iter().collect();
        labels.reverse();
        labels.sort_by(|(a, _), (b, _)| a.cmp(b));
        labels.dedup_by(|(a, _), (b, _)| a == b);
        Self((!labels.is_empty()).then(|| labels.into()))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_by_its_key() {
        let pairs = [("b", "2"), ("a", "1"), ("c", ""), ("a", "3")];
        let labels: Labels = pairs
            .map(|(key, value)| (key.into(), value.into()))
            .into_iter()
            .collect();
        assert_eq!(format!("{labels:?}"), r#"{"a": "3", "b": "2", "c": ""}"#);
        assert_eq!(
            (labels.get("a"), labels.get("c"), labels.get("d")),
            (Some("3"), Some(""), None)
        );
        assert!(Labels::default().is_empty() && Labels::from_iter([]).is_empty());
    }
}
