//! The keyed objects that the ruleset is made of.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_nft::{Expr, Hook, text};

use crate::block::Block;
use crate::name::{ChainName, TABLE, netlink};
use crate::rule::Rule;
use crate::set::{Counting, Element, ElementKey, SetName};
use crate::source_list::SourceList;

/// Identity of an object of our tables. The order is the order of creation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Table(IpFamily),
    /// A set that is always there.
    Set(IpFamily, SetName),
    /// The clients of a service port, or a set that we did not make.
    NamedSet(IpFamily, Arc<str>),
    /// A list of sources that may connect.
    Sources(IpFamily, SourceList),
    Chain(IpFamily, ChainName),
    /// An element of a set that is always there.
    Element(IpFamily, SetName, ElementKey),
}

impl Key {
    /// The family of the table that the object is in.
    pub fn family(&self) -> IpFamily {
        match self {
            Self::Table(family)
            | Self::Set(family, _)
            | Self::NamedSet(family, _)
            | Self::Sources(family, _)
            | Self::Chain(family, _)
            | Self::Element(family, ..) => *family,
        }
    }

    /// The name of a set or map.
    pub(crate) fn set_name(&self) -> Option<String> {
        match self {
            Self::Set(_, set) => Some(set.to_string()),
            Self::NamedSet(_, set) => Some(set.to_string()),
            Self::Sources(_, set) => Some(set.to_string()),
            Self::Table(_) | Self::Chain(..) | Self::Element(..) => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = format_args!("{} {TABLE}", self.family().nft_name());
        match self {
            Self::Table(_) => write!(f, "table {table}"),
            Self::Set(_, set) => write!(f, "set {table} {set}"),
            Self::NamedSet(_, set) => write!(f, "set {table} {set}"),
            Self::Sources(_, set) => write!(f, "set {table} {set}"),
            Self::Chain(_, chain) => write!(f, "chain {table} {chain}"),
            Self::Element(_, set, key) => write!(f, "element {table} {set} {{ {key} }}"),
        }
    }
}

/// The comment of our tables, which identifies them as ours.
pub(crate) const TABLE_COMMENT: &str = "Sluice: Kubernetes Services of this node";

/// The content that an object should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A table of ours.
    Table,
    /// A set whose definition follows from its name and its counting.
    Set(Counting),
    /// A set that remembers the clients of a service port, and its comment. The timeout is in the rules that fill it.
    Sticky(Arc<str>),
    /// A set of sources with its members. Its name is a hash of the members, so they never change.
    Sources(Arc<[IpNet]>),
    Chain(Chain),
    Element(Element),
    /// An object with one of our names that we would not have made.
    Foreign,
}

/// Objects by their keys.
pub(crate) type Objects = BTreeMap<Key, Object>;

/// A chain with its rules. The comment is not compared: the kernel takes it only when it makes the chain
/// (`nf_tables_updchain`), so a chain of an earlier version would be written again by every full sync.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The hook of a base chain; `None` when only other chains lead here.
    pub hook: Option<Hook>,
    /// Comment for people; empty when the name says enough.
    pub comment: Arc<str>,
    pub rules: Rules,
}

impl PartialEq for Chain {
    fn eq(&self, other: &Self) -> bool {
        (&self.hook, &self.rules) == (&other.hook, &other.rules)
    }
}

impl Eq for Chain {}

/// The rules of a chain: as we write them, or as the kernel lists them. The two are equal when the kernel would list
/// our rules like this.
#[derive(Clone, Debug)]
pub enum Rules {
    /// Rendered by us, for a table of this family.
    Ours(IpFamily, Arc<[Rule]>),
    /// The rules of a block of sticky endpoints. They are made when they are needed, since most blocks are only
    /// compared and found equal.
    Block(IpFamily, Block),
    /// Read from the kernel.
    Observed(Vec<Vec<Expr>>),
}

impl Rules {
    /// The rules as values; none for rules read from the kernel.
    pub fn as_rules(&self) -> Cow<'_, [Rule]> {
        match self {
            Self::Ours(_, rules) => Cow::Borrowed(rules),
            Self::Block(_, block) => Cow::Owned(block.rules()),
            Self::Observed(_) => Cow::Borrowed(&[]),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Ours(_, rules) => rules.len(),
            Self::Block(_, block) => block.members.len(),
            Self::Observed(rules) => rules.len(),
        }
    }

    /// Whether the kernel would list our rules like this.
    fn look_like(&self, family: IpFamily, seen: &[Vec<Expr>]) -> bool {
        let rules = self.as_rules();
        let mut pairs = rules.iter().zip(seen);
        rules.len() == seen.len() && pairs.all(|(rule, seen)| rule.exprs(netlink(family)) == *seen)
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Observed(a), Self::Observed(b)) => a == b,
            (ours @ (Self::Ours(family, _) | Self::Block(family, _)), Self::Observed(seen))
            | (Self::Observed(seen), ours @ (Self::Ours(family, _) | Self::Block(family, _))) => {
                ours.look_like(*family, seen)
            }
            (Self::Block(a_family, a), Self::Block(b_family, b)) => a_family == b_family && a == b,
            (
                Self::Ours(a_family, _) | Self::Block(a_family, _),
                Self::Ours(b_family, _) | Self::Block(b_family, _),
            ) => a_family == b_family && self.as_rules() == other.as_rules(),
        }
    }
}

impl Eq for Rules {}

impl Object {
    /// In the time that an element takes. A rule takes as long as several.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Chain(it) => 1 + 4 * it.rules.len(),
            Self::Sources(ranges) => 1 + ranges.len(),
            Self::Table | Self::Set(_) | Self::Sticky(_) | Self::Element(_) | Self::Foreign => 1,
        }
    }

    /// The Service of the object; empty when the object is for all Services, or when its text names the Service.
    pub(crate) fn comment(&self) -> &str {
        match self {
            Self::Element(it) => it.comment.as_deref().unwrap_or_default(),
            Self::Chain(it) => &it.comment,
            Self::Sticky(comment) => comment,
            Self::Table | Self::Set(_) | Self::Sources(_) | Self::Foreign => "",
        }
    }
}

/// As [`text::comment`], without a copy when nothing has to change: objects carry comments in the form in which the
/// kernel lists them.
pub(crate) fn shared_comment(comment: &Arc<str>) -> Arc<str> {
    match text::comment(comment) {
        Cow::Borrowed(_) => comment.clone(),
        Cow::Owned(changed) => changed.into(),
    }
}
