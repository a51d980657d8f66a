//! Lists of sources that may connect (`spec.loadBalancerSourceRanges`): one set and one chain for each
//! distinct list, shared by all frontends that have it.
//!
//! A set of frontend and range together would be slow: the kernel's set of concatenated ranges
//! (`nft_set_pipapo.c`) is copied and laid out again with each transaction, in more than linear time.

use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use sha2::{Digest, Sha256};
use sluice_model::IpFamily;

use crate::name::{ChainName, OUTSIDE_SOURCE_RANGES};
use crate::object::{Chain, Key, Object, Rules};
use crate::rule::{Action, Fields, Match, Rule, Sense, SetRef};

/// How the names of lists begin.
const PREFIX: &str = "sources/";

/// Name of a list's set and chain: a hash of its content. 128 bits, so that nobody can make up a
/// list that gets the name of somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceList(u128);

impl SourceList {
    /// The name of a list.
    pub(crate) fn of(ranges: &[IpNet]) -> Self {
        let mut hash = Sha256::new();
        for range in ranges {
            match range {
                IpNet::V4(it) => hash.update(it.network().octets()),
                IpNet::V6(it) => hash.update(it.network().octets()),
            }
            hash.update([range.prefix_len()]);
        }
        let digest = hash.finalize();
        let first = digest.first_chunk().expect("a SHA-256 has 32 bytes");
        Self(u128::from_be_bytes(*first))
    }

    /// The list of this name; the inverse of `Display`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_prefix(PREFIX)?;
        let list = Self(u128::from_str_radix(digits, 16).ok()?);
        (list.to_string() == name).then_some(list)
    }
}

impl fmt::Display for SourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:032x}", self.0)
    }
}

/// The set and the chain of a list. The chain is left by who may connect.
pub(crate) fn objects(family: IpFamily, ranges: &Arc<[IpNet]>) -> (SourceList, [(Key, Object); 2]) {
    let list = SourceList::of(ranges);
    let others = Match::In(Sense::IsNot, Fields::Source, SetRef::Sources(list));
    let outside = Action::Goto(ChainName::Standing(OUTSIDE_SOURCE_RANGES));
    let chain = Chain {
        hook: None,
        comment: "".into(),
        rules: Rules::Ours(family, [Rule::when(others, outside)].into()),
    };
    let set = (Key::Sources(family, list), Object::Sources(ranges.clone()));
    let chain = (
        Key::Chain(family, ChainName::Sources(list)),
        Object::Chain(chain),
    );
    (list, [set, chain])
}
