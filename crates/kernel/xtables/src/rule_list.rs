//! The rules of a chain in little memory.

use std::fmt::{self, Write};

use crate::parse::parse_rule;
use crate::rule::Rule;

/// Rules in their order, as text: a large ruleset has some hundred thousand of them, of which most are
/// written and never read. Lists are equal if their rules are.
#[derive(Clone)]
pub struct RuleList(
    /// The text of each rule, and a line feed.
    Box<str>,
);

impl RuleList {
    /// The rules.
    pub fn iter(&self) -> impl Iterator<Item = Rule> {
        self.texts().map(parse_rule)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.texts().count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of each rule.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator('\n')
    }
}

impl FromIterator<Rule> for RuleList {
    fn from_iter<T: IntoIterator<Item = Rule>>(rules: T) -> Self {
        let mut text = String::new();
        for rule in rules {
            writeln!(text, "{rule}").expect("a String takes all text");
        }
        Self(text.into())
    }
}

impl From<Vec<Rule>> for RuleList {
    fn from(rules: Vec<Rule>) -> Self {
        rules.into_iter().collect()
    }
}

impl PartialEq for RuleList {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.iter().eq(other.iter())
    }
}

impl Eq for RuleList {}

impl fmt::Debug for RuleList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.texts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Match, Sense, Target};

    #[test]
    fn what_goes_in_comes_out() {
        let rules = vec![
            Rule::count([]),
            Rule::when([Match::comment("a \"b\"\n")], Target::Return),
            parse_rule("-m nosuch --of 'mine' -j LOG"),
            Rule::count([]),
        ];
        let list = RuleList::from(rules.clone());
        assert_eq!((list.len(), list.is_empty()), (4, false));
        assert_eq!(list.iter().collect::<Vec<_>>(), rules);
        assert!(RuleList::from(Vec::new()).is_empty());
    }

    #[test]
    fn lists_are_equal_as_their_rules_are() {
        let (from, to) = ("10.0.0.1/32", "10.0.0.2/32");
        let matches = [
            Match::Source(Sense::Is, from.parse().expect("a prefix")),
            Match::Destination(Sense::Is, to.parse().expect("a prefix")),
        ];
        let mut turned = matches.clone();
        turned.reverse();
        let list = |it: [Match; 2]| RuleList::from(vec![Rule::when(it, Target::Drop)]);
        assert_eq!(list(matches.clone()), list(turned));
        let once = list(matches);
        let twice: RuleList = once.iter().chain(once.iter()).collect();
        assert!(once != twice && once != RuleList::from(Vec::new()));
    }
}
