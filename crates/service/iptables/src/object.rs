//! Objects: whole chains, and single rules in chains that many owners share.
//!
//! A chain with one owner is one object with all its rules. A chain to which every Service adds rules is a
//! [`Key::Common`] with a [`Key::Rule`] for each rule, so that a change writes only the rules that change,
//! and the other rules keep their counters.

use std::fmt;
use std::sync::Arc;

use sluice_model::IpFamily;
use sluice_plane::RuleKey;
use sluice_xtables::rule::{ChainName, Rule, Table};
use sluice_xtables::rule_list::RuleList;

/// A chain of one family's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainId {
    /// iptables or ip6tables.
    pub family: IpFamily,
    pub table: Table,
    pub chain: ChainName,
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.family, self.table, self.chain)
    }
}

/// Identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A chain that one owner writes, with its rules.
    Chain(ChainId),
    /// A chain that many owners add rules to: that it is there.
    Common(ChainId),
    /// A rule in a common chain. Two of them never contradict each other, so their order is free,
    /// except that one that counts packets stands before the one that it counts them for.
    Rule(ChainId, Arc<Rule>),
    /// The rules with which a common chain ends.
    Tail(ChainId),
    /// Our rules in a chain of the kernel, in their order, before or between those of others.
    Jumps(ChainId),
}

impl Key {
    pub fn place(&self) -> &ChainId {
        match self {
            Self::Chain(it)
            | Self::Common(it)
            | Self::Rule(it, _)
            | Self::Tail(it)
            | Self::Jumps(it) => it,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(it) | Self::Common(it) => write!(f, "{it}"),
            Self::Rule(it, rule) => write!(f, "{it}: {rule}"),
            Self::Tail(it) => write!(f, "{it}: last rules"),
            Self::Jumps(it) => write!(f, "{it}: jumps"),
        }
    }
}

/// The content of an object beside its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A common chain or a rule in one: present.
    Present,
    /// These rules in this order: a chain, a tail, jumps.
    Rules(RuleList),
}

impl RuleKey for Key {
    type Object = Object;

    fn table(&self) -> Option<(IpFamily, &'static str)> {
        let place = self.place();
        Some((place.family, place.table.as_str()))
    }

    fn rules(&self, object: &Object) -> usize {
        match (self, object) {
            (_, Object::Rules(rules)) => rules.len(),
            (Self::Rule(..), Object::Present) => 1,
            (_, Object::Present) => 0,
        }
    }

    /// Most chains are those of endpoints, which have two rules.
    fn usual(&self) -> usize {
        match self {
            Self::Common(_) => 0,
            Self::Rule(..) => 1,
            Self::Chain(_) | Self::Tail(_) | Self::Jumps(_) => 2,
        }
    }
}

pub(crate) fn rules(key: &Key, object: &Object) -> Vec<Rule> {
    match (key, object) {
        (Key::Rule(_, rule), _) => vec![Rule::clone(rule)],
        (_, Object::Rules(rules)) => rules.iter().collect(),
        (_, Object::Present) => Vec::new(),
    }
}
