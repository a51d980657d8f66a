//! Names of lists of sources.

use std::fmt;

use ipnet::IpNet;
use sha2::{Digest, Sha256};

/// First part of the names of lists.
const PREFIX: &str = "sources/";

/// The name of a list's set and chain: a hash of its content. It has 128 bits, so that no user can construct a list
/// that gets the name of another user's list.
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
