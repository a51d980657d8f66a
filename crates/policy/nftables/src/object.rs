//! The keyed objects that the tables are made of.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluice_model::IpFamily;
use sluice_nft::{Datum, Expr, Hook, Set};
use sluice_policy_plan::{Member, PortRange};

use crate::TABLE;
use crate::name::{ChainName, SetName, netlink};

/// A rule of our tables.
pub type Rule = sluice_nft::Rule<SetName, ChainName>;

/// Identity of an object of our tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The table of a family.
    Table(IpFamily),
    /// A set or map.
    Set(IpFamily, SetName),
    /// A chain.
    Chain(IpFamily, ChainName),
    /// An element of a set or map.
    Element(IpFamily, SetName, Entry),
}

impl Key {
    /// The family of the table that the object is in.
    #[must_use]
    pub const fn family(&self) -> IpFamily {
        match self {
            Self::Table(family)
            | Self::Set(family, _)
            | Self::Chain(family, _)
            | Self::Element(family, ..) => *family,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = format_args!("{} {TABLE}", self.family().nft_name());
        match self {
            Self::Table(_) => write!(f, "table {table}"),
            Self::Set(_, set) => write!(f, "set {table} {set}"),
            Self::Chain(_, chain) => write!(f, "chain {table} {chain}"),
            Self::Element(_, set, entry) => write!(f, "element {table} {set} {{ {entry} }}"),
        }
    }
}

/// The key of an element.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// An address.
    Address(IpAddr),
    /// An address as source and destination.
    Itself(IpAddr),
    /// A destination address and its port.
    Port(IpAddr, u16),
    /// The addresses of a prefix.
    Prefix(IpNet),
    /// Ports of a protocol.
    Ports(PortRange),
    /// A key that we did not write.
    Foreign(Vec<u8>),
}

impl Entry {
    /// Its fields in the kernel; none for one that we did not write.
    pub(crate) fn fields(&self) -> Vec<Datum> {
        match self {
            Self::Address(address) => vec![Datum::Address(*address)],
            Self::Itself(address) => vec![Datum::Address(*address); 2],
            Self::Port(address, port) => vec![Datum::Address(*address), Datum::Port(*port)],
            Self::Prefix(net) => vec![Datum::Range(*net)],
            Self::Ports(range) => vec![
                Datum::Protocol(range.protocol.number()),
                Datum::Ports(range.first, range.last),
            ],
            Self::Foreign(..) => Vec::new(),
        }
    }
}

impl From<Member> for Entry {
    fn from(member: Member) -> Self {
        match member {
            Member::Address(address) => Self::Address(address),
            Member::Port(address, port) => Self::Port(address, port),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(key) => write!(f, "{key:02x?}"),
            _ => sluice_nft::write_fields(f, &self.fields()),
        }
    }
}

/// The content that an object should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A table of ours.
    Table,
    /// A set or map, as it is declared.
    Set(Box<Set>),
    /// A chain.
    Chain(Chain),
    /// An element.
    Element(Element),
    /// An object under one of our names that we did not make.
    Foreign,
}

impl Object {
    /// The time that it takes to write, in that of an element.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Set(_) => 10,
            Self::Chain(chain) => 5 + 3 * chain.exprs.len(),
            Self::Table | Self::Element(_) | Self::Foreign => 1,
        }
    }
}

/// An element of a set or map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The chain that it leads to, in a map.
    pub goto: Option<ChainName>,
    /// For people.
    pub comment: Option<Arc<str>>,
}

/// A chain with its rules.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The hook of a base chain; `None` when only other chains lead here.
    pub hook: Option<Hook>,
    /// Its rules, as they are written; none in a listed chain.
    pub rules: Vec<Rule>,
    /// Its rules, as the kernel has them.
    pub(crate) exprs: Vec<Vec<Expr>>,
}

impl Chain {
    pub(crate) fn new(family: IpFamily, hook: Option<Hook>, rules: Vec<Rule>) -> Self {
        let exprs = rules.iter().map(|it| it.exprs(netlink(family)));
        Self {
            hook,
            exprs: exprs.collect(),
            rules,
        }
    }
}

impl PartialEq for Chain {
    fn eq(&self, other: &Self) -> bool {
        (self.hook, &self.exprs) == (other.hook, &other.exprs)
    }
}

impl Eq for Chain {}
