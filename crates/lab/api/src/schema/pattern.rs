//! Regular expressions of schemas, and what they cost.

use regex::bytes::{Regex, RegexBuilder};

/// A regular expression of a schema.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    read: Regex,
    /// Steps for 64 bytes of text. In the worst case a text takes time in proportion to the size of the compiled expression.
    cost: u64,
}

/// Sizes of compiled expressions in bytes, and what they cost. A larger one is refused: it costs memory, too.
const COSTS: [(usize, u64); 3] = [(16 << 10, 16), (128 << 10, 512), (1 << 20, 1 << 14)];

impl Pattern {
    /// `None`: it cannot be read.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let mut builder = RegexBuilder::new(text);
        // Go's classes are ASCII.
        builder.unicode(false);
        let mut compiled = COSTS
            .iter()
            .map(|(size, cost)| (builder.size_limit(*size).build(), cost));
        compiled.find_map(|(read, cost)| {
            Some(Self {
                text: text.into(),
                read: read.ok()?,
                cost: *cost,
            })
        })
    }

    /// What a comparison with `text` costs.
    pub(super) fn steps(&self, text: &str) -> u64 {
        self.cost * (text.len() as u64 / 64 + 1)
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.read.is_match(text.as_bytes())
    }

    /// The expression as it was given.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}
