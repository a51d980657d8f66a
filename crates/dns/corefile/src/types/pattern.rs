//! Regular expressions.

use std::ops::Deref;

use regex::Regex;

/// A regular expression, matched in time linear in the text. Equal patterns have equal text.
///
/// The syntax is RE2's, as in CoreDNS. Dereferences to [`Regex`].
#[derive(Clone, Debug)]
pub struct Pattern(pub(crate) Regex);

impl Deref for Pattern {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.0
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}
