//! Rules of our tables: those of `sluice-nft`, which name sets and chains by our own types.

use std::fmt;
use std::sync::Arc;

use sluice_nft::rule;
pub(crate) use sluice_nft::rule::ConnectionState;
pub use sluice_nft::rule::{Field, Sense, Side};

use crate::name::ChainName;
use crate::set::SetName;
use crate::source_list::SourceList;

/// One rule: all matches must hold, then the actions happen in order.
pub type Rule = rule::Rule<SetRef, ChainName>;

/// A condition on a packet.
pub type Match = rule::Match<SetRef>;

/// An action on a packet.
pub type Action = rule::Action<SetRef, ChainName>;

/// A set that a rule refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetRef {
    /// A set that is always there.
    Standing(SetName),
    /// A list of sources that may connect.
    Sources(SourceList),
    /// The clients of a service port.
    Clients(Arc<str>),
}

impl fmt::Display for SetRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standing(name) => name.fmt(f),
            Self::Sources(list) => list.fmt(f),
            Self::Clients(name) => name.fmt(f),
        }
    }
}
